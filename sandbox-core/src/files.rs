//! Files of a working tree, read, changed and searched without a way out of it, and without holding the
//! runtime.
//!
//! [`TreeFiles`] is the door: its calls run in the [`BlockingPool`], and paths are resolved by the
//! kernel below the tree's root. Links are followed for reading only, and only within the tree. What a
//! call changes, it changes whole or not at all, and not after its answer was dropped.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::blocking_pool::BlockingPool;

mod change;
mod error;
mod root;
mod search;
mod tree_path;
mod walk;

pub use error::FilesError;
pub use search::{Hit, SearchFound, SearchRequest};
pub use tree_path::TreePath;

use root::TreeRoot;

/// A tree's files. Clones are the same tree.
#[derive(Debug, Clone)]
pub struct TreeFiles {
    root: Arc<TreeRoot>,
    pool: BlockingPool,
}

impl TreeFiles {
    /// Opens the tree at `path`, which is trusted, but for its last part: that must not be a link. From
    /// then on it is this very folder, also when another gets its path.
    ///
    /// # Errors
    /// When it isn't a folder, or the system refuses.
    pub async fn open(path: PathBuf, pool: BlockingPool) -> Result<Self, FilesError> {
        let root = pool.run(move || TreeRoot::open(&path)).await?;
        Ok(Self {
            root: Arc::new(root),
            pool,
        })
    }

    /// A file's first `bytes_max` bytes.
    ///
    /// # Errors
    /// When there is no file, or it is outside of the tree.
    pub async fn read(&self, path: TreePath, bytes_max: usize) -> Result<FileRead, FilesError> {
        self.run(move |root, _| root.read(&path, bytes_max)).await
    }

    /// Puts `bytes` at `path` in one step, if what is there is as `expected`. Folders that are missing
    /// are made. A file keeps its mode; a new one gets 644.
    ///
    /// # Errors
    /// [`FilesError::IsALink`] when a part of the path is a link, [`FilesError::Changed`] or
    /// [`FilesError::AlreadyExists`] when it isn't as expected, [`FilesError::NoSpace`], and others.
    pub async fn write(
        &self,
        path: TreePath,
        bytes: Vec<u8>,
        expected: Expected,
    ) -> Result<Written, FilesError> {
        self.run(move |root, abandoned| root.write(&path, &bytes, expected, abandoned))
            .await
    }

    /// A folder's entries by name, `entries_max` at most.
    ///
    /// # Errors
    /// When there is no folder, or it is outside of the tree.
    pub async fn list(&self, path: TreePath, entries_max: usize) -> Result<Listing, FilesError> {
        self.run(move |root, _| root.list(&path, entries_max)).await
    }

    /// What is at `path`. A link is told as one, wherever it leads.
    ///
    /// # Errors
    /// When there is nothing, or it is outside of the tree.
    pub async fn stat(&self, path: TreePath) -> Result<Entry, FilesError> {
        self.run(move |root, _| root.stat(&path)).await
    }

    /// Makes a folder, and those that it is in. One that is there is fine.
    ///
    /// # Errors
    /// When a part of the path is a link or a file, and others.
    pub async fn make_folder(&self, path: TreePath) -> Result<(), FilesError> {
        self.run(move |root, _| root.make_folder(&path)).await
    }

    /// Removes a file, a link (not what it leads to) or an empty folder.
    ///
    /// # Errors
    /// When it is the root, in git's own folder, not there, or a folder with something in it.
    pub async fn remove(&self, path: TreePath) -> Result<(), FilesError> {
        self.run(move |root, _| root.remove(&path)).await
    }

    /// Searches files for a regular expression; ignore files hold, and links aren't followed. Dropping
    /// the answer stops it.
    ///
    /// # Errors
    /// [`FilesError::Pattern`] when pattern or glob isn't one; when there is nothing to search.
    pub async fn search(&self, request: SearchRequest) -> Result<SearchFound, FilesError> {
        self.run(move |root, abandoned| root.search(&request, abandoned))
            .await
    }

    /// Removes what writes left that a crash ended, and says how many. Only for whoever holds the
    /// tree's lock, so that nobody writes meanwhile.
    ///
    /// # Errors
    /// When the root can't be listed, or something in it not be removed.
    pub async fn sweep(&self) -> Result<u64, FilesError> {
        self.run(move |root, _| root.sweep()).await
    }

    async fn run<T, F>(&self, work: F) -> Result<T, FilesError>
    where
        F: FnOnce(&TreeRoot, &Abandoned) -> Result<T, FilesError> + Send + 'static,
        T: Send + 'static,
    {
        let root = Arc::clone(&self.root);
        let abandoned = Abandoned::default();
        let watched = abandoned.clone();
        // Dropped with this future, or when the work is done and nobody reads it any more.
        let _sets_it = SetWhenDropped(abandoned);
        self.pool.run(move || work(&root, &watched)).await
    }
}

/// Has whoever asked for something gone? Then it isn't done, if that's still possible.
#[derive(Debug, Clone, Default)]
struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

struct SetWhenDropped(Abandoned);

impl Drop for SetWhenDropped {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Release);
    }
}

/// What a file was like: if it is the same later, nobody has written it meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion {
    device: (u32, u32),
    inode: u64,
    size_bytes: u64,
    /// Seconds and nanoseconds.
    modified: (i64, u32),
    /// The same of its metadata: unlike `modified`, no program sets it back.
    changed: (i64, u32),
}

/// What must be at a path for it to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// A file, or nothing.
    Anything,
    /// Nothing.
    Absent,
    /// The file that was read, as it was then. Between the last look and the write a few microseconds
    /// remain in which a command in the tree may change it; the lock on its commands closes them.
    Unchanged(FileVersion),
}

/// A file's content, or its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRead {
    /// What was read.
    pub bytes: Vec<u8>,
    /// The file's size when it was opened, in bytes.
    pub size_bytes: u64,
    /// Is there more than was read?
    pub is_truncated: bool,
    /// What the file was like before it was read.
    pub version: FileVersion,
}

impl FileRead {
    /// The bytes as text, and whether they are text: else what is no UTF-8 is replaced. A character that
    /// was cut at the end is left out.
    #[must_use]
    pub fn text(&self) -> (Cow<'_, str>, bool) {
        let mut bytes = self.bytes.as_slice();
        if self.is_truncated
            && let Err(error) = std::str::from_utf8(bytes)
            && error.error_len().is_none()
        {
            bytes = &bytes[..error.valid_up_to()];
        }
        let text = String::from_utf8_lossy(bytes);
        let is_exact = matches!(text, Cow::Borrowed(_));
        (text, is_exact)
    }
}

/// What a write has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// There was nothing before.
    pub is_new: bool,
    /// What the file is like now.
    pub version: FileVersion,
}

/// What an entry of a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

impl EntryKind {
    const fn with_article(self) -> &'static str {
        match self {
            Self::File => "a file",
            Self::Folder => "a folder",
            Self::Link => "a link",
            Self::Other => "a pipe, socket or device",
        }
    }
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name's bytes, which need not be UTF-8.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Is it a file that somebody may execute?
    pub is_executable: bool,
    /// If it is a link: what it holds, which may lead nowhere.
    pub link_target: Option<Vec<u8>>,
}

/// A folder's entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// By name.
    pub entries: Vec<Entry>,
    /// Are there more?
    pub is_truncated: bool,
}
