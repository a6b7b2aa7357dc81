//! Why the code host is of no help.

use std::fmt;

use thiserror::Error;

use super::PAGES_MAX;
use crate::stores::ClientError;

/// A call that failed.
#[derive(Debug, Error)]
#[error("the code host failed: {call} {failure}")]
pub struct HubError {
    /// Which: method and path.
    pub call: String,
    /// How.
    pub failure: Failure,
}

impl HubError {
    /// For the caller: without what a client library says, which differs from one to the other.
    #[must_use]
    pub fn detail(&self) -> String {
        format!("The code host failed: {} {}", self.call, self.failure)
    }
}

/// How a call failed.
#[derive(Debug)]
pub enum Failure {
    /// No connection, a broken one, or an answer that isn't HTTP.
    NoAnswer(ClientError),
    /// Not in time.
    Slow,
    /// Not a success.
    Status(u16),
    /// Larger than is read.
    TooLarge,
    /// Not what the hub's API promises.
    Malformed(serde_json::Error),
    /// A list without end.
    Endless,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAnswer(_) => f.write_str("got no whole answer"),
            Self::Slow => f.write_str("got no answer in time"),
            Self::Status(status) => write!(f, "was answered with status {status}"),
            Self::TooLarge => f.write_str("was answered with more than is read"),
            Self::Malformed(source) => {
                write!(
                    f,
                    "wasn't answered with the JSON that its API promises: {source}"
                )
            }
            Self::Endless => write!(f, "has more than {PAGES_MAX} pages"),
        }
    }
}
