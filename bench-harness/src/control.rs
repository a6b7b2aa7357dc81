//! Control traffic: readiness and snapshots. Never the measured load.
//!
//! Each request has a connection of its own, so that nothing lingers on the
//! service while it is measured, and no proxy of the environment is asked.

use std::io;
use std::time::Duration;

/// More than any snapshot holds; a service that answers for ever must not fill our memory.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A small blocking HTTP client.
#[derive(Debug)]
pub struct Control {
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
}

/// An answer to control traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// The whole body, up to 16 MiB.
    pub body: Vec<u8>,
}

/// Why control traffic failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The client could not be made.
    #[error("the control client could not start: {0}")]
    Start(#[source] io::Error),
    /// No answer.
    #[error("GET {url}: {reason}")]
    NoAnswer {
        /// What was asked.
        url: String,
        /// All causes in a row.
        reason: String,
    },
}

impl Control {
    /// A client that waits at most `timeout` for each answer.
    ///
    /// # Errors
    /// If no runtime or client can be made.
    pub fn new(timeout: Duration) -> Result<Self, ControlError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ControlError::Start)?;
        let client = reqwest::Client::builder()
            .no_proxy()
            .pool_max_idle_per_host(0)
            .redirect(reqwest::redirect::Policy::none())
            .timeout(timeout)
            .build()
            .map_err(|error| ControlError::Start(io::Error::other(error)))?;
        Ok(Self { runtime, client })
    }

    /// Asks for `url`.
    ///
    /// # Errors
    /// If there is no complete answer in time.
    pub fn get(&self, url: &str) -> Result<Reply, ControlError> {
        self.get_with_token(url, None)
    }

    /// Asks for `url`, with a bearer token if there is one.
    ///
    /// # Errors
    /// If there is no complete answer in time.
    pub fn get_with_token(&self, url: &str, token: Option<&str>) -> Result<Reply, ControlError> {
        let mut request = self.client.get(url);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let no_answer = |reason| ControlError::NoAnswer {
            url: url.to_owned(),
            reason,
        };
        let work = async {
            let mut response = request.send().await?;
            let status = response.status().as_u16();
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await? {
                if body.len() + chunk.len() > BODY_BYTES_MAX {
                    return Ok(None);
                }
                body.extend_from_slice(&chunk);
            }
            Ok(Some(Reply { status, body }))
        };
        // On a thread of its own, so that it may be called from anywhere.
        let reply: Result<Option<Reply>, reqwest::Error> = std::thread::scope(|threads| {
            threads
                .spawn(|| self.runtime.block_on(work))
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        match reply {
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(no_answer(format!(
                "the answer is longer than {BODY_BYTES_MAX} bytes"
            ))),
            Err(error) => Err(no_answer(all_causes(&error))),
        }
    }
}

/// An error and its sources, in a row.
fn all_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
