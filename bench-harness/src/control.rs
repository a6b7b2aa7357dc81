//! Control traffic: readiness and snapshots. Never the measured load.
//!
//! Each request has a connection of its own, so that nothing lingers on the
//! service while it is measured, and takes the way that the load takes.

use std::io;
use std::time::Duration;

use crate::engine::{Target, asking};

/// More than any snapshot holds; a service that answers for ever must not fill our memory.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A small blocking HTTP client for one service.
#[derive(Debug)]
pub struct Control {
    target: Target,
    timeout: Duration,
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
        /// What happened.
        reason: String,
    },
}

impl Control {
    /// A client that waits at most `timeout` for each answer.
    pub fn new(target: &Target, timeout: Duration) -> Self {
        Self {
            target: target.clone(),
            timeout,
        }
    }

    /// The full URL of a path.
    pub fn url(&self, path: &str) -> String {
        self.target.url(path)
    }

    /// Asks for a path of the service.
    ///
    /// # Errors
    /// If there is no complete answer in time.
    pub fn get(&self, path: &str) -> Result<Reply, ControlError> {
        self.get_with_token(path, None)
    }

    /// Asks for a path, with a bearer token if there is one.
    ///
    /// # Errors
    /// If there is no complete answer in time.
    pub fn get_with_token(&self, path: &str, token: Option<&str>) -> Result<Reply, ControlError> {
        let bearer = |token| ("authorization".to_owned(), format!("Bearer {token}"));
        let headers = token.map(bearer).into_iter().collect();
        let ask = || asking::get(&self.target, path, headers, self.timeout, BODY_BYTES_MAX);
        // On a thread of its own, so that it may be called from anywhere.
        let told = std::thread::scope(|threads| {
            threads
                .spawn(ask)
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let told = told.map_err(ControlError::Start)?;
        let told = told.map_err(|reason| ControlError::NoAnswer {
            url: self.url(path),
            reason,
        })?;
        Ok(Reply {
            status: told.status,
            body: told.body,
        })
    }
}
