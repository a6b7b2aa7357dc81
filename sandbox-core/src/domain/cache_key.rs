//! By what a repository's cache is found, and with whom it may be shared.

use std::fmt;

use super::digest::digest_hex;
use super::{GitHost, Invalid, RepoName};

/// Hosts that take `Owner/Repo` and `owner/repo` for one repository.
const HOSTS_WITHOUT_CASE: [&str; 3] = ["bitbucket.org", "github.com", "gitlab.com"];

const DIGITS: usize = 64;

/// A fingerprint of the access with which a cache was fetched: 64 hexadecimal digits.
///
/// Whoever has other access has another cache, so that nobody reads what only others may see.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuthScopeHash(String);

impl AuthScopeHash {
    /// The fingerprint of a scope in words, such as an installation's id. It is never made of a token:
    /// tokens change within a scope.
    #[must_use]
    pub fn of(scope: &str) -> Self {
        Self(digest_hex(&["scope", scope]))
    }

    /// That of what anybody may read.
    #[must_use]
    pub fn public() -> Self {
        Self(digest_hex(&["public"]))
    }

    /// Reads a stored fingerprint back.
    ///
    /// # Errors
    /// When it isn't 64 hexadecimal digits in lower case.
    pub fn from_stored(text: &str) -> Result<Self, Invalid> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != DIGITS || !text.bytes().all(is_digit) {
            return Err(Invalid::new(
                "hash of an access scope",
                text,
                "it must be 64 hexadecimal digits in lower case",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A cache's identity: host, repository and access.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheKey {
    host: GitHost,
    repo: RepoName,
    auth_scope: AuthScopeHash,
}

impl CacheKey {
    /// The key of a repository; in lower case on hosts that ignore case.
    #[must_use]
    pub fn new(host: GitHost, repo: &RepoName, auth_scope: AuthScopeHash) -> Self {
        let repo = if HOSTS_WITHOUT_CASE.contains(&host.as_str()) {
            repo.in_lower_case()
        } else {
            repo.clone()
        };
        Self {
            host,
            repo,
            auth_scope,
        }
    }

    /// The code host.
    #[must_use]
    pub fn host(&self) -> &GitHost {
        &self.host
    }

    /// The repository, as its host compares names.
    #[must_use]
    pub fn repo(&self) -> &RepoName {
        &self.repo
    }

    /// With whose access it was fetched.
    #[must_use]
    pub fn auth_scope(&self) -> &AuthScopeHash {
        &self.auth_scope
    }
}

/// One text per key, and one key per text: `host/owner/repo#scope`.
impl fmt::Display for CacheKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}#{}", self.host, self.repo, self.auth_scope.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(host: &str, repo: &str, scope: AuthScopeHash) -> CacheKey {
        let host = GitHost::parse(host).expect(host);
        CacheKey::new(host, &RepoName::parse(repo).expect(repo), scope)
    }

    #[test]
    fn case_matters_only_where_the_host_says_so() {
        let public = AuthScopeHash::public;
        assert_eq!(
            key("GitHub.com", "Octo/Hello", public()),
            key("github.com", "octo/hello.git", public())
        );
        assert_ne!(
            key("git.example.org", "Octo/Hello", public()),
            key("git.example.org", "octo/hello", public())
        );
    }

    #[test]
    fn other_access_is_another_cache() {
        let with = |scope| key("github.com", "octo/hello", scope);
        assert_ne!(with(AuthScopeHash::public()), with(AuthScopeHash::of("")));
        assert_ne!(with(AuthScopeHash::of("a")), with(AuthScopeHash::of("b")));
        let text = with(AuthScopeHash::of("a")).to_string();
        assert!(text.starts_with("github.com/octo/hello#"), "{text}");
    }

    #[test]
    fn a_stored_scope_is_read_back() {
        let scope = AuthScopeHash::of("installation 7");
        assert_eq!(AuthScopeHash::from_stored(scope.as_str()), Ok(scope));
        for text in ["", "ab", &"A".repeat(64), &"g".repeat(64)] {
            assert!(AuthScopeHash::from_stored(text).is_err(), "{text}");
        }
    }
}
