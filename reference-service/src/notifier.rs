//! Tells a hook, such as a team's chat, about new accounts; step 4 moves the call.
//!
//! An account is made before the hook is called, and stays made whatever the hook answers.

use std::future::Future;
use std::pin::Pin;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_sent_as_text() {
        assert_eq!(body("a \"b\""), r#"{"text":"a \"b\""}"#);
    }
}
