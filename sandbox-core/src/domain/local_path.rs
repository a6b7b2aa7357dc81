//! Where a tree or cache lies, below the root that a deployment chooses.

use std::fmt;
use std::path::{Path, PathBuf};

use super::Invalid;

/// The folder at the root in which the sandbox keeps what is its own. No owner of a repository is called so.
pub const OWN_FOLDER: &str = ".sandbox";

const KIND: &str = "path below the root";

/// Bytes of a path: a quarter of Linux' PATH_MAX, so that the root and a repository's own files fit.
const BYTES_MAX: usize = 1024;

/// A path below the root: relative, of plain components, so that it can't lead out of it.
///
/// Stores keep this and not the full path, so that the root may move.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalPath(String);

impl LocalPath {
    /// Takes components separated by `/`.
    ///
    /// # Errors
    /// When it is absolute, empty, longer than 1024 bytes, or has a component that is empty, `.` or
    /// `..`, a control character or a backslash.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let refuse = |reason| Err(Invalid::new(KIND, text, reason));
        if text.is_empty() || text.starts_with('/') {
            return refuse("it must be relative and not empty");
        }
        if text.len() > BYTES_MAX {
            return refuse("it must have 1024 bytes at most");
        }
        if text.chars().any(|c| c.is_control() || c == '\\') {
            return refuse("it must have no control characters and no backslash");
        }
        if text.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return refuse("no part of it may be empty, . or ..");
        }
        Ok(Self(text.to_owned()))
    }

    /// The relative path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The full path, below `root`. Links on the way are the adapter's to refuse.
    #[must_use]
    pub fn under(&self, root: &Path) -> PathBuf {
        root.join(&self.0)
    }
}

impl fmt::Display for LocalPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_that_leads_out_of_the_root_is_refused() {
        for text in [
            "", "/a", "..", "a/../b", "./a", "a//b", "a/", "a\nb", "a\\b", "a\0",
        ] {
            assert!(LocalPath::parse(text).is_err(), "{text:?}");
        }
        let path = LocalPath::parse("o/r/worktrees/a..b").expect("dots within a name are harmless");
        assert_eq!(
            path.under(Path::new("/srv")),
            Path::new("/srv/o/r/worktrees/a..b")
        );
    }

    proptest! {
        #[test]
        fn whatever_is_taken_stays_below_the_root(text in "[a./\\\\-]{0,12}") {
            if let Ok(path) = LocalPath::parse(&text) {
                let full = path.under(Path::new("/srv"));
                prop_assert!(full.starts_with("/srv"));
                prop_assert!(full.components().all(|part| part.as_os_str() != ".."));
                prop_assert!(full != Path::new("/srv"));
            }
        }
    }
}
