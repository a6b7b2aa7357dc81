//! Paths as they are given for a tree: below its root, of any bytes that a file's name may have.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::Invalid;

const KIND: &str = "path in a tree";

/// Bytes of a path: Linux' PATH_MAX without its end.
const BYTES_MAX: usize = 4095;
/// Characters of a path that are shown in a message.
const SHOWN_CHARS_MAX: usize = 200;

/// A path below a tree's root, of plain parts; the root itself has none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreePath(Vec<u8>);

impl TreePath {
    /// The tree's root.
    #[must_use]
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// Takes a path relative to the root. `.` and needless slashes are left out.
    ///
    /// # Errors
    /// When it is absolute, holds `..` or NUL, or is too long.
    pub fn parse(given: impl AsRef<[u8]>) -> Result<Self, Invalid> {
        let given = given.as_ref();
        let refuse = |reason| Err(Invalid::new(KIND, &String::from_utf8_lossy(given), reason));
        if given.len() > BYTES_MAX {
            return refuse("it must have 4095 bytes at most");
        }
        if given.starts_with(b"/") {
            return refuse("give it relative to the tree's root, without a slash in front");
        }
        if given.contains(&0) {
            return refuse("no file has a name with a NUL byte");
        }
        let parts = || given.split(|&byte| byte == b'/');
        if parts().any(|part| part == b"..") {
            return refuse("give it from the tree's root on, without ..");
        }
        let plain: Vec<&[u8]> = parts()
            .filter(|part| !matches!(*part, b"" | b"."))
            .collect();
        Ok(Self(plain.join(&b'/')))
    }

    /// Is it the root?
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Its bytes, without a slash in front; none for the root.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same as the kernel takes it.
    pub(crate) fn for_kernel(&self) -> &[u8] {
        if self.is_root() { b"." } else { &self.0 }
    }

    /// The same, as if the tree's root were the system's: for rules that know no other paths.
    pub(crate) fn below_slash(&self) -> Vec<u8> {
        [b"/", self.0.as_slice()].concat()
    }

    /// The entry `name`, one part, of this folder.
    pub(crate) fn join(&self, name: &[u8]) -> Self {
        if self.is_root() {
            return Self(name.to_vec());
        }
        Self([self.0.as_slice(), b"/", name].concat())
    }

    /// The folder that it is in and its name there; nothing for the root.
    pub(crate) fn split(&self) -> Option<(Self, &[u8])> {
        if self.is_root() {
            return None;
        }
        match self.0.iter().rposition(|&byte| byte == b'/') {
            Some(at) => Some((Self(self.0[..at].to_vec()), &self.0[at + 1..])),
            None => Some((Self::root(), &self.0)),
        }
    }

    /// Its parts, from the root on.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.0
            .split(|&byte| byte == b'/')
            .filter(|part| !part.is_empty())
    }

    /// Would git take it for its own and never commit it?
    pub(crate) fn is_gits_own(&self) -> bool {
        self.parts().any(|part| part.eq_ignore_ascii_case(b".git"))
    }

    /// As a path, to be joined to the root's.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }
}

impl fmt::Display for TreePath {
    /// For people: escaped, and shortened when it is very long.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return out.write_str(".");
        }
        out.write_str(&shown(&self.0))
    }
}

/// Bytes of a path as text: control characters escaped, what is no UTF-8 replaced. A usual name is
/// itself.
pub(crate) fn escaped(path: &[u8]) -> String {
    let mut text = String::new();
    for c in String::from_utf8_lossy(path).chars() {
        if c.is_control() {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
    }
    text
}

/// The same for a message, where a long one is cut.
pub(crate) fn shown(path: &[u8]) -> String {
    let text = escaped(path);
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn needless_parts_are_left_out() {
        for (given, path) in [
            ("a/b", "a/b"),
            ("./a//b/.", "a/b"),
            ("a/", "a"),
            ("", ""),
            (".", ""),
            ("a..b/...", "a..b/..."),
        ] {
            let parsed = TreePath::parse(given).expect(given);
            assert_eq!(parsed.as_bytes(), path.as_bytes(), "{given}");
        }
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        let long = "a/".repeat(3000);
        for given in ["/etc/passwd", "..", "a/../b", "a/..", "a\0b", &long] {
            assert!(TreePath::parse(given).is_err(), "{given:?}");
        }
    }

    #[test]
    fn names_of_any_bytes_are_taken_and_shown_escaped() {
        let path = TreePath::parse(b"a\xff/b\n -> c").expect("a path");
        assert_eq!(path.to_string(), "a\u{fffd}/b\\n -> c");
        let (folder, name) = path.split().expect("not the root");
        assert_eq!(folder.as_bytes(), b"a\xff");
        assert_eq!(folder.join(name), path);
        assert_eq!(path.parts().count(), 2);
        let long = TreePath::parse("ä".repeat(300)).expect("a path");
        assert_eq!(long.to_string().chars().count(), 201);
        assert_eq!(TreePath::root().to_string(), ".");
    }

    #[test]
    fn gits_own_files_are_known_in_any_folder_and_case() {
        for (given, is_gits) in [
            (".git/config", true),
            (".GIT", true),
            ("sub/.git", true),
            (".github/x", false),
            (".gitignore", false),
        ] {
            assert_eq!(
                TreePath::parse(given).expect(given).is_gits_own(),
                is_gits,
                "{given}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_has_only_plain_parts(given in proptest::collection::vec(
            prop_oneof![Just(b'.'), Just(b'/'), Just(b'a'), any::<u8>()], 0..20,
        )) {
            if let Ok(path) = TreePath::parse(&given) {
                prop_assert!(path.parts().all(|part| !matches!(part, b"" | b"." | b"..")));
                prop_assert!(!path.as_bytes().starts_with(b"/"));
                prop_assert_eq!(TreePath::parse(path.as_bytes()).expect("plain"), path);
            }
        }
    }
}
