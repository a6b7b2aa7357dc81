//! How much room a file system has, asked of the system in one place.

use std::io;
use std::path::Path;

use crate::domain::DiskSpace;

/// What the system says of the file system that a path is on (statvfs(3)). It may wait for the disk.
pub(crate) fn space_of(path: &Path) -> io::Result<DiskSpace> {
    let found = rustix::fs::statvfs(path)?;
    Ok(DiskSpace {
        total_bytes: found.f_blocks.saturating_mul(found.f_frsize),
        available_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        available_files: (found.f_files > 0).then_some(found.f_favail),
    })
}
