//! Where a repository is fetched from: a URL that holds no secret and can't be taken for an option.

use std::fmt;

use url::{Host, Url};

use super::digest::digest_hex;
use super::{Invalid, RepoName, UrlScheme};

const KIND: &str = "repository URL";
const FORM: &str =
    "write it as https://host/owner/repo, ssh://git@host/owner/repo or file:///folder";
const BYTES_MAX: usize = 1024;
const HOST_BYTES_MAX: usize = 255;
const SSH_PORT: u16 = 22;

/// A code host: its name in lower case, and its port where that isn't the usual one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GitHost(String);

impl GitHost {
    /// Takes `host` or `host:port`.
    ///
    /// # Errors
    /// When it is empty, longer than 255 bytes, begins with a dash, or has a character that no host has.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let is_plain =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
        let is_host = !text.is_empty()
            && text.len() <= HOST_BYTES_MAX
            && !text.starts_with('-')
            && text.chars().all(is_plain);
        if !is_host {
            return Err(Invalid::new(
                "code host",
                text,
                "it must be a host's name, with :port where that isn't the usual one",
            ));
        }
        Ok(Self(text.to_ascii_lowercase()))
    }

    /// The host's name, with its port if any.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GitHost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// A URL to fetch from and push to, without credentials.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RepoUrl {
    text: String,
    scheme: UrlScheme,
    host: GitHost,
    repo: Option<RepoName>,
}

impl RepoUrl {
    /// Takes a URL of the schemes `https`, `ssh`, `file`, and `http` for this machine only, since
    /// elsewhere it would carry tokens in the clear. Which of these are used is a deployment's matter:
    /// see [`UrlSchemes`](super::UrlSchemes).
    ///
    /// # Errors
    /// When it is something else, has a password, a token, a query or a fragment, or leads to no
    /// `owner/repo`. The error doesn't show it, as it may hold a secret.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let refuse = |reason| Err(Invalid::unshown(KIND, reason));
        // `Url` drops line breaks without a word, so they are looked for first.
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return refuse("it must have no white space or control characters");
        }
        if text.len() > BYTES_MAX {
            return refuse("it must have 1024 bytes at most");
        }
        let Ok(url) = Url::parse(text) else {
            return refuse(FORM);
        };
        if url.query().is_some() || url.fragment().is_some() {
            return refuse("it must have neither ? nor #");
        }
        match url.scheme() {
            "https" => Self::of_host(&url, UrlScheme::Https),
            "ssh" => Self::of_host(&url, UrlScheme::Ssh),
            "http" if is_loopback(&url) => Self::of_host(&url, UrlScheme::Http),
            "http" => refuse("http carries tokens in the clear: use https"),
            "file" => Self::of_folder(&url),
            _ => refuse(FORM),
        }
    }

    /// Where a repository of github.com is.
    #[must_use]
    pub fn github(repo: &RepoName) -> Self {
        Self {
            text: format!("https://github.com/{repo}.git"),
            scheme: UrlScheme::Https,
            host: GitHost("github.com".to_owned()),
            repo: Some(repo.clone()),
        }
    }

    /// The URL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its scheme.
    #[must_use]
    pub fn scheme(&self) -> UrlScheme {
        self.scheme
    }

    /// Its host. A folder of this machine counts as a host of its own, so that two folders with
    /// repositories of one name are not taken for one repository.
    #[must_use]
    pub fn host(&self) -> &GitHost {
        &self.host
    }

    /// The repository that its path names. A folder's path names none.
    #[must_use]
    pub fn repo(&self) -> Option<&RepoName> {
        self.repo.as_ref()
    }

    fn of_host(url: &Url, scheme: UrlScheme) -> Result<Self, Invalid> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let user = url.username();
        let may_have_user =
            scheme == UrlScheme::Ssh && !user.starts_with('-') && user.chars().all(is_plain);
        if url.password().is_some() || !(user.is_empty() || may_have_user) {
            return Err(Invalid::unshown(
                KIND,
                "it must hold no credentials: hand the token over apart from it",
            ));
        }
        let name = url.host_str().unwrap_or_default();
        let port = url
            .port()
            .filter(|port| scheme != UrlScheme::Ssh || *port != SSH_PORT);
        let host = match port {
            Some(port) => GitHost::parse(&format!("{name}:{port}")),
            None => GitHost::parse(name),
        };
        let host = host.map_err(|_| Invalid::unshown(KIND, FORM))?;
        let path = url.path().trim_end_matches('/');
        let repo = RepoName::parse(path.strip_prefix('/').unwrap_or(path))
            .map_err(|_| Invalid::unshown(KIND, "its path must be /owner/repo"))?;
        Ok(Self {
            text: url.as_str().to_owned(),
            scheme,
            host,
            repo: Some(repo),
        })
    }

    fn of_folder(url: &Url) -> Result<Self, Invalid> {
        let path = url.path().trim_end_matches('/');
        if url.host_str().is_some() || path.is_empty() {
            return Err(Invalid::unshown(KIND, FORM));
        }
        let digest = digest_hex(&[path]);
        Ok(Self {
            text: url.as_str().to_owned(),
            scheme: UrlScheme::File,
            host: GitHost(format!("file-{}", &digest[..16])),
            repo: None,
        })
    }
}

impl fmt::Display for RepoUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn https_and_ssh_lead_to_the_same_host_and_repository() {
        for text in [
            "https://GitHub.com/octo/hello.git",
            "https://github.com:443/octo/hello/",
            "ssh://git@github.com/octo/hello.git",
            "ssh://git@github.com:22/octo/hello",
        ] {
            let url = RepoUrl::parse(text).expect(text);
            assert_eq!(url.host().as_str(), "github.com", "{text}");
            assert_eq!(url.repo().map(RepoName::as_str), Some("octo/hello"));
        }
        let repo = RepoName::parse("octo/hello").expect("a name");
        let url = RepoUrl::github(&repo);
        assert_eq!(RepoUrl::parse(url.as_str()), Ok(url));
    }

    #[test]
    fn folders_with_one_name_are_two_hosts() {
        let host = |text| RepoUrl::parse(text).expect("a folder").host().clone();
        assert_ne!(host("file:///a/octo/hello"), host("file:///b/octo/hello"));
        assert_eq!(host("file:///a/octo/hello"), host("file:///a/octo/hello/"));
    }

    #[test]
    fn what_holds_credentials_or_could_be_an_option_is_refused_unshown() {
        for text in [
            "https://s3cret@github.com/octo/hello",
            "https://u:s3cret@github.com/octo/hello",
            "ssh://git:s3cret@github.com/octo/hello",
            "https://github.com/octo/hello?token=s3cret",
            "https://github.com/octo/hello#s3cret",
            "http://github.com/octo/hello",
            "http://127.evil.example/octo/hello",
            "--upload-pack=s3cret",
            "ext::sh -c s3cret",
            "ext::s3cret",
            "git@github.com:octo/hello",
            "ssh://-oProxyCommand=s3cret/octo/hello",
            "ssh://-o@github.com/octo/hello",
            "https://github.com/octo",
            "https://github.com/octo/hello/tree",
            "https://github.com/octo/he\nllo",
            "file://host/folder",
            "file:///",
            "",
        ] {
            let refused = RepoUrl::parse(text).expect_err(text).to_string();
            assert!(!refused.contains("s3cret"), "{refused}");
        }
        assert!(RepoUrl::parse("http://127.0.0.1:8080/octo/hello").is_ok());
    }
}
