//! A quota of CPU time around one process, by a control group of its own.
//!
//! Version 2 (`cpu.max`) where this process's group may have groups below it, else version 1
//! (`cpu.cfs_quota_us`); the reason where there is neither (Documentation/admin-guide/cgroup-v2.rst,
//! Documentation/scheduler/sched-bwc.rst).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A tenth of a core, in periods of 20 ms, so that a computation of 5 ms meets the limit.
const QUOTA_US: u32 = 2_000;
const PERIOD_US: u32 = 20_000;

/// A group with a quota. The process is moved back and the group removed with this value.
#[derive(Debug)]
pub(super) struct Quota {
    group: PathBuf,
    parent: PathBuf,
    pid: u32,
}

impl Quota {
    /// Puts a process under a quota, or says why it can't.
    pub(super) fn around(pid: u32) -> Result<Self, String> {
        let own =
            own_groups().map_err(|error| format!("the control groups can't be read: {error}"))?;
        let mut reasons = Vec::new();
        for (parent, version) in own {
            match Self::below(&parent, version, pid) {
                Ok(quota) => return Ok(quota),
                Err(error) => reasons.push(format!("{}: {error}", parent.display())),
            }
        }
        if reasons.is_empty() {
            reasons.push("no control groups are mounted".to_owned());
        }
        Err(format!(
            "no quota of CPU time can be set here ({})",
            reasons.join("; ")
        ))
    }

    fn below(parent: &Path, version: Version, pid: u32) -> io::Result<Self> {
        let group = parent.join(format!("unstall-selftest-{pid}"));
        fs::create_dir(&group)?;
        // From here on it is removed again, also after an error.
        let quota = Self {
            group,
            parent: parent.to_owned(),
            pid,
        };
        match version {
            Version::Two => fs::write(
                quota.group.join("cpu.max"),
                format!("{QUOTA_US} {PERIOD_US}"),
            )?,
            Version::One => {
                fs::write(quota.group.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
                fs::write(quota.group.join("cpu.cfs_quota_us"), QUOTA_US.to_string())?;
            }
        }
        fs::write(quota.group.join("cgroup.procs"), pid.to_string())?;
        Ok(quota)
    }

    /// How often the group had to wait for its next period.
    pub(super) fn times_throttled(&self) -> io::Result<u64> {
        let stat = fs::read_to_string(self.group.join("cpu.stat"))?;
        let line = stat
            .lines()
            .find_map(|line| line.strip_prefix("nr_throttled "));
        let count = line.and_then(|count| count.trim().parse().ok());
        count.ok_or_else(|| io::Error::other("cpu.stat tells no nr_throttled"))
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // A process that has ended is in no group; a group that can't be removed harms nobody.
        let _ = fs::write(self.parent.join("cgroup.procs"), self.pid.to_string());
        let _ = fs::remove_dir(&self.group);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The groups of this process that could have a quota below them.
fn own_groups() -> io::Result<Vec<(PathBuf, Version)>> {
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    Ok(groups_in(&groups, &mounts))
}

/// From the texts of `/proc/self/cgroup` and `/proc/self/mounts`.
fn groups_in(groups: &str, mounts: &str) -> Vec<(PathBuf, Version)> {
    let mounted = |kind: &str, option: &str| {
        mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let fits = fields.get(2) == Some(&kind)
                && (option.is_empty() || fields.get(3)?.split(',').any(|one| one == option));
            fits.then(|| PathBuf::from(fields[1]))
        })
    };
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let below = path.trim_start_matches('/');
        if controllers.is_empty() {
            found.extend(mounted("cgroup2", "").map(|root| (root.join(below), Version::Two)));
        } else if controllers.split(',').any(|one| one == "cpu") {
            found.extend(mounted("cgroup", "cpu").map(|root| (root.join(below), Version::One)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_in_both_versions() {
        let groups = "4:memory:/x\n1:cpu,cpuacct:/a/b\n0::/user.slice\n";
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu,cpuacct 0 0\n\
                      cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        let found = groups_in(groups, mounts);
        let expected = [
            (PathBuf::from("/sys/fs/cgroup/cpu/a/b"), Version::One),
            (PathBuf::from("/sys/fs/cgroup/user.slice"), Version::Two),
        ];
        assert_eq!(found, expected);
        assert_eq!(groups_in("0::/\n", ""), []);
        assert_eq!(groups_in("nonsense", mounts), []);
    }
}
