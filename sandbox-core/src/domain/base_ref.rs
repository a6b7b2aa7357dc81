//! What a workspace starts from.

use std::fmt;

use super::Invalid;
use super::branch_name::check_ref_format;
use super::commit_id::is_object_id;

/// A branch, tag or commit from which a workspace starts: resolved, so never `HEAD`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BaseRef(String);

impl BaseRef {
    /// Takes the name of a branch or tag, short or from `refs/` on, or a commit's full id.
    ///
    /// # Errors
    /// When git would refuse it as a ref's name, or it has to be resolved first, as `HEAD` has.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        check_ref_format("base ref", text)?;
        Ok(Self(text.to_owned()))
    }

    /// The name or id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Does it name a commit by its full id, which never moves?
    #[must_use]
    pub fn is_commit(&self) -> bool {
        is_object_id(&self.0)
    }
}

impl fmt::Display for BaseRef {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refs_and_commits_are_bases_and_unresolved_names_are_not() {
        for text in ["main", "refs/tags/v1", &"ab".repeat(20)] {
            let base = BaseRef::parse(text).expect(text);
            assert_eq!(base.is_commit(), text.len() == 40);
        }
        for text in [
            "HEAD",
            "FETCH_HEAD",
            "main~1",
            "@{u}",
            "main^{commit}",
            "-x",
            "a..b",
        ] {
            assert!(BaseRef::parse(text).is_err(), "{text}");
        }
    }
}
