//! Where the code host's API is.

use std::fmt;
use std::str::FromStr;

use axum::http::Uri;
use thiserror::Error;

/// An `http://` address, maybe with a path, as self-hosted ones have. The service calls it without
/// TLS, since it runs beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubUrl(String);

impl fmt::Display for HubUrl {
    /// Without a `/` at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An address that isn't a code host's.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "not the address of a code host's API; it looks like `http://127.0.0.1:9000` or `http://127.0.0.1:9000/api/v3`, without TLS and without a query"
)]
pub struct HubUrlError;

impl FromStr for HubUrl {
    type Err = HubUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let uri: Uri = text.parse().map_err(|_not_a_uri| HubUrlError)?;
        let has_host = uri.host().is_some_and(|host| !host.is_empty());
        if uri.scheme_str() == Some("http") && has_host && uri.query().is_none() {
            Ok(Self(text.trim_end_matches('/').to_owned()))
        } else {
            Err(HubUrlError)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_hosts_have_plain_http_addresses() {
        for (text, url) in [
            ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
            ("http://hub.test/", "http://hub.test"),
            ("http://hub.test/api/v3/", "http://hub.test/api/v3"),
        ] {
            let parsed: HubUrl = text.parse().expect(text);
            assert_eq!(parsed.to_string(), url);
        }
        for bad in [
            "",
            "/",
            "hub.test",
            "https://hub.test",
            "http://",
            "http://h/?a=b",
        ] {
            assert_eq!(bad.parse::<HubUrl>(), Err(HubUrlError), "{bad}");
        }
    }
}
