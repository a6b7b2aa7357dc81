//! One call of the code host's API, and the bytes that answer it.

use std::fmt::{self, Write};

use axum::http::Method;

use super::answers::Token;
use super::error::{Failure, HubError};
use super::{BYTES_MAX, PER_PAGE};
use crate::stores::ClientError;

/// Stands for the proof of who it is that a service signs with its key.
const APP: &str = "Bearer app";
/// Longest name of an owner, or of a repository.
const NAME_BYTES_MAX: usize = 100;

/// A call, without the hub's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// GET or POST; neither has a body.
    pub method: Method,
    /// The path, encoded.
    path: String,
    /// What follows it, of calls that aren't pages of a list.
    query: &'static str,
    /// A list's page, from 1.
    pub(super) page: Option<u32>,
    /// That header's value.
    pub authorization: Option<String>,
    /// Bytes of its answer that are read at most.
    pub bytes_max: usize,
}

/// A call's answer, whatever it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP's.
    pub status: u16,
    /// All of it.
    pub body: Vec<u8>,
}

impl Call {
    pub(super) fn get(path: &str) -> Self {
        Self::new(Method::GET, path.to_owned())
    }

    pub(super) fn for_token(installation: u64) -> Self {
        let path = format!("/app/installations/{installation}/access_tokens");
        Self::new(Method::POST, path).sent_by_app()
    }

    pub(super) fn for_tree(repository: &str, branch: &str) -> Self {
        let path = format!("/repos/{repository}/git/trees/{}", encoded(branch));
        Self {
            query: "?recursive=1",
            ..Self::new(Method::GET, path)
        }
    }

    fn new(method: Method, path: String) -> Self {
        Self {
            method,
            path,
            query: "",
            page: None,
            authorization: None,
            bytes_max: BYTES_MAX,
        }
    }

    /// As the service itself.
    pub(super) fn sent_by_app(self) -> Self {
        self.authorized(APP.to_owned())
    }

    /// As a user, by their account at the hub. Providers' access tokens aren't kept here; the id
    /// stands for one.
    pub(super) fn sent_by_user(self, github_uid: &str) -> Self {
        self.authorized(format!("Bearer user-{}", encoded(github_uid)))
    }

    /// With an installation's token.
    pub(super) fn with_token(self, token: &Token) -> Self {
        self.authorized(format!("Bearer {}", token.token))
    }

    fn authorized(self, value: String) -> Self {
        Self {
            authorization: Some(value),
            ..self
        }
    }

    /// Path and query.
    #[must_use]
    pub fn target(&self) -> String {
        match self.page {
            Some(page) => format!("{}?per_page={PER_PAGE}&page={page}", self.path),
            None => format!("{}{}", self.path, self.query),
        }
    }

    /// Why it failed.
    #[must_use]
    pub fn failed(&self, failure: Failure) -> HubError {
        HubError {
            call: self.to_string(),
            failure,
        }
    }

    /// The connection to the hub failed, or what came isn't HTTP.
    pub fn broken(&self, source: impl Into<ClientError>) -> HubError {
        self.failed(Failure::NoAnswer(source.into()))
    }
}

impl fmt::Display for Call {
    /// As errors name it: a list whatever its page.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

impl Answer {
    /// Itself, if it tells of a success.
    pub(super) fn success(self, call: &Call) -> Result<Self, HubError> {
        if (200..300).contains(&self.status) {
            Ok(self)
        } else {
            Err(call.failed(Failure::Status(self.status)))
        }
    }
}

/// Whether a text is an owner's name, `/`, and a repository's. No other goes into an address.
#[must_use]
pub fn is_repository_name(text: &str) -> bool {
    let is_name = |name: &str| {
        (1..=NAME_BYTES_MAX).contains(&name.len())
            && !name.trim_matches('.').is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    };
    text.split_once('/')
        .is_some_and(|(owner, repository)| is_name(owner) && is_name(repository))
}

/// A text as one part of a path: everything else than letters, digits and `-._~` is encoded.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a string takes it");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_repositories_lead_nowhere_else() {
        for good in ["octo/hello", "o-1/r_2.x", "o/.github"] {
            assert!(is_repository_name(good), "{good}");
        }
        let long = format!("o/{}", "r".repeat(101));
        for bad in [
            "", "/", "octo", "octo/", "/hello", "octo/..", "../hello", "octo/.", "a/b/c", "a/b?c",
            "a/b#c", "a/%2e", "a/b c", "a/é", &long,
        ] {
            assert!(!is_repository_name(bad), "{bad}");
        }
    }

    #[test]
    fn a_branch_is_one_part_of_the_path_whatever_its_name() {
        let call = Call::for_tree("o/r", "feature/é?#..");
        assert_eq!(
            call.target(),
            "/repos/o/r/git/trees/feature%2F%C3%A9%3F%23..?recursive=1"
        );
        assert_eq!(
            call.to_string(),
            "GET /repos/o/r/git/trees/feature%2F%C3%A9%3F%23.."
        );
    }

    #[test]
    fn pages_are_asked_for_as_large_as_they_come() {
        let mut call = Call::get("/user/orgs").sent_by_user("github:u-1\r\n");
        call.page = Some(2);
        assert_eq!(call.target(), "/user/orgs?per_page=100&page=2");
        assert_eq!(
            call.authorization.as_deref(),
            Some("Bearer user-github%3Au-1%0D%0A")
        );
        let call = Call::for_token(7);
        assert_eq!(
            (call.method.as_str(), &*call.target()),
            ("POST", "/app/installations/7/access_tokens")
        );
    }
}
