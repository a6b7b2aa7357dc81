//! Calls to services beside this one, and what they answer; step 4 moves them.
//!
//! The identity service and the issue tracker are asked, and the request waits for their answer.
//! Mail and analytics are only told: after step 4 nobody waits for them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use thiserror::Error;

use crate::bridge::{Bridge, NotHandedOver};

/// Bytes of an answer that are read. What is longer is an error: a service that goes astray must
/// not fill this one's memory.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;

/// What a service answered, whatever its status. Redirects are answers, too: nobody follows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// All of the body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON; null if it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        // What isn't JSON has none of the fields that anybody looks for.
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Why a service didn't answer, or wasn't told.
#[derive(Debug, Error)]
pub enum CallError {
    /// No connection, none that held, or no answer in time.
    #[error("the call failed: {0}")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A body that isn't read to its end.
    #[error("the answer is longer than {ANSWER_BYTES_MAX} bytes")]
    TooLong,
    /// An answer that says no to who only tells something.
    #[error("the answer was {0}")]
    Refused(u16),
    /// The bridge's queue was full, or it is closed.
    #[error(transparent)]
    NotHandedOver(#[from] NotHandedOver),
}

/// Later, or in the blocking variant at the first poll.
pub type CallFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, CallError>> + Send + 'a>>;

/// A service. Each call is on a connection of its own, as in the service being migrated.
pub trait ServiceClient: Send + Sync {
    /// One POST of JSON to a path below the service's address, which begins with a slash or is
    /// empty.
    fn post<'a>(&'a self, path: &'a str, body: &'a Value) -> CallFuture<'a, Answer>;
}

/// A service that is told of something.
pub trait Listener: Send + Sync {
    /// Tells it.
    fn tell(&self, what: Value) -> CallFuture<'_, ()>;
}

/// The services that requests ask and tell; those whose address isn't known are left out.
#[derive(Clone, Default)]
pub struct Services {
    /// Whom passwords are shown to.
    pub identity: Option<Arc<dyn ServiceClient>>,
    /// Where issues are.
    pub tracker: Option<Arc<dyn ServiceClient>>,
    /// Who sends mail.
    pub mail: Option<Arc<dyn Listener>>,
    /// Who counts what users do.
    pub analytics: Option<Arc<dyn Listener>>,
    /// What of it goes over a bridge.
    pub bridges: Vec<Arc<Bridge>>,
}

impl Services {
    /// Tells a service, if there is one. What comes of it changes nothing for whoever asked for
    /// something else.
    pub(crate) async fn tell(listener: Option<&Arc<dyn Listener>>, service: &str, what: Value) {
        let Some(listener) = listener else {
            return;
        };
        if let Err(error) = listener.tell(what).await {
            tracing::warn!(%error, "{service} was not told");
        }
    }

    /// Lets the bridges do what they have taken, for so long; each tells what it didn't.
    pub async fn close(&self, patience: Duration) {
        let end = tokio::time::Instant::now() + patience;
        for bridge in &self.bridges {
            bridge.close(end).await;
        }
    }
}
