//! Tells a hook, such as a team's chat, about new accounts; step 4 moves the call.
//!
//! An account is made before the hook is called, and stays made whatever the hook answers.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;

use axum::http::Uri;
use serde_json::json;
use thiserror::Error;

/// Why a hook was not told.
#[derive(Debug, Error)]
#[error("the notification hook can't be told: {0}")]
pub struct NotifyError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Later, or in the blocking variant at the first poll.
pub type Notification<'a> = Pin<Box<dyn Future<Output = Result<(), NotifyError>> + Send + 'a>>;

/// One POST per message, each on a connection of its own, as in the service being migrated.
pub trait Notifier: Send + Sync {
    /// Sends a message.
    fn notify<'a>(&'a self, message: &'a str) -> Notification<'a>;
}

/// The body that chat hooks take.
#[must_use]
pub fn body(message: &str) -> String {
    json!({ "text": message }).to_string()
}

/// Where the hook is: an `http://` address. The service calls it without TLS, since it runs beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookUrl(Uri);

impl fmt::Display for HookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An address that isn't a hook's.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("not the address of a hook; it looks like `http://127.0.0.1:9000/hook`, without TLS")]
pub struct HookUrlError;

impl FromStr for HookUrl {
    type Err = HookUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let uri: Uri = text.parse().map_err(|_not_a_uri| HookUrlError)?;
        if uri.scheme_str() == Some("http") && uri.host().is_some_and(|host| !host.is_empty()) {
            Ok(Self(uri))
        } else {
            Err(HookUrlError)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_have_plain_http_addresses() {
        let url: HookUrl = "http://127.0.0.1:9000/hook?team=1".parse().expect("good");
        assert_eq!(url.to_string(), "http://127.0.0.1:9000/hook?team=1");
        for bad in [
            "",
            "/hook",
            "127.0.0.1:9000",
            "https://127.0.0.1/hook",
            "http://",
        ] {
            assert_eq!(bad.parse::<HookUrl>(), Err(HookUrlError), "{bad}");
        }
    }

    #[test]
    fn a_message_is_sent_as_text() {
        assert_eq!(body("a \"b\""), r#"{"text":"a \"b\""}"#);
    }
}
