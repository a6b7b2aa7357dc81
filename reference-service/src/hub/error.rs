//! Why the code host is of no help.

use std::fmt;

use serde_json::error::Category;
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
            Self::Malformed(source) => write!(
                f,
                "wasn't answered with the JSON that its API promises: {} at line {} column {}",
                kind(source),
                source.line(),
                source.column()
            ),
            Self::Endless => write!(f, "has more than {PAGES_MAX} pages"),
        }
    }
}

/// What is wrong with an answer. What the parser itself says quotes the answer, and that may be a
/// token.
fn kind(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        Category::Io => "it can't be read",
        Category::Syntax => "no JSON",
        Category::Data => "another shape or value",
        Category::Eof => "it ends too early",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_hub_wrote_is_not_quoted() {
        for (answer, what) in [
            (r#""secret""#, "another shape or value at line 1 column 8"),
            ("secret", "no JSON at line 1 column 1"),
            ("", "it ends too early at line 1 column 0"),
        ] {
            let error = HubError {
                call: "GET /x".to_owned(),
                failure: Failure::Malformed(serde_json::from_str::<u64>(answer).expect_err(answer)),
            };
            for told in [error.detail(), error.to_string()] {
                assert!(
                    told.ends_with(&format!("its API promises: {what}")),
                    "{told}"
                );
            }
        }
    }
}
