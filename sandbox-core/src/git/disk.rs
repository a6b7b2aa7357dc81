//! Calls that wait for the disk. All of them run on the blocking pool's threads.
#![expect(
    clippy::disallowed_methods,
    reason = "callers are on the blocking pool's threads, which may wait"
)]

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::ports::caches::GitError;

/// Bytes in a block, in which the system says what a file takes.
const BLOCK_BYTES: u64 = 512;

/// What a refusal of the system means.
pub(super) fn failed(
    doing: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> GitError + use<> {
    let path = path.to_owned();
    move |source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => GitError::DiskFull { doing },
        _ => GitError::Io {
            doing,
            path,
            source,
        },
    }
}

/// A file's bytes; nothing if there is none of that name, or a folder.
pub(super) fn read_file(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if is_absence(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    match file.take(bytes_max + 1).read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => return Ok(None),
        Err(error) => return Err(error),
    }
    if bytes.len() as u64 > bytes_max {
        let reason = format!("it has more than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    Ok(Some(bytes))
}

/// Writes a file in place. For files that nobody else reads yet.
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    std::fs::write(path, bytes)
}

/// Makes a file that must not be there yet, with another's content and time if that is there.
///
/// The time matters to an index: by it git knows which files were written in the second in which they
/// were last looked at, and may have changed since without another size or time.
pub(super) fn copy_to_new(from: &Path, to: &Path) -> io::Result<File> {
    let mut copy = OpenOptions::new().write(true).create_new(true).open(to)?;
    match File::open(from) {
        Ok(mut original) => {
            io::copy(&mut original, &mut copy)?;
            copy.flush()?;
            copy.set_modified(original.metadata()?.modified()?)?;
        }
        Err(error) if is_absence(&error) => {}
        Err(error) => return Err(error),
    }
    Ok(copy)
}

/// Renames to a name that must not be taken.
pub(super) fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE).map_err(io::Error::from)
}

/// The names in a folder; none if there is no such folder.
pub(super) fn names_in(folder: &Path) -> io::Result<Vec<OsString>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if is_absence(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    entries
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect()
}

/// Removes a file; one that isn't there is removed already.
pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if !is_absence(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Is it there, whatever it is?
pub(super) fn is_there(path: &Path) -> io::Result<bool> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if is_absence(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What all files below a folder take, each counted once, links not followed. What vanishes meanwhile
/// takes nothing.
pub(super) fn size_of(root: &Path) -> io::Result<u64> {
    let mut folders = vec![PathBuf::from(root)];
    let mut linked = HashSet::new();
    let mut blocks = root.symlink_metadata()?.blocks();
    while let Some(folder) = folders.pop() {
        for name in names_in(&folder)? {
            let path = folder.join(name);
            let entry = match path.symlink_metadata() {
                Ok(entry) => entry,
                Err(error) if is_absence(&error) => continue,
                // Deeper than a path may be. To fail here would keep such a tree from ever being evicted.
                Err(error) if error.kind() == io::ErrorKind::InvalidFilename => {
                    tracing::warn!(below = %root.display(), "what lies very deep was not measured");
                    continue;
                }
                Err(error) => return Err(error),
            };
            if entry.is_dir() {
                folders.push(path);
            } else if entry.nlink() > 1 && !linked.insert((entry.dev(), entry.ino())) {
                continue;
            }
            blocks += entry.blocks();
        }
    }
    Ok(blocks * BLOCK_BYTES)
}

/// Is the error that there is nothing of that name?
pub(super) fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_copy_is_as_old_as_its_original() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("index"), folder.path().join("next"));
        write_file(&from, b"entries").expect("a file");
        let earlier = SystemTime::now() - Duration::from_secs(7);
        let original = File::open(&from).expect("a file");
        original.set_modified(earlier).expect("a time");
        let copy = copy_to_new(&from, &to).expect("a copy");
        let time = copy.metadata().and_then(|metadata| metadata.modified());
        assert_eq!(time.expect("a time"), earlier);
    }
}
