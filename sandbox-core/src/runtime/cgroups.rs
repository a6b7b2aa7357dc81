//! Limits that hold for all processes of a runtime together, where this process may set them: a control
//! group of its own, below the one that it is in itself. Everything here blocks.

use std::io;
use std::path::{Path, PathBuf};
use std::process;

use rustix::event::{Timespec, poll};
use rustix::fs::{Mode, mkdir, rmdir};
use rustix::io::Errno;

use super::system_files::{read_text, write_existing};
use crate::domain::RuntimeId;
use crate::ports::runtimes::Resources;

/// The names of our groups begin so, with our process's number after it.
const PREFIX: &str = "unstall-sandbox-";

/// What limits processor time in the first version.
const CPU_QUOTA_V1: &str = "cpu.cfs_quota_us";

/// The period of a CPU's share, as the kernel has it by itself.
const CPU_PERIOD_US: u64 = 100_000;

/// How often a group is tried to be removed: the kernel lets go of it a little after its last process.
const REMOVAL_TRIES_MAX: u32 = 100;
const REMOVAL_PAUSE_NS: i64 = 5_000_000;

/// Where groups can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CgroupPlace {
    /// One tree of groups for each kind of limit.
    V1 {
        memory: PathBuf,
        pids: PathBuf,
        cpu: Option<PathBuf>,
    },
    /// One tree for all; processor time may not be ours to limit in it.
    V2 { place: PathBuf, has_cpu: bool },
}

/// A group that was made.
#[derive(Debug)]
pub(super) struct Cgroup {
    folders: Vec<PathBuf>,
}

impl CgroupPlace {
    /// Finds out whether groups can be made here, by making one, and whether they can limit processor
    /// time; and removes those of processes that are gone.
    pub(super) fn probe() -> Option<Self> {
        let mounts = read_text(Path::new("/proc/self/mountinfo")).ok()?;
        let own = read_text(Path::new("/proc/self/cgroup")).ok()?;
        let mut place = Self::find(&mounts, &own)?;
        place.sweep();
        if place.has_cpu() && place.try_out().is_err() {
            place = place.without_cpu();
        }
        // Whatever it is that refuses: then there are no groups for us.
        place.try_out().ok()?;
        Some(place)
    }

    /// Makes a group with each kind of limit, and removes it.
    fn try_out(&self) -> io::Result<()> {
        let trial = Resources {
            cpu_milli: Some(1000),
            memory_mb: Some(64),
            processes_max: Some(8),
            ..Resources::default()
        };
        let name = RuntimeId::generate().to_string(); // others may try at the same time
        self.make(&name, &trial, None)?.remove()
    }

    /// Is processor time limited, too?
    pub(super) fn has_cpu(&self) -> bool {
        match self {
            Self::V1 { cpu, .. } => cpu.is_some(),
            Self::V2 { has_cpu, .. } => *has_cpu,
        }
    }

    fn without_cpu(self) -> Self {
        match self {
            Self::V1 { memory, pids, .. } => Self::V1 {
                memory,
                pids,
                cpu: None,
            },
            Self::V2 { place, .. } => Self::V2 {
                place,
                has_cpu: false,
            },
        }
    }

    fn find(mounts: &str, own: &str) -> Option<Self> {
        let v1 = |controller: &str| {
            let mounted = Mounted::find(mounts, |kind, options| {
                kind == "cgroup" && options.split(',').any(|option| option == controller)
            })?;
            let path = own.lines().find_map(|line| {
                let (names, path) = line.split_once(':')?.1.split_once(':')?;
                names
                    .split(',')
                    .any(|name| name == controller)
                    .then_some(path)
            })?;
            Some(mounted.folder_of(path))
        };
        if let (Some(memory), Some(pids)) = (v1("memory"), v1("pids")) {
            let cpu = v1("cpu");
            return Some(Self::V1 { memory, pids, cpu });
        }
        let mounted = Mounted::find(mounts, |kind, _| kind == "cgroup2")?;
        let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
        Some(Self::V2 {
            place: mounted.folder_of(path),
            has_cpu: true,
        })
    }

    /// Makes a group with limits, and puts a process in it with all that it will start.
    ///
    /// # Errors
    /// When the kernel refuses any of it; then nothing is left of it.
    pub(super) fn make(
        &self,
        name: &str,
        resources: &Resources,
        first_process: Option<u32>,
    ) -> io::Result<Cgroup> {
        let name = format!("{PREFIX}{}-{name}", process::id());
        let mut made = Cgroup {
            folders: Vec::new(),
        };
        let done = self.fill(&mut made, &name, resources, first_process);
        if let Err(error) = done {
            made.remove()?;
            return Err(error);
        }
        Ok(made)
    }

    fn fill(
        &self,
        made: &mut Cgroup,
        name: &str,
        resources: &Resources,
        first_process: Option<u32>,
    ) -> io::Result<()> {
        for (place, limits) in self.limits(resources) {
            if let Self::V2 { place, .. } = self {
                let control = place.join("cgroup.subtree_control");
                // Already so, or refused; without them the limits below can't be written. One that is
                // refused would take the others of its line with it.
                for controllers in ["+memory +pids", "+cpu"] {
                    let _unknown = write_existing(&control, controllers);
                }
            }
            let folder = place.join(name);
            match mkdir(&folder, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            made.folders.push(folder.clone());
            for (file, text) in limits {
                match write_existing(&folder.join(file), &text) {
                    // The group above may use less than that already, which the first version refuses
                    // to be told: then that holds.
                    Err(error)
                        if file == CPU_QUOTA_V1 && error.kind() == io::ErrorKind::InvalidInput => {}
                    written => written?,
                }
            }
            if let Some(process) = first_process {
                write_existing(&folder.join("cgroup.procs"), &process.to_string())?;
            }
        }
        Ok(())
    }

    fn limits(&self, resources: &Resources) -> Vec<(PathBuf, Vec<(&'static str, String)>)> {
        let memory = resources.memory_mb.map(|mb| (mb << 20).to_string());
        let pids = resources.processes_max.map(|most| most.to_string());
        // Thousandths of a CPU, in microseconds of each period.
        let cpu_us = resources
            .cpu_milli
            .map(|milli| u64::from(milli) * CPU_PERIOD_US / 1000);
        match self {
            Self::V1 {
                memory: memory_place,
                pids: pids_place,
                cpu,
            } => {
                let memory = memory.map(|text| ("memory.limit_in_bytes", text));
                let pids = pids.map(|text| ("pids.max", text));
                let cpu_limit = cpu_us.map(|us| (CPU_QUOTA_V1, us.to_string()));
                let mut limits = vec![
                    (memory_place.clone(), memory.into_iter().collect()),
                    (pids_place.clone(), pids.into_iter().collect()),
                ];
                if let (Some(place), Some(limit)) = (cpu, cpu_limit) {
                    limits.push((place.clone(), vec![limit]));
                }
                limits
            }
            Self::V2 { place, has_cpu } => {
                let cpu_us = cpu_us.filter(|_| *has_cpu);
                let mut limits = Vec::new();
                limits.extend(memory.map(|text| ("memory.max", text)));
                limits.extend(pids.map(|text| ("pids.max", text)));
                limits.extend(cpu_us.map(|us| ("cpu.max", format!("{us} {CPU_PERIOD_US}"))));
                vec![(place.clone(), limits)]
            }
        }
    }

    /// Removes groups of processes that are gone: they crashed, and the groups are empty.
    fn sweep(&self) {
        let places: Vec<PathBuf> = self
            .limits(&Resources::default())
            .into_iter()
            .map(|(place, _)| place)
            .collect();
        for place in places {
            let Ok(entries) = place.read_dir() else {
                continue; // it is asked again when a group is made, which then says so
            };
            for entry in entries.flatten() {
                let name = entry.file_name();
                let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
                let maker = maker.and_then(|rest| rest.split('-').next());
                let is_gone = maker.is_some_and(|maker| !Path::new("/proc").join(maker).exists());
                if is_gone && let Err(error) = rmdir(entry.path()) {
                    let path = entry.path();
                    tracing::warn!(?path, %error, "a control group of a process that is gone stays");
                }
            }
        }
    }
}

impl Cgroup {
    /// Removes the group, which nothing runs in any more.
    ///
    /// # Errors
    /// When the kernel still refuses after half a second.
    pub(super) fn remove(self) -> io::Result<()> {
        for folder in self.folders {
            let mut tries = 0;
            loop {
                match rmdir(&folder) {
                    Ok(()) | Err(Errno::NOENT) => break,
                    Err(Errno::BUSY) if tries < REMOVAL_TRIES_MAX => {}
                    Err(error) => return Err(error.into()),
                }
                tries += 1;
                let pause = Timespec {
                    tv_sec: 0,
                    tv_nsec: REMOVAL_PAUSE_NS,
                };
                // Only the pause is wanted, and a shorter one does no harm.
                let _interrupted = poll(&mut [], Some(&pause));
            }
        }
        Ok(())
    }
}

/// Where a tree of groups is mounted, and which of its groups is seen there as its root.
struct Mounted<'a> {
    root: &'a str,
    at: &'a Path,
}

impl<'a> Mounted<'a> {
    fn find(mounts: &'a str, fits: impl Fn(&str, &str) -> bool) -> Option<Self> {
        mounts.lines().find_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut before = before.split(' ').skip(3);
            let (root, at) = (before.next()?, Path::new(before.next()?));
            let mut after = after.split(' ');
            let (kind, options) = (after.next()?, after.nth(1)?);
            fits(kind, options).then_some(Self { root, at })
        })
    }

    fn folder_of(&self, path: &str) -> PathBuf {
        let below = path.strip_prefix(self.root.trim_end_matches('/'));
        let below = below.unwrap_or(path).trim_start_matches('/');
        self.at.join(below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_group_is_found_in_either_version() {
        let mounts = "35 24 0:30 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                      36 24 0:31 /box /sys/fs/cgroup/pids rw,relatime shared:9 - cgroup cgroup rw,pids\n";
        let own = "8:pids:/box/a\n4:cpu,memory:/b\n0::/\n";
        assert_eq!(
            CgroupPlace::find(mounts, own),
            Some(CgroupPlace::V1 {
                memory: "/sys/fs/cgroup/memory/b".into(),
                pids: "/sys/fs/cgroup/pids/a".into(),
                cpu: None,
            })
        );
        let mounts = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(
            CgroupPlace::find(mounts, "0::/user.slice/a\n"),
            Some(CgroupPlace::V2 {
                place: "/sys/fs/cgroup/user.slice/a".into(),
                has_cpu: true,
            })
        );
        assert_eq!(CgroupPlace::find("", "0::/\n"), None);
    }

    #[test]
    fn limits_are_written_as_the_kernel_takes_them() {
        let resources = Resources {
            cpu_milli: Some(1500),
            memory_mb: Some(2),
            processes_max: Some(7),
            file_mb: None,
        };
        let place = CgroupPlace::V2 {
            place: "/c".into(),
            has_cpu: true,
        };
        let texts = |list: [(&'static str, &str); 3]| {
            list.map(|(file, text)| (file, text.to_owned())).to_vec()
        };
        let v2 = [
            ("memory.max", "2097152"),
            ("pids.max", "7"),
            ("cpu.max", "150000 100000"),
        ];
        assert_eq!(place.limits(&resources), [("/c".into(), texts(v2))]);
        let without = place.without_cpu().limits(&resources);
        let mut files = without.iter().flat_map(|(_, limits)| limits);
        assert!(files.all(|(file, _)| *file != "cpu.max"));
    }
}
