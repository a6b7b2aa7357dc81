//! Why a command wasn't done: each says what to do.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use unstall_sandbox_core::blocking_pool::BlockingPoolError;
use unstall_sandbox_core::domain::{Invalid, SandboxError};
use unstall_sandbox_core::locks::ConnectError;
use unstall_sandbox_core::ports::caches::GitError;
use unstall_sandbox_core::service::{ServiceError, UnknownFault};
use unstall_sandbox_core::stores::OpenError;

use super::signals::StopSignal;

/// A mistake in the command line or in what it names, or something that is missing.
pub(crate) const EXIT_CODE: u8 = 2;

/// Why a command wasn't done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line.
    #[error("{0}")]
    Usage(String),
    /// What was given.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// What was asked for.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// Git.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The runtime.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The store.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// Redis.
    #[error(transparent)]
    Locks(#[from] ConnectError),
    /// Threads.
    #[error(transparent)]
    Threads(#[from] BlockingPoolError),
    /// A test's word.
    #[error(transparent)]
    Fault(#[from] UnknownFault),
    /// The runtime of this process.
    #[error("the process can't be set up: {0}; see whether limits on threads or files are reached")]
    Runtime(io::Error),
    /// Another process has the root.
    #[error(
        "another unstall-sandbox has {} for longer than {waited_s} s; wait for it, or set DATABASE_URL and REDIS_URL, with which many work at once",
        root.display()
    )]
    RootInUse {
        /// The root.
        root: PathBuf,
        /// How long it was waited for.
        waited_s: u64,
    },
    /// The root can't be locked.
    #[error("{} can't be locked: {source}; see that the folder is there and that we may write in it", root.display())]
    RootLock {
        /// The root.
        root: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It was stopped.
    #[error(
        "stopped by {0}: what it had begun was ended, and what is left half-done the next command mends"
    )]
    Stopped(StopSignal),
}

impl Failure {
    /// What the process exits with.
    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::Stopped(signal) => signal.exit_code(),
            _ => EXIT_CODE,
        }
    }

    /// What led to it, the nearest first.
    pub(crate) fn causes(&self) -> Vec<String> {
        let mut causes = Vec::new();
        let mut next = self.source();
        while let Some(cause) = next {
            causes.push(cause.to_string());
            next = cause.source();
        }
        causes
    }
}
