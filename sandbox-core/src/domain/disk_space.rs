//! When a disk counts as full: before nothing at all is left, as whoever makes room has to write, too.

/// With fewer bytes free a disk is full. `SQLite`'s log alone grows to 4 MiB before it is emptied: a
/// thousand pages (<https://www.sqlite.org/wal.html>).
const FULL_BELOW_BYTES: u64 = 4 << 20;

/// With room for fewer files a disk is full: a tree's folders and a database's own files are as many.
const FULL_BELOW_FILES: u64 = 16;

/// What the system says of a file system, as `statvfs` tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// All of its bytes.
    pub total_bytes: u64,
    /// Bytes that a user without privileges may still take.
    pub available_bytes: u64,
    /// How many files such a user may still make; `None` where that isn't limited.
    pub available_files: Option<u64>,
}

impl DiskSpace {
    /// Is it taken for full, so that a write which failed, failed for this?
    #[must_use]
    pub fn is_full(self) -> bool {
        let has_files = self
            .available_files
            .is_none_or(|files| files >= FULL_BELOW_FILES);
        self.available_bytes < FULL_BELOW_BYTES || !has_files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_full_without_room_for_bytes_or_for_files() {
        let space = |available_bytes, available_files| DiskSpace {
            total_bytes: 1 << 40,
            available_bytes,
            available_files,
        };
        assert!(!space(FULL_BELOW_BYTES, None).is_full());
        assert!(!space(FULL_BELOW_BYTES, Some(FULL_BELOW_FILES)).is_full());
        assert!(space(FULL_BELOW_BYTES - 1, None).is_full());
        assert!(space(1 << 30, Some(FULL_BELOW_FILES - 1)).is_full());
    }
}
