//! By which schemes repositories are reached, and which of them a deployment allows.

use std::fmt;

use super::{Invalid, RepoUrl};

/// How a repository is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UrlScheme {
    /// By a code host, over TLS: it decides who may read what.
    Https,
    /// By a code host on this machine, in the clear.
    Http,
    /// By ssh, with the keys of whoever runs this process.
    Ssh,
    /// As a folder of this machine, read with the rights of whoever runs this process.
    File,
}

impl UrlScheme {
    /// Every scheme.
    pub const ALL: [Self; 4] = [Self::Https, Self::Http, Self::Ssh, Self::File];

    /// As it is written before `://`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
            Self::Ssh => "ssh",
            Self::File => "file",
        }
    }

    /// Takes `https`, `http`, `ssh` or `file`.
    ///
    /// # Errors
    /// When it is something else.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let found = Self::ALL.into_iter().find(|known| known.as_str() == text);
        found.ok_or_else(|| {
            let reason = "it must be https, http, ssh or file";
            Invalid::new("scheme of repository URLs", text, reason)
        })
    }
}

impl fmt::Display for UrlScheme {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// By which schemes repositories may be fetched and pushed to: `https` alone, if nothing else is said.
///
/// Behind `https` a code host decides who may read what. A folder is read with this process's rights and
/// ssh goes with its user's keys, whoever asks: so these are for where whoever asks may have all that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlSchemes(Vec<UrlScheme>);

impl Default for UrlSchemes {
    fn default() -> Self {
        Self(vec![UrlScheme::Https])
    }
}

impl UrlSchemes {
    /// These and one more.
    #[must_use]
    pub fn and(mut self, scheme: UrlScheme) -> Self {
        if !self.0.contains(&scheme) {
            self.0.push(scheme);
        }
        self
    }

    /// May this repository be reached?
    ///
    /// # Errors
    /// When its scheme isn't among these.
    pub fn check(&self, url: &RepoUrl) -> Result<(), SchemeRefused> {
        let scheme = url.scheme();
        if self.0.contains(&scheme) {
            return Ok(());
        }
        let allowed = self.clone();
        Err(SchemeRefused { scheme, allowed })
    }
}

impl fmt::Display for UrlSchemes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, scheme) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(out, "{separator}{scheme}")?;
        }
        Ok(())
    }
}

/// A repository that isn't reached by an allowed scheme. Nothing was asked of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "repositories are not reached by {scheme} here, but by {allowed} only; give another URL, or allow it by \
     --allow-scheme {scheme} or UNSTALL_SANDBOX_SCHEMES={scheme} (`schemes` of the service's settings)"
)]
pub struct SchemeRefused {
    scheme: UrlScheme,
    allowed: UrlSchemes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_is_allowed_unless_more_is_said() {
        let url = |text| RepoUrl::parse(text).expect(text);
        let usual = UrlSchemes::default();
        assert_eq!(usual.check(&url("https://example.org/octo/hello")), Ok(()));
        for text in [
            "file:///srv/octo/hello",
            "ssh://git@example.org/octo/hello",
            "http://127.0.0.1:8080/octo/hello",
        ] {
            let refused = usual.check(&url(text)).expect_err(text).to_string();
            let scheme = url(text).scheme();
            assert!(
                refused.contains(&format!("--allow-scheme {scheme}"))
                    && refused.contains("by https only"),
                "{refused}"
            );
            assert_eq!(usual.clone().and(scheme).check(&url(text)), Ok(()));
        }
        let more = usual.and(UrlScheme::File).and(UrlScheme::File);
        assert_eq!(more.to_string(), "https, file");
    }

    #[test]
    fn a_scheme_is_known_by_its_word() {
        for scheme in UrlScheme::ALL {
            assert_eq!(UrlScheme::parse(scheme.as_str()), Ok(scheme));
        }
        for word in ["", "HTTPS", "git", "https,file"] {
            assert!(UrlScheme::parse(word).is_err(), "{word}");
        }
    }
}
