//! What the kernel counts for a process group: CPU, memory and threads, from `/proc`.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::time::ClockId;
use nix::unistd::{Pid, SysconfVar, sysconf};
use unstall_results::record::ProcessUse;

/// How often memory and threads are looked at for their maxima.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// How many samples lie between two looks for new processes of the group.
const SAMPLES_PER_SCAN: u32 = 10;

/// One look at a process group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupSample {
    /// User and system time of its processes and of their reaped children.
    pub cpu: Duration,
    /// Sum of resident sets.
    pub rss_kib: u64,
    /// Sum of threads.
    pub threads: u64,
    /// Processes; 0 when the group has ended.
    pub processes: u64,
}

/// The fields of `/proc/PID/stat` that matter here (proc(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    process_group: i32,
    own_ticks: u64,
    reaped_ticks: u64,
    threads: u64,
    start_ticks: u64,
    rss_pages: u64,
}

impl GroupSample {
    /// Looks at the group now.
    ///
    /// # Errors
    /// If `/proc` can't be read.
    pub fn take(process_group: i32) -> io::Result<Self> {
        Ok(Self::of(&members(process_group)?))
    }

    fn of(processes: &[i32]) -> Self {
        let mut sample = Self::default();
        for &process in processes {
            // A process that has ended since it was found is no error.
            if let Some(stat) = read_stat(process) {
                sample.add(process, &stat);
            }
        }
        sample
    }

    fn add(&mut self, process: i32, stat: &Stat) {
        self.cpu += own_cpu(process, stat) + ticks(stat.reaped_ticks);
        self.rss_kib += stat.rss_pages * page_kib();
        self.threads += stat.threads;
        self.processes += 1;
    }
}

/// Identifies one start of one process: its number and when it started.
pub fn start_id(process: u32) -> Option<String> {
    let stat = read_stat(i32::try_from(process).ok()?)?;
    Some(format!("{process}:{}", stat.start_ticks))
}

/// Samples a group for the length of a block.
#[derive(Debug)]
pub struct GroupSampler {
    process_group: i32,
    begun: GroupSample,
    seen: Arc<Mutex<Seen>>,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Seen {
    rss_kib_max: u64,
    threads_max: u64,
    /// The last look at which the group was alive.
    last: GroupSample,
}

impl Seen {
    fn add(&mut self, sample: &GroupSample) {
        self.rss_kib_max = self.rss_kib_max.max(sample.rss_kib);
        self.threads_max = self.threads_max.max(sample.threads);
        if sample.processes > 0 {
            self.last = *sample;
        }
    }
}

impl GroupSampler {
    /// Begins to sample.
    ///
    /// # Errors
    /// If `/proc` can't be read or no thread can be started.
    pub fn begin(process_group: i32) -> io::Result<Self> {
        let begun = GroupSample::take(process_group)?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        lock(&seen).add(&begun);
        let done = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new()
            .name("process-sampler".to_owned())
            .spawn({
                let (seen, done) = (Arc::clone(&seen), Arc::clone(&done));
                move || sample_until(&done, process_group, &seen)
            })?;
        Ok(Self {
            process_group,
            begun,
            seen,
            done,
            thread: Some(thread),
        })
    }

    /// Ends sampling; the difference and the maxima since the begin.
    ///
    /// A group that has ended meanwhile counts up to when it was last seen.
    ///
    /// # Errors
    /// If `/proc` can't be read.
    pub fn end(mut self) -> io::Result<ProcessUse> {
        let ended = GroupSample::take(self.process_group)?;
        self.halt();
        let mut seen = lock(&self.seen);
        seen.add(&ended);
        let cpu = seen.last.cpu.saturating_sub(self.begun.cpu);
        Ok(ProcessUse {
            cpu_us: u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX),
            rss_kib_max: seen.rss_kib_max,
            threads_max: seen.threads_max,
        })
    }

    fn halt(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It only samples; if it panicked, what it has seen still stands.
            let _ = thread.join();
        }
    }
}

impl Drop for GroupSampler {
    fn drop(&mut self) {
        self.halt();
    }
}

fn sample_until(done: &AtomicBool, process_group: i32, seen: &Mutex<Seen>) {
    let mut known = Vec::new();
    let mut turn = 0_u32;
    while !done.load(Ordering::Relaxed) {
        if turn.is_multiple_of(SAMPLES_PER_SCAN)
            && let Ok(found) = members(process_group)
        {
            // If the scan fails once, the processes known so far are sampled on.
            known = found;
        }
        lock(seen).add(&GroupSample::of(&known));
        turn = turn.wrapping_add(1);
        std::thread::park_timeout(SAMPLE_EVERY);
    }
}

fn lock(seen: &Mutex<Seen>) -> std::sync::MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All processes of a group.
///
/// # Errors
/// If `/proc` can't be read.
pub fn members(process_group: i32) -> io::Result<Vec<i32>> {
    let entries = fs::read_dir("/proc")
        .map_err(|error| io::Error::new(error.kind(), format!("/proc can't be read: {error}")))?;
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(numbers
        .filter(|&process| {
            read_stat(process).is_some_and(|stat| stat.process_group == process_group)
        })
        .collect())
}

/// `None` when the process has ended.
fn read_stat(process: i32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// Fields are counted from behind the name, which may hold blanks and brackets itself.
fn parse_stat(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    // Numbers as in proc(5), where the state after the name is field 3.
    let field = |number: usize| fields.get(number - 3).copied();
    let count = |number: usize| field(number)?.parse::<u64>().ok();
    if field(3)? == "Z" {
        return None;
    }
    Some(Stat {
        process_group: field(5)?.parse().ok()?,
        own_ticks: count(14)? + count(15)?,
        reaped_ticks: count(16)? + count(17)?,
        threads: count(20)?,
        start_ticks: count(22)?,
        rss_pages: count(24)?,
    })
}

/// The process' CPU clock: nanoseconds and ended threads included, where ticks are 10 ms.
fn own_cpu(process: i32, stat: &Stat) -> Duration {
    ClockId::pid_cpu_clock_id(Pid::from_raw(process))
        .and_then(ClockId::now)
        .map_or_else(|_| ticks(stat.own_ticks), Duration::from)
}

fn ticks(count: u64) -> Duration {
    let per_second = system(SysconfVar::CLK_TCK, 100);
    Duration::from_nanos(count.saturating_mul(1_000_000_000 / per_second))
}

fn page_kib() -> u64 {
    system(SysconfVar::PAGE_SIZE, 4096) / 1024
}

/// A constant of the system; the usual value where it is not told.
fn system(variable: SysconfVar, usual: u64) -> u64 {
    match sysconf(variable) {
        Ok(Some(value)) if value > 0 => value.unsigned_abs(),
        _ => usual,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_is_no_trap() {
        let text =
            "42 (a) b (c) S 1 77 77 0 -1 4194560 1 2 3 4 100 50 20 5 20 0 9 0 12345 1 2048 1";
        let stat = parse_stat(text).expect("a line of the kernel");
        assert_eq!(stat.process_group, 77);
        assert_eq!((stat.own_ticks, stat.reaped_ticks), (150, 25));
        assert_eq!(
            (stat.threads, stat.start_ticks, stat.rss_pages),
            (9, 12345, 2048)
        );
        assert_eq!(parse_stat("42 (x"), None);
        assert_eq!(parse_stat("42 (x) S 1"), None);
        assert_eq!(
            parse_stat(&text.replace(" S ", " Z ")),
            None,
            "a zombie is no member"
        );
    }

    #[test]
    fn this_very_process_is_found() {
        let group = nix::unistd::getpgrp().as_raw();
        let sample = GroupSample::take(group).expect("/proc is there");
        assert!(sample.processes >= 1);
        assert!(sample.rss_kib > 100);
        assert!(sample.threads >= sample.processes);
        assert!(start_id(std::process::id()).is_some());
    }
}
