//! How full the disk is, of which trees and caches may take a part.

use std::path::PathBuf;

use super::{SandboxService, ServiceError};
use crate::domain::eviction::{Disk, Limits};

/// What the system says of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DiskSpace {
    total_bytes: u64,
    available_bytes: u64,
}

impl SandboxService {
    /// How full the disk is, and the limits on it. The volume is no larger than the disk, and what isn't
    /// available of it any more counts as used, whoever uses it: no space is no space.
    pub(super) async fn disk(&self, sizes_bytes: u64) -> Result<(Disk, Limits), ServiceError> {
        let root = self.settings.root.clone();
        let measured = self.adapters.pool.run(move || space_of(root)).await;
        Ok(judge(measured?, sizes_bytes, self.settings.limits))
    }
}

fn judge(space: DiskSpace, sizes_bytes: u64, limits: Limits) -> (Disk, Limits) {
    if limits.volume_bytes == 0 {
        let used_bytes = sizes_bytes;
        return (Disk { used_bytes }, limits);
    }
    let volume_bytes = limits.volume_bytes.min(space.total_bytes);
    let used_bytes = sizes_bytes.max(volume_bytes.saturating_sub(space.available_bytes));
    let limits = Limits {
        volume_bytes,
        ..limits
    };
    (Disk { used_bytes }, limits)
}

fn space_of(root: PathBuf) -> Result<DiskSpace, ServiceError> {
    match rustix::fs::statvfs(&root) {
        Ok(found) => Ok(DiskSpace {
            total_bytes: found.f_blocks.saturating_mul(found.f_frsize),
            available_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        }),
        Err(errno) => Err(ServiceError::Disk {
            root: root.display().to_string(),
            source: errno.into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(volume: u64, total: u64, available: u64, sizes: u64) -> (u64, u64) {
        let limits = Limits {
            volume_bytes: volume,
            ..Limits::default()
        };
        let space = DiskSpace {
            total_bytes: total,
            available_bytes: available,
        };
        let (disk, limits) = judge(space, sizes, limits);
        (disk.used_bytes, limits.volume_bytes)
    }

    #[test]
    fn what_is_not_available_counts_as_used() {
        assert_eq!(judged(100, 1000, 500, 30), (30, 100));
        assert_eq!(judged(100, 1000, 10, 30), (90, 100));
    }

    #[test]
    fn the_volume_is_no_larger_than_the_disk() {
        assert_eq!(judged(100, 20, 15, 1), (5, 20));
        assert_eq!(judged(0, 20, 0, 1), (1, 0));
    }
}
