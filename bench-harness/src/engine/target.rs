//! Where requests go: a parsed `http://` URL, checked before anything is sent.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use http::Uri;

/// A service's base URL, resolved into what a connection needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    host: String,
    port: u16,
    base_path: String,
}

/// Why a target can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Not a URL, or one without a host.
    #[error(
        "target `{given}` is not a URL with a host ({reason}); write it like http://127.0.0.1:8000"
    )]
    NotAUrl {
        /// What was given.
        given: String,
        /// What is wrong with it.
        reason: String,
    },
    /// TLS is not spoken by this version.
    #[error(
        "target `{0}` is https, which this version does not speak; \
         name the service's plain http port, behind its TLS terminator"
    )]
    Https(String),
    /// A scheme that is no HTTP.
    #[error("target `{given}` has the scheme `{scheme}`, expected http")]
    Scheme {
        /// What was given.
        given: String,
        /// Its scheme.
        scheme: String,
    },
    /// A query belongs to a scenario's requests.
    #[error("target `{0}` has a query; put it into the scenario's requests")]
    Query(String),
}

impl Target {
    /// Parses a base URL such as `http://127.0.0.1:8000` or `http://[::1]:8000/base`.
    ///
    /// # Errors
    /// [`TargetError`] names what was given and what to write instead.
    pub fn parse(given: &str) -> Result<Self, TargetError> {
        let not_a_url = |reason: String| TargetError::NotAUrl {
            given: given.to_owned(),
            reason,
        };
        let uri: Uri = given
            .trim()
            .parse()
            .map_err(|error| not_a_url(format!("{error}")))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(TargetError::Https(given.to_owned())),
            Some(scheme) => {
                return Err(TargetError::Scheme {
                    given: given.to_owned(),
                    scheme: scheme.to_owned(),
                });
            }
            None => return Err(not_a_url("it has no http://".to_owned())),
        }
        let authority = uri
            .authority()
            .ok_or_else(|| not_a_url("it has no host".to_owned()))?;
        if authority.host().is_empty() {
            return Err(not_a_url("its host is empty".to_owned()));
        }
        if authority.as_str().contains('@') {
            return Err(not_a_url(
                "it has a user name; put credentials into the scenario's headers".to_owned(),
            ));
        }
        if uri.query().is_some() {
            return Err(TargetError::Query(given.to_owned()));
        }
        Ok(Self {
            host: authority.host().to_owned(),
            port: authority.port_u16().unwrap_or(80),
            base_path: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// A service on this machine's loopback.
    pub fn loopback(port: u16) -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port,
            base_path: String::new(),
        }
    }

    /// Host name or address, without the brackets of IPv6.
    pub fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Path before every request's path, without a slash at its end.
    pub fn base_path(&self) -> &str {
        &self.base_path
    }

    /// The address, when the host is one: then no name has to be resolved.
    pub fn literal_address(&self) -> Option<SocketAddr> {
        // Not an address is no error here: it is a name then.
        let address: IpAddr = self.host().parse().ok()?;
        Some(SocketAddr::new(address, self.port))
    }

    /// Value of the `Host` header.
    pub fn host_header(&self) -> String {
        if self.port == 80 {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The full URL of a path on this service.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}:{}{}{path}", self.host, self.port, self.base_path)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let plain = Target::parse("http://127.0.0.1:8000/").expect("a URL");
        assert_eq!(plain, Target::loopback(8000));
        let base = Target::parse("http://[::1]:81/base/").expect("a URL");
        assert_eq!(base.host(), "::1");
        assert_eq!(base.base_path(), "/base");
        assert_eq!(base.host_header(), "[::1]:81");
        assert_eq!(base.url("/x"), "http://[::1]:81/base/x");
        assert!(base.literal_address().is_some());
        let name = Target::parse("http://service.test").expect("a URL");
        assert_eq!(name.port(), 80);
        assert_eq!(name.host_header(), "service.test");
        assert_eq!(name.literal_address(), None);
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for given in [
            "https://127.0.0.1",
            "ftp://127.0.0.1",
            "127.0.0.1:8000",
            "http://user:pw@127.0.0.1",
            "http://127.0.0.1/?a=b",
            "",
        ] {
            let error = Target::parse(given).expect_err("not usable");
            assert!(error.to_string().contains(given), "{error}");
        }
    }
}
