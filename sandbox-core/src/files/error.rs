//! What can go wrong with files of a tree, each with what to do. Paths are shown escaped.

use std::io;

use rustix::io::Errno;

use super::TreePath;

/// Why a file wasn't read, written or searched. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
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

impl FilesError {
    /// What the system's answer means for a path in a tree.
    pub(super) fn of_system(doing: &'static str, path: &TreePath, errno: Errno) -> Self {
        let path = path.to_string();
        match errno {
            Errno::XDEV => Self::LeadsOut { path },
            Errno::NOENT | Errno::NOTDIR => Self::NotFound { path },
            Errno::NOTEMPTY => Self::NotEmpty { path },
            Errno::EXIST => Self::AlreadyExists { path },
            Errno::NOSPC | Errno::DQUOT => Self::NoSpace { path },
            Errno::NAMETOOLONG => Self::InvalidPath {
                path,
                reason: "a part of it is longer than the file system takes",
            },
            errno => Self::System {
                doing,
                path,
                source: errno.into(),
            },
        }
    }
}
