//! What the system's errors mean for a path in a tree.

use rustix::io::Errno;

use crate::domain::TreePath;
use crate::ports::files::FilesError;

/// What the system's answer means for `path`.
pub(super) fn of_system(doing: &'static str, path: &TreePath, errno: Errno) -> FilesError {
    let path = path.to_string();
    match errno {
        Errno::XDEV => FilesError::LeadsOut { path },
        Errno::NOENT | Errno::NOTDIR => FilesError::NotFound { path },
        Errno::NOTEMPTY => FilesError::NotEmpty { path },
        Errno::EXIST => FilesError::AlreadyExists { path },
        Errno::NOSPC | Errno::DQUOT => FilesError::NoSpace { path },
        Errno::NAMETOOLONG => FilesError::InvalidPath {
            path,
            reason: "a part of it is longer than the file system takes",
        },
        errno => FilesError::System {
            doing,
            path,
            source: errno.into(),
        },
    }
}
