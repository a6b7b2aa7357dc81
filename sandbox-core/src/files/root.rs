//! A tree's root as a descriptor, and what is read through it.
//!
//! Every path is resolved by the kernel below that descriptor (`openat2` with `RESOLVE_BENEATH`), so
//! that no link, `..` or swap in the middle leads out, whatever a command in the tree does meanwhile.
//! Links within the tree are followed for reading; the module `change` follows none.
//!
//! All of this blocks, and runs in the pool only.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, StatxTimestamp,
};
use rustix::io::Errno;

use super::system_error::of_system;
use crate::domain::TreePath;
use crate::domain::tree_path::shown;
use crate::ports::files::{Entry, EntryKind, FileRead, FileVersion, FilesError, Listing};

/// Names of one folder that are looked at; the rest is told as cut off.
const NAMES_MAX: usize = 100_000;

/// The kernel gives up resolving a path when something was renamed meanwhile; it is asked again so often.
const TRIES_MAX: u32 = 16;

/// The root of a tree. What it names stays the same tree when its path comes to name another.
#[derive(Debug)]
pub(super) struct TreeRoot {
    fd: OwnedFd,
}

/// How links on a path are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// Followed, if they stay in the tree.
    Followed,
    /// Refused, also as the last part.
    Refused,
}

impl TreeRoot {
    pub(super) fn open(path: &Path) -> Result<Self, FilesError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd =
            rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| FilesError::System {
                doing: "opening the tree",
                path: path.display().to_string(),
                source: errno.into(),
            })?;
        Ok(Self { fd })
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Opens what is at `path`, without waiting for it (a pipe would have to be written first).
    pub(super) fn open_at(
        &self,
        path: &TreePath,
        flags: OFlags,
        links: Links,
    ) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let resolve = match links {
            Links::Followed => resolve,
            Links::Refused => resolve | ResolveFlags::NO_SYMLINKS,
        };
        let flags = flags | OFlags::CLOEXEC;
        let mut tries = 0;
        loop {
            tries += 1;
            match rustix::fs::openat2(&self.fd, path.for_kernel(), flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) if tries < TRIES_MAX => {}
                answer => return answer,
            }
        }
    }

    /// Opens a regular file for reading, and nothing else: no folder, pipe or device.
    pub(super) fn open_file(
        &self,
        path: &TreePath,
        links: Links,
    ) -> Result<(File, Statx), FilesError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let failed = |errno| of_system("opening", path, errno);
        let fd = match self.open_at(path, flags, links) {
            // A socket, or a device that isn't there, can't even be opened.
            Err(Errno::NXIO) => return Err(wrong_kind(path, EntryKind::Other, "a file")),
            opened => opened.map_err(failed)?,
        };
        let stat = stat_of(&fd).map_err(failed)?;
        match kind_of(&stat) {
            EntryKind::File => Ok((File::from(fd), stat)),
            kind => Err(wrong_kind(path, kind, "a file")),
        }
    }

    /// Reads a file's first `bytes_max` bytes.
    pub(super) fn read(&self, path: &TreePath, bytes_max: usize) -> Result<FileRead, FilesError> {
        let (file, stat) = self.open_file(path, Links::Followed)?;
        let version = version_of(&stat);
        let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
        let mut bytes = Vec::new();
        // One more byte tells whether there is more, whatever the size was said to be.
        file.take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|source| system_error("reading", path, source))?;
        let is_truncated = bytes.len() > bytes_max;
        bytes.truncate(bytes_max);
        Ok(FileRead {
            bytes,
            size_bytes: stat.stx_size,
            is_truncated,
            version,
        })
    }

    /// Lists a folder by name, `entries_max` at most.
    pub(super) fn list(&self, path: &TreePath, entries_max: usize) -> Result<Listing, FilesError> {
        let folder = self.open_folder(path, Links::Followed)?;
        let failed = |errno| of_system("listing", path, errno);
        let Names { mut names, is_cut } = names_in(&folder).map_err(failed)?;
        let is_truncated = is_cut || names.len() > entries_max;
        names.truncate(entries_max);
        let mut entries = Vec::with_capacity(names.len());
        for (name, _) in names {
            match stat_at(&folder, &name) {
                Ok(stat) => entries.push(entry_of(&folder, &name, &stat).map_err(failed)?),
                Err(Errno::NOENT) => {} // it went meanwhile
                Err(errno) => return Err(failed(errno)),
            }
        }
        Ok(Listing {
            entries,
            is_truncated,
        })
    }

    /// What is at `path`; a link is told as one.
    pub(super) fn stat(&self, path: &TreePath) -> Result<Entry, FilesError> {
        let failed = |errno| of_system("looking at", path, errno);
        let Some((folder, name)) = path.split() else {
            let stat = stat_of(&self.fd).map_err(failed)?;
            return entry_of(&self.fd, b".", &stat).map_err(failed);
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let folder = self
            .open_at(&folder, flags, Links::Followed)
            .map_err(failed)?;
        let stat = stat_at(&folder, name).map_err(failed)?;
        entry_of(&folder, name, &stat).map_err(failed)
    }

    pub(super) fn open_folder(&self, path: &TreePath, links: Links) -> Result<OwnedFd, FilesError> {
        match self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY, links) {
            Ok(folder) => Ok(folder),
            Err(Errno::NOTDIR) => {
                let kind = self.stat(path).map_or(EntryKind::Other, |entry| entry.kind);
                Err(wrong_kind(path, kind, "a folder"))
            }
            Err(errno) => Err(of_system("opening", path, errno)),
        }
    }

    /// The first part of `path` that is a link, and what it holds.
    pub(super) fn link_on_the_way(&self, path: &TreePath) -> Option<(TreePath, String)> {
        let mut way = TreePath::root();
        for part in path.parts() {
            way = way.join(part);
            let entry = self.stat(&way).ok()?;
            if let Some(target) = entry.link_target {
                return Some((way, shown(&target)));
            }
        }
        None
    }
}

/// The names in a folder.
pub(super) struct Names {
    /// In their order, with what the folder says of their kind.
    pub(super) names: Vec<(Vec<u8>, FileType)>,
    /// Are there more than are looked at?
    pub(super) is_cut: bool,
}

pub(super) fn names_in(folder: &OwnedFd) -> Result<Names, Errno> {
    let mut names = Vec::new();
    let mut is_cut = false;
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        if names.len() == NAMES_MAX {
            is_cut = true;
            break;
        }
        names.push((name.to_vec(), entry.file_type()));
    }
    names.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
    Ok(Names { names, is_cut })
}

pub(super) fn stat_of(fd: impl AsFd) -> Result<Statx, Errno> {
    rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)
}

pub(super) fn stat_at(folder: &OwnedFd, name: &[u8]) -> Result<Statx, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::statx(folder, name, flags, StatxFlags::BASIC_STATS)
}

pub(super) fn kind_of(stat: &Statx) -> EntryKind {
    match FileType::from_raw_mode(u32::from(stat.stx_mode)) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Folder,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    }
}

pub(super) fn version_of(stat: &Statx) -> FileVersion {
    // The time of the last change to its metadata is there as no program sets that one back.
    let nanoseconds = |time: StatxTimestamp| {
        let seconds = u64::from_ne_bytes(time.tv_sec.to_ne_bytes());
        seconds
            .wrapping_mul(1_000_000_000)
            .wrapping_add(u64::from(time.tv_nsec))
    };
    FileVersion::new([
        u64::from(stat.stx_dev_major),
        u64::from(stat.stx_dev_minor),
        stat.stx_ino,
        stat.stx_size,
        nanoseconds(stat.stx_mtime),
        nanoseconds(stat.stx_ctime),
    ])
}

fn entry_of(folder: &OwnedFd, name: &[u8], stat: &Statx) -> Result<Entry, Errno> {
    let kind = kind_of(stat);
    let link_target = if kind == EntryKind::Link {
        match rustix::fs::readlinkat(folder, name, Vec::new()) {
            Ok(target) => Some(target.into_bytes()),
            Err(Errno::INVAL | Errno::NOENT) => None, // swapped meanwhile
            Err(errno) => return Err(errno),
        }
    } else {
        None
    };
    Ok(Entry {
        name: name.to_vec(),
        kind,
        size_bytes: stat.stx_size,
        is_executable: kind == EntryKind::File && stat.stx_mode & 0o111 != 0,
        link_target,
    })
}

pub(super) fn wrong_kind(path: &TreePath, is: EntryKind, wanted: &'static str) -> FilesError {
    FilesError::WrongKind {
        path: path.to_string(),
        is: is.with_article(),
        wanted,
    }
}

pub(super) fn system_error(doing: &'static str, path: &TreePath, source: io::Error) -> FilesError {
    match Errno::from_io_error(&source) {
        Some(errno) => of_system(doing, path, errno),
        None => FilesError::System {
            doing,
            path: path.to_string(),
            source,
        },
    }
}
