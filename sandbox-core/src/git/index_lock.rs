//! Git's own lock on a tree's index, taken as git takes it, and taken back from a git that was killed; so
//! are its locks on references.
//!
//! A lock that is left behind looks like one that is held, however old it is. It is held if a process
//! has it open, or if a git runs on that git directory: all of these are started by us, and are told
//! the directory in their environment.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{LocalGit, disk};
use crate::ports::caches::GitError;

/// How long another git is waited for.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// How long between two looks at a lock that is held.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Bytes of a process's environment that are looked through.
const ENVIRONMENT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The next index of a tree, which begins as a copy of the present one. Kept open as long as it is
/// used, by which others see that it is.
#[derive(Debug)]
pub(super) struct NextIndex {
    path: PathBuf,
    index: PathBuf,
    _open: File,
}

impl NextIndex {
    /// The file to let git work on.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl LocalGit {
    /// Takes the lock of a tree's index.
    ///
    /// # Errors
    /// `Locked` when another git holds it for all of [`WAIT_MAX`].
    pub(super) async fn next_index(&self, git_dir: &Path) -> Result<NextIndex, GitError> {
        let asked = Instant::now();
        loop {
            let taken = self
                .on_disk("locking an index", git_dir.to_owned(), take)
                .await?;
            if let Some(next) = taken {
                return Ok(next);
            }
            let waited = asked.elapsed();
            if waited >= WAIT_MAX {
                return Err(GitError::Locked {
                    lock: git_dir.join("index.lock"),
                    waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
                });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Makes the next index the present one.
    pub(super) async fn install(&self, next: NextIndex) -> Result<(), GitError> {
        let install = move |index: &Path| std::fs::rename(&next.path, index);
        self.on_disk("installing an index", next.index.clone(), install)
            .await
    }

    /// Gives the lock back without a change.
    pub(super) async fn give_up(&self, next: NextIndex) -> Result<(), GitError> {
        let path = next.path.clone();
        let removed = self
            .on_disk("unlocking an index", path, disk::remove_file)
            .await;
        drop(next);
        removed
    }
}

/// Takes the lock if it is free, or held by nobody any more.
fn take(git_dir: &Path) -> io::Result<Option<NextIndex>> {
    let (index, path) = (git_dir.join("index"), git_dir.join("index.lock"));
    let open = match disk::copy_to_new(&index, &path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if !remove_abandoned(git_dir, &path)? {
                return Ok(None);
            }
            match disk::copy_to_new(&index, &path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
                copied => copied?,
            }
        }
        copied => copied?,
    };
    // With the lock held, nobody else works with these.
    for name in disk::names_in(git_dir)? {
        let is_rest = name == "index.lock.lock" || name.as_bytes().starts_with(b"index.for-");
        if is_rest {
            disk::remove_file(&git_dir.join(name))?;
        }
    }
    // One that is held is git's to complain about.
    for lock in reference_locks(git_dir)? {
        remove_abandoned(git_dir, &lock)?;
    }
    Ok(Some(NextIndex {
        path,
        index,
        _open: open,
    }))
}

/// The locks on references: a git that was killed while it moved one leaves its lock behind, and no
/// later git could move that one again.
fn reference_locks(git_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut locks = vec![git_dir.join("HEAD.lock")];
    let mut folders = vec![git_dir.join("refs")];
    while let Some(folder) = folders.pop() {
        for name in disk::names_in(&folder)? {
            let path = folder.join(&name);
            match path.symlink_metadata() {
                Ok(entry) if entry.is_dir() => folders.push(path),
                // No reference may have a name that ends so.
                Ok(_) if name.as_bytes().ends_with(b".lock") => locks.push(path),
                Ok(_) => {}
                Err(error) if disk::is_absence(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(locks)
}

/// Removes a lock that nobody holds. False if somebody does, or if it is another one by now.
fn remove_abandoned(git_dir: &Path, lock: &Path) -> io::Result<bool> {
    let inode = |path: &Path| {
        path.symlink_metadata()
            .map(|entry| (entry.dev(), entry.ino()))
    };
    let seen = match inode(lock) {
        Ok(seen) => seen,
        Err(error) if disk::is_absence(&error) => return Ok(true),
        Err(error) => return Err(error),
    };
    if is_held(git_dir, lock)? {
        return Ok(false);
    }
    match inode(lock) {
        Ok(now) if now == seen => {
            tracing::warn!(lock = %lock.display(), "a lock that nobody holds was removed");
            disk::remove_file(lock)?;
            Ok(true)
        }
        Ok(_) => Ok(false),
        Err(error) if disk::is_absence(&error) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Does a process have the lock open, or a git run on the directory?
fn is_held(git_dir: &Path, lock: &Path) -> io::Result<bool> {
    let mut variable = b"GIT_DIR=".to_vec();
    variable.extend(git_dir.as_os_str().as_bytes());
    // Git replaces the file while we hold it open; the system then tells of it so.
    let mut replaced = lock.as_os_str().to_owned();
    replaced.push(" (deleted)");
    for name in disk::names_in(Path::new("/proc"))? {
        if !name.as_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let process = Path::new("/proc").join(name);
        // What ends meanwhile, or is another user's, doesn't hold a file of ours.
        let environment = disk::read_file(&process.join("environ"), ENVIRONMENT_BYTES_MAX);
        let environment = environment.ok().flatten().unwrap_or_default();
        if environment
            .split(|byte| *byte == 0)
            .any(|entry| entry == variable)
        {
            return Ok(true);
        }
        let descriptors = process.join("fd");
        for descriptor in disk::names_in(&descriptors).unwrap_or_default() {
            let is_lock = |file: PathBuf| file == lock || file.as_os_str() == replaced;
            if std::fs::read_link(descriptors.join(descriptor)).is_ok_and(is_lock) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git_dir() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().canonicalize().expect("a path");
        disk::write_file(&path.join("index"), b"index").expect("a file");
        (folder, path)
    }

    #[test]
    fn a_lock_that_nobody_holds_is_taken_over_at_once() {
        let (_folder, path) = git_dir();
        disk::write_file(&path.join("index.lock"), b"half").expect("a file");
        disk::write_file(&path.join("index.lock.lock"), b"").expect("a file");
        disk::write_file(&path.join("index.for-diff.1"), b"").expect("a file");
        let next = take(&path).expect("a look").expect("it is free");
        let copied = disk::read_file(next.path(), 100).expect("a file");
        assert_eq!(copied.as_deref(), Some(&b"index"[..]));
        assert_eq!(disk::names_in(&path).expect("names").len(), 2);
    }

    #[test]
    fn a_lock_that_is_open_is_held_however_old_it_is() {
        let (_folder, path) = git_dir();
        let next = take(&path).expect("a look").expect("it is free");
        assert!(take(&path).expect("a look").is_none());
        // As `git add` leaves it.
        disk::write_file(&path.join("index.lock.lock"), b"next").expect("a file");
        std::fs::rename(path.join("index.lock.lock"), next.path()).expect("it is replaced");
        assert!(take(&path).expect("a look").is_none());
        drop(next);
        assert!(take(&path).expect("a look").is_some());
    }

    #[test]
    fn a_git_that_runs_on_the_directory_holds_its_lock() {
        let (_folder, path) = git_dir();
        disk::write_file(&path.join("index.lock"), b"").expect("a file");
        let mut git = std::process::Command::new("sleep")
            .arg("60")
            .env("GIT_DIR", &path)
            .spawn()
            .expect("a process");
        assert!(take(&path).expect("a look").is_none());
        git.kill().expect("it runs");
        git.wait().expect("it ends");
        assert!(take(&path).expect("a look").is_some());
    }
}
