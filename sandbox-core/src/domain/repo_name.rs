//! A repository's name, which becomes a part of paths and URLs and comes from outside.

use std::fmt;

use super::{Invalid, OWN_FOLDER};

const KIND: &str = "repository name";

/// Bytes of the owner and of the name; code hosts allow fewer.
const PART_BYTES_MAX: usize = 100;

/// `owner/repo`, without `.git`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoName {
    text: String,
    slash_at: usize,
}

impl RepoName {
    /// Takes `owner/repo` or `owner/repo.git`.
    ///
    /// # Errors
    /// When there aren't exactly two parts, or one of them is empty, longer than 100 bytes, begins with
    /// a dash, is `.`, holds `..`, or has other characters than letters and digits of ASCII, `.`, `_`, `-`;
    /// and when the owner is `.sandbox`, which is the name of a folder beside those of owners.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let refuse = |reason| Err(Invalid::new(KIND, text, reason));
        let Some((owner, name)) = text.split_once('/') else {
            return refuse("it must be owner/repo");
        };
        let name = name.strip_suffix(".git").unwrap_or(name);
        for part in [owner, name] {
            if let Some(reason) = wrong_with(part) {
                return refuse(reason);
            }
        }
        if name.ends_with(".git") {
            return refuse("it must end with .git once at most");
        }
        if owner.eq_ignore_ascii_case(OWN_FOLDER) {
            return refuse("its owner must not be .sandbox, which is the sandbox's own folder");
        }
        Ok(Self {
            text: format!("{owner}/{name}"),
            slash_at: owner.len(),
        })
    }

    /// Who has it.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.text[..self.slash_at]
    }

    /// What it is called there.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.text[self.slash_at + 1..]
    }

    /// `owner/repo`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The same in lower case, as hosts understand it that ignore case.
    pub(crate) fn in_lower_case(&self) -> Self {
        Self {
            text: self.text.to_ascii_lowercase(),
            slash_at: self.slash_at,
        }
    }
}

impl fmt::Display for RepoName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

fn wrong_with(part: &str) -> Option<&'static str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if part.is_empty() || part == "." {
        return Some("both its parts must have a name");
    }
    if part.len() > PART_BYTES_MAX {
        return Some("each of its parts must have 100 bytes at most");
    }
    if part.starts_with('-') {
        return Some("no part of it may begin with a dash");
    }
    if part.contains("..") {
        return Some("it must not hold ..");
    }
    if !part.chars().all(is_plain) {
        return Some("it must be owner/repo, of letters, digits, ., _ and -");
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_suffix_of_git_is_normalised() {
        for text in ["octo/hello.rs", "octo/hello.rs.git"] {
            let repo = RepoName::parse(text).expect(text);
            assert_eq!((repo.owner(), repo.name()), ("octo", "hello.rs"));
            assert_eq!(repo.to_string(), "octo/hello.rs");
        }
        assert!(RepoName::parse("octo/.github").is_ok());
    }

    #[test]
    fn hostile_names_are_refused() {
        for text in [
            "",
            "octo",
            "/x",
            "octo/",
            "octo/.git",
            "octo/..",
            "../x",
            "octo/a..b",
            "octo/.",
            "./x",
            "-o/x",
            "octo/-x",
            "octo/x/y",
            "octo/x\n",
            "octo/x y",
            "octo/x\0",
            "octo/x\\y",
            "öcto/x",
            "octo/x.git.git",
            "octo/x?y",
            ".Sandbox/x",
            "octo/x:y",
        ] {
            assert!(RepoName::parse(text).is_err(), "{text:?}");
        }
        assert!(RepoName::parse(&format!("o/{}", "a".repeat(101))).is_err());
    }

    proptest! {
        #[test]
        fn what_is_taken_is_taken_again_as_it_is(text in "[a-zA-Z._/-]{1,16}(\\.git)?") {
            if let Ok(repo) = RepoName::parse(&text) {
                prop_assert_eq!(RepoName::parse(repo.as_str()), Ok(repo.clone()));
                prop_assert_eq!(format!("{}/{}", repo.owner(), repo.name()), repo.as_str());
            }
        }
    }
}
