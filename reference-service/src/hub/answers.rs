//! What the code host answers: the fields that the service reads, and no others.

use std::fmt;

use serde::{Deserialize, Deserializer, de};

/// An organisation, or whoever else owns something.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Organisation {
    /// Its name in addresses.
    pub login: String,
}

/// The service's installation for an organisation or a user.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Installation {
    /// Its number.
    pub id: u64,
    /// Whose.
    pub account: Organisation,
}

/// What opens an installation's repositories. It isn't shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct Token {
    /// Visible characters only, since it goes into a header.
    #[serde(deserialize_with = "visible")]
    pub(super) token: String,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

fn visible<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text)
    } else {
        Err(de::Error::custom("a token has visible characters only"))
    }
}

/// A page of a token's repositories.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct RepositoryPage {
    pub(super) repositories: Vec<Repository>,
}

/// A repository.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Repository {
    /// Its number.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its owner's name and its own.
    pub full_name: String,
    /// Whether only some may see it.
    pub private: bool,
    /// Its page.
    pub html_url: String,
    /// Whose it is.
    pub owner: Organisation,
}

/// A branch.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Branch {
    pub(super) name: String,
}

/// All that a branch holds.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Tree {
    /// Files and folders, in any order.
    pub tree: Vec<TreeEntry>,
    /// Whether the hub has left some out.
    #[serde(default)]
    pub truncated: bool,
}

/// A file, a folder, or another repository's place.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TreeEntry {
    /// From the root, parts by `/`.
    pub path: String,
    /// `blob`, `tree` or `commit`.
    #[serde(rename = "type")]
    pub kind: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_nobody_reads_may_be_anything() {
        let text = r#"{"id":1,"name":"n","full_name":"o/n","private":true,"html_url":"u","owner":{"login":"o","id":null},"size":[]}"#;
        let repository: Repository = serde_json::from_str(text).expect("a repository");
        assert_eq!((repository.id, &*repository.owner.login), (1, "o"));
    }

    #[test]
    fn a_token_that_would_break_its_header_is_none() {
        for bad in [r#""""#, r#""a b""#, r#""a\r\nb""#, r#""é""#, "1", "null"] {
            let text = format!(r#"{{"token":{bad}}}"#);
            assert!(serde_json::from_str::<Token>(&text).is_err(), "{bad}");
        }
        let token: Token = serde_json::from_str(r#"{"token":"ghs_1"}"#).expect("a token");
        assert_eq!(
            (&*token.token, format!("{token:?}")),
            ("ghs_1", "Token".to_owned())
        );
    }
}
