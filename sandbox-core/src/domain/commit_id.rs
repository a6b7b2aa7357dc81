//! A commit's full name.

use std::fmt;

use super::Invalid;

/// A commit by its full object id: 40 (SHA-1) or 64 (SHA-256) lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId(String);

impl CommitId {
    /// Takes a full object id; upper case becomes lower case.
    ///
    /// # Errors
    /// When it is abbreviated or no object id.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if !is_object_id(text) {
            return Err(Invalid::new(
                "commit id",
                text,
                "it must be the full id of 40 or 64 hexadecimal digits; ask git rev-parse for it",
            ));
        }
        Ok(Self(text.to_ascii_lowercase()))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Does git take this text for an object id before it looks for a branch of that name?
pub(crate) fn is_object_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_ids_are_commits() {
        assert_eq!(
            CommitId::parse(&"AB".repeat(20)).map(|id| id.to_string()),
            Ok("ab".repeat(20))
        );
        assert!(CommitId::parse(&"0".repeat(64)).is_ok());
        for text in ["", "abc1234", &"g".repeat(40), &"0".repeat(41), "main"] {
            assert!(CommitId::parse(text).is_err(), "{text}");
        }
    }
}
