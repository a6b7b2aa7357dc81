//! How a folder is removed whatever is in it: renamed away first, so that it is gone at once, and then
//! taken apart without following a link, without recursion and with a fixed number of descriptors, as
//! a tree is as deep as its commands made it.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, chmod, openat, renameat_with, statat,
    unlinkat,
};
use rustix::io::Errno;

use super::{disk, layout};

/// How often a folder is emptied that isn't empty afterwards: a process may still write there.
const ROUNDS_MAX: u32 = 100;

/// Removes a folder and what earlier attempts to make or remove it left. One that isn't there is
/// removed already.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match disk::rename_to_new(path, &layout::removed(path)) {
        Err(error) if !disk::is_absence(&error) => return Err(error),
        _ => {}
    }
    remove_leftovers(path)
}

/// Removes what earlier attempts to make or remove a folder left.
pub(super) fn remove_leftovers(of: &Path) -> io::Result<()> {
    let (Some(siblings), Some(name)) = (of.parent(), of.file_name()) else {
        return Ok(());
    };
    let name = name.to_string_lossy();
    for found in disk::names_in(siblings)? {
        if layout::is_leftover_of(&found.to_string_lossy(), &name) {
            take_apart(&siblings.join(found))?;
        }
    }
    Ok(())
}

/// Removes a folder that nobody uses any more.
pub(super) fn take_apart(folder: &Path) -> io::Result<()> {
    let name = CString::new(folder.as_os_str().as_bytes())?;
    let top = match Folder::open(CWD, &name) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    // Folders within folders are moved up here, so that none is ever deeper than two.
    let mut moved = 0;
    for _ in 0..ROUNDS_MAX {
        let mut waiting = top.unlink_files()?;
        if waiting.is_empty() {
            match unlinkat(CWD, &name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY) => continue,
                Err(Errno::NOENT) => return Ok(()),
                outcome => return Ok(outcome?),
            }
        }
        while let Some(name) = waiting.pop() {
            waiting.extend(top.empty_inner(&name, &mut moved)?);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::DirectoryNotEmpty,
        "a process goes on writing in it; end that process first",
    ))
}

/// A folder that is open, and that its owner may read and change.
struct Folder(OwnedFd);

impl Folder {
    fn open(at: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Its mode may forbid its owner what the system would allow: caches of packages have such. By
        // way of the descriptor no link can lead the change of mode elsewhere.
        let handle = openat(at, name, flags | OFlags::PATH, Mode::empty())?;
        chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), Mode::RWXU)?;
        openat(&handle, c".", flags | OFlags::RDONLY, Mode::empty()).map(Self)
    }

    /// Removes all but the folders in it, and names these.
    fn unlink_files(&self) -> rustix::io::Result<Vec<CString>> {
        let mut folders = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Err(Errno::NOENT) => continue,
                    entry => FileType::from_raw_mode(entry?.st_mode),
                },
                kind => kind,
            };
            if kind == FileType::Directory {
                folders.push(name.to_owned());
                continue;
            }
            match unlinkat(&self.0, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(folders)
    }

    /// Removes a folder of this one, after moving the folders in it up here; answers their new names.
    fn empty_inner(&self, name: &CStr, moved: &mut u64) -> rustix::io::Result<Vec<CString>> {
        let inner = match Self::open(self.0.as_fd(), name) {
            Err(Errno::NOENT) => return Ok(Vec::new()),
            opened => opened?,
        };
        let mut waiting = Vec::new();
        for deeper in inner.unlink_files()? {
            match unlinkat(&inner.0, &deeper, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => continue,
                // It isn't empty, or must be opened up first.
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
            // To move a folder, its own entry for its parent must be writable.
            drop(Self::open(inner.0.as_fd(), &deeper)?);
            waiting.push(self.take_in(&inner, &deeper, moved)?);
        }
        match unlinkat(&self.0, name, AtFlags::REMOVEDIR) {
            // Somebody writes there; it is met again in the next round.
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(waiting),
            Err(error) => Err(error),
        }
    }

    /// Moves a folder of another one here, to a name that is free.
    fn take_in(&self, from: &Self, name: &CStr, moved: &mut u64) -> rustix::io::Result<CString> {
        loop {
            *moved += 1;
            let free = CString::new(format!("moved-{moved}")).map_err(|_| Errno::INVAL)?;
            match renameat_with(&from.0, name, &self.0, &free, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(free),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::mkdirat;

    use super::*;

    #[test]
    fn links_are_removed_and_not_followed() {
        let root = tempfile::tempdir().expect("a folder");
        let outside = root.path().join("outside");
        std::fs::create_dir(&outside).expect("a folder");
        disk::write_file(&outside.join("kept"), b"").expect("a file");
        let tree = root.path().join("tree");
        std::fs::create_dir_all(tree.join("a/b")).expect("folders");
        symlink(&outside, tree.join("a/link")).expect("a link");
        symlink("nowhere", tree.join("dangling")).expect("a link");
        remove(&tree).expect("it can be removed");
        remove(&tree).expect("it is removed already");
        assert!(outside.join("kept").exists());
        assert_eq!(disk::names_in(root.path()).expect("names"), ["outside"]);
    }

    #[test]
    fn depth_and_modes_and_names_do_not_matter() {
        let root = tempfile::tempdir().expect("a folder");
        let tree = root.path().join("tree");
        std::fs::create_dir(&tree).expect("a folder");
        let mut at = openat(CWD, &tree, OFlags::DIRECTORY, Mode::empty()).expect("a folder");
        // Deeper than any path may be, and than there are descriptors.
        for _ in 0..2000 {
            mkdirat(&at, c"moved-1", Mode::RWXU).expect("a folder");
            at = openat(&at, c"moved-1", OFlags::DIRECTORY, Mode::empty()).expect("a folder");
        }
        drop(at);
        let closed = tree.join("closed");
        std::fs::create_dir_all(closed.join("inner")).expect("folders");
        disk::write_file(&closed.join("inner/file"), b"").expect("a file");
        let modes = std::fs::Permissions::from_mode(0o000);
        std::fs::set_permissions(closed.join("inner"), modes.clone()).expect("a mode");
        std::fs::set_permissions(&closed, modes).expect("a mode");
        remove(&tree).expect("it can be removed");
        assert!(disk::names_in(root.path()).expect("names").is_empty());
    }

    #[test]
    fn what_earlier_attempts_left_goes_too() {
        let root = tempfile::tempdir().expect("a folder");
        let tree = root.path().join("edit-1");
        let other = root.path().join("edit-12");
        for path in [&tree, &other] {
            std::fs::create_dir(layout::unfinished(path)).expect("a folder");
            std::fs::create_dir(layout::removed(path)).expect("a folder");
        }
        remove(&tree).expect("it can be removed");
        assert_eq!(disk::names_in(root.path()).expect("names").len(), 2);
    }
}
