//! What changes a tree: writing, making folders, removing. No link is followed on the way.
//!
//! A file is written beside the others under a name of its own and then renamed, so that nobody ever
//! reads half of it, and a link that is put in its place meanwhile is replaced and not followed. The
//! unfinished file lies in the root, whatever folder it is for: so what a crash leaves is found by
//! looking at one folder ([`TreeRoot::sweep`]). Nothing is forced to the disk: the worker may die at
//! any moment, but a power cut may take what the kernel had not written yet, as with every editor.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Statx, Uid};
use rustix::io::Errno;
use uuid::Uuid;

use super::Abandoned;
use super::root::{
    Links, TreeRoot, kind_of, names_in, stat_at, stat_of, system_error, version_of, wrong_kind,
};
use super::system_error::of_system;
use crate::domain::TreePath;
use crate::ports::files::{EntryKind, Expected, FilesError, Written};

/// How names of unfinished files begin.
pub(super) const UNFINISHED: &str = ".unstall-write-";

/// Of new files. Scripts are made executable by a command.
const FILE_MODE: u32 = 0o644;
/// Of new folders.
const FOLDER_MODE: u32 = 0o755;

impl TreeRoot {
    /// Puts `bytes` at `path`, if what is there is as `expected`. Missing folders are made; mode and
    /// owner of a file that was there are kept.
    pub(super) fn write(
        &self,
        path: &TreePath,
        bytes: &[u8],
        expected: Expected,
        abandoned: &Abandoned,
    ) -> Result<Written, FilesError> {
        let (folder_path, name) = self.changeable(path)?;
        let folder = self.make_folders(&folder_path, path)?;
        let failed = |errno| of_system("writing", path, errno);
        let before = self.file_there(&folder, path, name, expected)?;
        let mut unfinished = Unfinished::create(self).map_err(failed)?;
        (&unfinished.file)
            .write_all(bytes)
            .map_err(|source| system_error("writing", path, source))?;
        unfinished.make_like(before.as_ref()).map_err(failed)?;
        // Writing may have taken a while.
        let is_new = self.file_there(&folder, path, name, expected)?.is_none();
        if abandoned.is_set() {
            let path = path.to_string();
            return Err(FilesError::Abandoned { path });
        }
        unfinished.rename(&folder, name, is_new).map_err(failed)?;
        let stat = stat_of(&unfinished.file).map_err(failed)?;
        Ok(Written {
            is_new,
            version: version_of(&stat),
        })
    }

    /// Makes a folder, and those that it is in; one that is there is fine.
    pub(super) fn make_folder(&self, path: &TreePath) -> Result<(), FilesError> {
        if path.is_root() {
            return Ok(());
        }
        self.changeable(path)?;
        self.make_folders(path, path).map(drop)
    }

    /// Removes a file, a link (not what it leads to) or an empty folder.
    pub(super) fn remove(&self, path: &TreePath) -> Result<(), FilesError> {
        let (folder_path, name) = self.changeable(path)?;
        let failed = |errno| self.explained("removing", path, &folder_path, errno);
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let folder = self
            .open_at(&folder_path, flags, Links::Refused)
            .map_err(failed)?;
        let stat = stat_at(&folder, name).map_err(failed)?;
        let flags = match kind_of(&stat) {
            EntryKind::Folder => AtFlags::REMOVEDIR,
            EntryKind::File | EntryKind::Link | EntryKind::Other => AtFlags::empty(),
        };
        rustix::fs::unlinkat(&folder, name, flags).map_err(failed)
    }

    /// Removes what writes left that never ended. Only for who knows that nobody writes now.
    pub(super) fn sweep(&self) -> Result<u64, FilesError> {
        let root = TreePath::root();
        let folder = self.open_folder(&root, Links::Refused)?;
        let failed = |errno| of_system("sweeping", &root, errno);
        let names = names_in(&folder).map_err(failed)?.names;
        let mut removed = 0;
        for (name, _) in names {
            if name.starts_with(UNFINISHED.as_bytes()) {
                rustix::fs::unlinkat(&folder, name.as_slice(), AtFlags::empty()).map_err(failed)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// The folder and the name of what may be changed at all.
    fn changeable<'a>(&self, path: &'a TreePath) -> Result<(TreePath, &'a [u8]), FilesError> {
        let refuse = |reason| {
            let path = path.to_string();
            Err(FilesError::InvalidPath { path, reason })
        };
        if path.is_gits_own() {
            return refuse("git's own files are changed by git alone; use the git tools");
        }
        match path.split() {
            Some(parts) => Ok(parts),
            None => refuse("the tree's root itself is kept; name something in it"),
        }
    }

    /// Opens the folder `wanted`, making what is missing of it. `path` is what the caller asked for.
    fn make_folders(&self, wanted: &TreePath, path: &TreePath) -> Result<OwnedFd, FilesError> {
        let failed = |errno| self.explained("making the folders of", path, wanted, errno);
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        match self.open_at(wanted, flags, Links::Refused) {
            Err(Errno::NOENT) => {}
            opened => return opened.map_err(failed),
        }
        let mut folder = self
            .open_at(&TreePath::root(), flags, Links::Refused)
            .map_err(failed)?;
        let step = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for part in wanted.parts() {
            match rustix::fs::mkdirat(&folder, part, Mode::from_raw_mode(FOLDER_MODE)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(errno)),
            }
            // One part at a time, not following it: the next name is looked up in what this one was.
            folder = rustix::fs::openat(&folder, part, step, Mode::empty()).map_err(failed)?;
        }
        Ok(folder)
    }

    /// The file at `name`, or nothing if there is none, provided that this is as expected.
    fn file_there(
        &self,
        folder: &OwnedFd,
        path: &TreePath,
        name: &[u8],
        expected: Expected,
    ) -> Result<Option<Statx>, FilesError> {
        let stat = match stat_at(folder, name) {
            Ok(stat) => stat,
            Err(Errno::NOENT) if matches!(expected, Expected::Unchanged(_)) => {
                let path = path.to_string();
                return Err(FilesError::Changed { path });
            }
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(of_system("looking at", path, errno)),
        };
        match kind_of(&stat) {
            EntryKind::File => {}
            EntryKind::Link => return Err(self.explained("writing", path, path, Errno::LOOP)),
            kind => return Err(wrong_kind(path, kind, "a file")),
        }
        let path = path.to_string();
        match expected {
            Expected::Absent => Err(FilesError::AlreadyExists { path }),
            Expected::Unchanged(version) if version != version_of(&stat) => {
                Err(FilesError::Changed { path })
            }
            Expected::Anything | Expected::Unchanged(_) => Ok(Some(stat)),
        }
    }

    /// What an error on `way`, a part of `path`, means: above all, whether a link is in it.
    fn explained(
        &self,
        doing: &'static str,
        path: &TreePath,
        way: &TreePath,
        errno: Errno,
    ) -> FilesError {
        match errno {
            Errno::LOOP | Errno::NOTDIR => match self.link_on_the_way(way) {
                Some((link, target)) => FilesError::IsALink {
                    path: path.to_string(),
                    link: link.to_string(),
                    target,
                },
                None => wrong_kind(way, EntryKind::File, "a folder"),
            },
            errno => of_system(doing, path, errno),
        }
    }
}

/// A file that isn't in its place yet; it goes away unless it is renamed.
struct Unfinished<'a> {
    root: &'a TreeRoot,
    name: String,
    file: File,
    is_in_place: bool,
}

impl<'a> Unfinished<'a> {
    fn create(root: &'a TreeRoot) -> Result<Self, Errno> {
        let name = format!("{UNFINISHED}{}", Uuid::new_v4().simple());
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = File::from(rustix::fs::openat(root.fd(), name.as_str(), flags, mode)?);
        Ok(Self {
            root,
            name,
            file,
            is_in_place: false,
        })
    }

    /// Gives it the owner and the mode of the file that it replaces, or those of a new one.
    fn make_like(&self, before: Option<&Statx>) -> Result<(), Errno> {
        let Some(before) = before else {
            return rustix::fs::fchmod(&self.file, Mode::from_raw_mode(FILE_MODE));
        };
        let own = stat_of(&self.file)?;
        if (own.stx_uid, own.stx_gid) != (before.stx_uid, before.stx_gid) {
            let owner = Some(Uid::from_raw(before.stx_uid));
            rustix::fs::fchown(&self.file, owner, Some(Gid::from_raw(before.stx_gid)))?;
        }
        // Never what lets somebody run it in another's name.
        let mode = u32::from(before.stx_mode) & 0o777;
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(mode))
    }

    fn rename(&mut self, folder: &OwnedFd, name: &[u8], is_new: bool) -> Result<(), Errno> {
        let flags = if is_new {
            RenameFlags::NOREPLACE
        } else {
            RenameFlags::empty()
        };
        rustix::fs::renameat_with(self.root.fd(), self.name.as_str(), folder, name, flags)?;
        self.is_in_place = true;
        Ok(())
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if self.is_in_place {
            return;
        }
        let removed = rustix::fs::unlinkat(self.root.fd(), self.name.as_str(), AtFlags::empty());
        if let Err(error) = removed {
            tracing::warn!(name = self.name, %error, "an unfinished file stays in its tree; sweep it");
        }
    }
}
