//! The machine that measures: what it is, and how much of it was taken away meanwhile.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use unstall_results::record::Machine;

/// Reads what this machine is. Never fails: what the kernel doesn't tell is left out.
///
/// `colocated` says that generator, service and backing servers share cores.
pub fn detect(colocated: bool) -> Machine {
    let cores = cores();
    let memory_mib = memory_mib();
    let kernel = read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned());
    Machine {
        class: class(std::env::consts::ARCH, cores, memory_mib, &kernel),
        cpu: cpu_model().unwrap_or_else(|| "unknown".to_owned()),
        cores,
        memory_mib,
        kernel,
        governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        cgroup_quota_cores: cgroup_quota_cores(),
        colocated,
    }
}

/// `arch/cores/memory/os-kernel`: memory in GiB, the kernel by its two first numbers, so
/// that a patch release or some reserved memory makes no other class.
fn class(arch: &str, cores: u32, memory_mib: u64, kernel: &str) -> String {
    let version: Vec<&str> = kernel.split(['.', '-']).take(2).collect();
    let memory_gib = (memory_mib + 512) / 1024;
    let system = std::env::consts::OS;
    format!(
        "{arch}/{cores}c/{memory_gib}g/{system}-{}",
        version.join(".")
    )
}

/// Cores that this process may use.
fn cores() -> u32 {
    let allowed = sched_getaffinity(Pid::from_raw(0)).map(|set| {
        (0..CpuSet::count())
            .filter(|&core| set.is_set(core).unwrap_or(false))
            .count()
    });
    let count = match allowed {
        Ok(count) if count > 0 => count,
        _ => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    };
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn memory_mib() -> u64 {
    read("/proc/meminfo")
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
            line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .map_or(0, |kib| kib / 1024)
}

fn cpu_model() -> Option<String> {
    // The first is the usual one, the others are those of ARM kernels.
    let text = read("/proc/cpuinfo")?;
    ["model name", "Hardware", "CPU part"]
        .iter()
        .find_map(|key| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
}

/// CPU quota of this process' control group, version 2 or 1.
fn cgroup_quota_cores() -> Option<f64> {
    let groups = read("/proc/self/cgroup")?;
    let v2 = groups
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .and_then(|path| quota_on_the_way(Path::new("/sys/fs/cgroup"), path));
    v2.or_else(|| {
        let quota: f64 = read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")?.parse().ok()?;
        let period: f64 = read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")?.parse().ok()?;
        (quota > 0.0 && period > 0.0).then_some(quota / period)
    })
}

/// The smallest quota from the group up to the root: the tightest one counts.
fn quota_on_the_way(root: &Path, group: &str) -> Option<f64> {
    let folder = root.join(group.trim_start_matches('/'));
    folder
        .ancestors()
        .take_while(|ancestor| ancestor.starts_with(root))
        .filter_map(|ancestor| parse_cpu_max(&fs::read_to_string(ancestor.join("cpu.max")).ok()?))
        .reduce(f64::min)
}

/// `max 100000` or `150000 100000` (quota and period in µs).
fn parse_cpu_max(text: &str) -> Option<f64> {
    let mut words = text.split_ascii_whitespace();
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next()?.parse().ok()?;
    (period > 0.0).then_some(quota / period)
}

/// `None` when the file is missing or empty.
fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// CPU time of the whole machine at one moment, in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTimes {
    all: u64,
    stolen: u64,
}

impl CpuTimes {
    /// Reads them; `None` where the kernel doesn't tell.
    pub fn now() -> Option<Self> {
        Self::parse(&read("/proc/stat")?)
    }

    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find(|line| line.starts_with("cpu "))?;
        // user nice system idle iowait irq softirq steal; guest times are within user.
        let times: Vec<u64> = line
            .split_ascii_whitespace()
            .skip(1)
            .take(8)
            .map(str::parse)
            .collect::<Result<_, _>>()
            .ok()?;
        Some(Self {
            all: times.iter().sum(),
            stolen: *times.get(7)?,
        })
    }

    /// Share of CPU time that the hypervisor gave to others since `earlier`, 0 to 1: at
    /// least this much.
    ///
    /// The kernel tells whole ticks of 10 ms, so one of them may have been stolen almost
    /// entirely before. A short block on two cores has 20 ticks: counting that one would
    /// make 5 % of nothing, and spoil the block.
    pub fn steal_share_since(&self, earlier: &Self) -> Option<f64> {
        let all = self.all.checked_sub(earlier.all)?;
        let stolen = self.stolen.checked_sub(earlier.stolen)?.saturating_sub(1);
        (all > 0).then(|| stolen as f64 / all as f64)
    }
}

/// For how long something on the machine has waited for a core, up to one moment: the kernel's
/// pressure stall information.
#[derive(Debug, Clone, Copy)]
pub struct CpuPressure {
    some_us: u64,
    at: Instant,
}

impl CpuPressure {
    /// Reads it; `None` where the kernel doesn't tell (before Linux 4.20, or without `psi=1`).
    pub fn now() -> Option<Self> {
        let some_us = parse_pressure(&read("/proc/pressure/cpu")?)?;
        let at = Instant::now();
        Some(Self { some_us, at })
    }

    /// Share of the time since `earlier` in which at least one task was ready and had no core,
    /// 0 to 1. `None` if no time has passed, or the counter was set back.
    pub fn share_since(&self, earlier: &Self) -> Option<f64> {
        let waited = Duration::from_micros(self.some_us.checked_sub(earlier.some_us)?);
        let passed = self.at.checked_duration_since(earlier.at)?;
        // The kernel brings its sum up to date now and then, so it may be ahead of our clock.
        (!passed.is_zero()).then(|| (waited.as_secs_f64() / passed.as_secs_f64()).min(1.0))
    }
}

/// `total` of the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=123`, in µs.
fn parse_pressure(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let mut words = line.split_ascii_whitespace();
    let total = words.find_map(|word| word.strip_prefix("total="))?;
    total.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_ignores_patch_releases() {
        let of = |kernel| class("x86_64", 2, 24_081, kernel);
        assert_eq!(of("6.18.5-cloud-amd64"), of("6.18.0"));
        assert!(of("6.18.5").starts_with("x86_64/2c/24g/"));
        assert!(of("6.18.5").ends_with("-6.18"));
    }

    #[test]
    fn quotas_are_cores() {
        assert_eq!(parse_cpu_max("max 100000"), None);
        assert_eq!(parse_cpu_max("150000 100000\n"), Some(1.5));
        assert_eq!(parse_cpu_max(""), None);
    }

    #[test]
    fn steal_is_a_share_of_all_time() {
        let at = |steal| {
            CpuTimes::parse(&format!("cpu  100 0 50 800 0 0 0 {steal} 0 0\ncpu0 1"))
                .expect("a line")
        };
        assert_eq!(at(51).steal_share_since(&at(1)), Some(0.98));
        assert_eq!(
            at(1).steal_share_since(&at(0)),
            Some(0.0),
            "a tick that may have begun before"
        );
        assert_eq!(at(5).steal_share_since(&at(5)), None, "no time has passed");
        assert_eq!(CpuTimes::parse("intr 1"), None);
    }

    #[test]
    fn pressure_is_a_share_of_the_time_that_passed() {
        let text = "some avg10=1.00 avg60=0.50 avg300=4.00 total=250\nfull avg10=0.00 total=7\n";
        assert_eq!(parse_pressure(text), Some(250));
        assert_eq!(parse_pressure("full total=7"), None);
        assert_eq!(parse_pressure("some avg10=1.00"), None);
        let start = Instant::now();
        let at = |some_us, after_ms| CpuPressure {
            some_us,
            at: start + Duration::from_millis(after_ms),
        };
        assert_eq!(at(500_250, 2_000).share_since(&at(250, 0)), Some(0.25));
        assert_eq!(
            at(900, 0).share_since(&at(250, 0)),
            None,
            "no time has passed"
        );
        assert_eq!(at(100, 1).share_since(&at(250, 0)), None, "set back");
        assert_eq!(at(2_000_000, 1_000).share_since(&at(0, 0)), Some(1.0));
    }

    #[test]
    fn this_machine_is_told() {
        let machine = detect(true);
        assert!(machine.cores >= 1);
        assert!(machine.memory_mib > 0);
        assert!(!machine.kernel.is_empty());
    }
}
