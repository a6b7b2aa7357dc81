//! Where a service beside this one is.

use std::fmt;
use std::str::FromStr;

use axum::http::Uri;
use thiserror::Error;

/// An `http://` address. The service calls it without TLS, since it runs beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceUrl(Uri);

impl ServiceUrl {
    /// The address of a path, which begins with a slash, below this one; of an empty one, itself.
    #[must_use]
    pub fn at(&self, path: &str) -> String {
        let base = self.to_string();
        if path.is_empty() {
            return base;
        }
        format!("{}{path}", base.trim_end_matches('/'))
    }
}

impl fmt::Display for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An address that isn't a service's.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("not the address of a service; it looks like `http://127.0.0.1:9000/hook`, without TLS")]
pub struct ServiceUrlError;

impl FromStr for ServiceUrl {
    type Err = ServiceUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let uri: Uri = text.parse().map_err(|_not_a_uri| ServiceUrlError)?;
        if uri.scheme_str() == Some("http") && uri.host().is_some_and(|host| !host.is_empty()) {
            Ok(Self(uri))
        } else {
            Err(ServiceUrlError)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_have_plain_http_addresses() {
        let url: ServiceUrl = "http://127.0.0.1:9000/hook?team=1".parse().expect("good");
        assert_eq!(url.to_string(), "http://127.0.0.1:9000/hook?team=1");
        for bad in [
            "",
            "/hook",
            "127.0.0.1:9000",
            "https://127.0.0.1/hook",
            "http://",
        ] {
            assert_eq!(bad.parse::<ServiceUrl>(), Err(ServiceUrlError), "{bad}");
        }
    }

    #[test]
    fn paths_are_below_an_address_with_and_without_a_slash() {
        for base in ["http://127.0.0.1:9000", "http://127.0.0.1:9000/"] {
            let url: ServiceUrl = base.parse().expect("good");
            assert_eq!(url.at("/graphql"), "http://127.0.0.1:9000/graphql");
        }
        let hook: ServiceUrl = "http://127.0.0.1:9000/emails/".parse().expect("good");
        assert_eq!(hook.at(""), "http://127.0.0.1:9000/emails/");
    }
}
