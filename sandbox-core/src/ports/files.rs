//! The door to a tree's files: what may be asked of them, and what can go wrong.
//!
//! A backend answers it natively (a local tree by the kernel, a remote one by its own calls), and the
//! service once more, under its locks. Links are followed for reading only, and only within the tree.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use super::Answer;
use crate::domain::{Invalid, SandboxError, TreePath};

/// The files of one tree. What a call changes, it changes whole or not at all, and not after its answer
/// was dropped.
pub trait FileAccess: Send + Sync {
    /// A file's first `bytes_max` bytes.
    ///
    /// Errors: when there is no file, or it is outside of the tree.
    fn read(&self, path: TreePath, bytes_max: usize) -> Answer<'_, FileRead, FilesError>;

    /// Puts `bytes` at `path` in one step, if what is there is as `expected`. Folders that are missing
    /// are made. A file keeps its mode and owner; a new one gets 644.
    ///
    /// Errors: `IsALink` when a part of the path is a link, `Changed` or `AlreadyExists` when it isn't
    /// as expected, `NoSpace`, and others.
    fn write(
        &self,
        path: TreePath,
        bytes: Vec<u8>,
        expected: Expected,
    ) -> Answer<'_, Written, FilesError>;

    /// A folder's entries by name, `entries_max` at most.
    ///
    /// Errors: when there is no folder, or it is outside of the tree.
    fn list(&self, path: TreePath, entries_max: usize) -> Answer<'_, Listing, FilesError>;

    /// What is at `path`. A link is told as one, wherever it leads.
    ///
    /// Errors: when there is nothing, or it is outside of the tree.
    fn stat(&self, path: TreePath) -> Answer<'_, Entry, FilesError>;

    /// Makes a folder, and those that it is in. One that is there is fine.
    ///
    /// Errors: when a part of the path is a link or a file, and others.
    fn make_folder(&self, path: TreePath) -> Answer<'_, (), FilesError>;

    /// Removes a file, a link (not what it leads to) or an empty folder.
    ///
    /// Errors: when it is the root, in git's own folder, not there, or a folder with something in it.
    fn remove(&self, path: TreePath) -> Answer<'_, (), FilesError>;

    /// Searches files for a regular expression; ignore files hold, and links aren't followed. Dropping
    /// the answer stops it.
    ///
    /// Errors: `Pattern` when pattern or glob isn't one; when there is nothing to search.
    fn search(&self, request: SearchRequest) -> Answer<'_, SearchFound, FilesError>;
}

/// What a file was like: if it is the same later, nobody has written it meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion([u64; 6]);

impl FileVersion {
    /// For adapters: numbers of which one at least is another after a write.
    #[must_use]
    pub const fn new(marks: [u64; 6]) -> Self {
        Self(marks)
    }
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
    /// In words: `a file`.
    #[must_use]
    pub const fn with_article(self) -> &'static str {
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

/// What to search for, and where.
#[derive(Debug, Clone)]
pub struct SearchRequest {
    /// A regular expression as ripgrep takes it, for single lines.
    pub pattern: String,
    /// Only files that this glob names, as in an ignore file (`*.rs`); with `!` in front, all others.
    pub glob: Option<String>,
    /// Are capitals told from small letters?
    pub is_case_sensitive: bool,
    /// The folder or file to search.
    pub within: TreePath,
    /// Hits, at most.
    pub hits_max: usize,
    /// Time, at most: what was found until then is answered.
    pub time_max: Duration,
}

/// A line that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// In which file.
    pub path: TreePath,
    /// Its number, from 1 on.
    pub line: u64,
    /// The line, or its beginning; what is no UTF-8 is replaced.
    pub snippet: String,
}

/// What a search has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchFound {
    /// By path and line.
    pub hits: Vec<Hit>,
    /// There may be more hits: as many were found as were asked for.
    pub is_truncated: bool,
    /// There may be more hits: the time was over.
    pub is_out_of_time: bool,
    /// Files that were looked into.
    pub files_searched: u64,
    /// Files and folders that couldn't be read, or not to their end, beside those that are binary.
    pub skipped: u64,
}

/// Why a file wasn't read, written or searched. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// The path isn't one of a tree.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The workspace can't be used now.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The path itself can't be used.
    #[error("the path {path} can't be used: {reason}")]
    InvalidPath {
        /// As it was given.
        path: String,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// A link leads out of the tree.
    #[error("{path} leads out of the tree by a link; only files of the tree can be used")]
    LeadsOut {
        /// As it was given.
        path: String,
    },
    /// There is nothing.
    #[error("{path} doesn't exist; list its folder, or look for it by a search")]
    NotFound {
        /// As it was given.
        path: String,
    },
    /// What is to be changed is reached by a link.
    #[error(
        "nothing was changed at {path}, as {link} is a link to {target}; give the path that it leads to"
    )]
    IsALink {
        /// As it was given.
        path: String,
        /// The part of the path that is a link.
        link: String,
        /// What the link holds.
        target: String,
    },
    /// It is something else than the call is for.
    #[error("{path} is {is}, and {wanted} is needed here; give another path")]
    WrongKind {
        /// As it was given.
        path: String,
        /// What it is: `a folder`.
        is: &'static str,
        /// What it must be.
        wanted: &'static str,
    },
    /// There is something already.
    #[error("{path} exists already; read it first, or choose another name")]
    AlreadyExists {
        /// As it was given.
        path: String,
    },
    /// A folder has something in it.
    #[error("the folder {path} isn't empty; remove what is in it first")]
    NotEmpty {
        /// As it was given.
        path: String,
    },
    /// Somebody has changed it since it was read.
    #[error("{path} has changed since it was read, and was left as it is; read it again")]
    Changed {
        /// As it was given.
        path: String,
    },
    /// Whoever asked has gone before it was done.
    #[error("{path} was left as it is: nobody waits for it any more")]
    Abandoned {
        /// As it was given.
        path: String,
    },
    /// The disk is full, or a quota is reached.
    #[error("there is no space left for {path}; evict workspaces that nobody needs, and try again")]
    NoSpace {
        /// As it was given.
        path: String,
    },
    /// A search's pattern or glob isn't one.
    #[error("the {what} can't be used: {reason}; mend it, or escape what is meant literally")]
    Pattern {
        /// `pattern` or `glob`.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The system refused it otherwise.
    #[error("{doing} {path} failed: {source}; see that the tree is there and may be used")]
    System {
        /// Doing what: `reading`.
        doing: &'static str,
        /// As it was given.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}
