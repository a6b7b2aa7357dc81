//! Why nothing could be measured, in words that say what to do.

use std::io;

use super::schedule::ScheduleError;

/// A setup request that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupFailure {
    /// Method and name.
    pub request: String,
    /// What went wrong.
    pub reason: String,
    /// The beginning of the answer, if there was one.
    pub answer: String,
}

/// Why a block could not be measured at all.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No user, no request, or no time.
    #[error("nothing to send: {0}")]
    Nothing(&'static str),
    /// Arrivals that can't be scheduled.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A setup request failed.
    #[error(
        "setup request `{}` failed: {}{}{}; mend the service or the scenario's [[setup]]",
        .0.request, .0.reason,
        if .0.answer.is_empty() { "" } else { "; it answered: " }, .0.answer
    )]
    Setup(SetupFailure),
    /// A stop was requested during the setup requests of the run.
    #[error("stopped during setup, as requested")]
    Stopped,
    /// A thread or runtime could not be started.
    #[error(
        "the load generator could not start: {0}; check the limits of processes and descriptors (ulimit -u -n)"
    )]
    Start(#[source] io::Error),
    /// A generator thread panicked: a bug of ours.
    #[error(
        "a generator thread ended unexpectedly ({0}): this is a bug in unstall, please report it"
    )]
    Panicked(String),
}

/// Why a target can't be reached.
#[derive(Debug, thiserror::Error)]
pub enum ReachError {
    /// Nothing could be tried.
    #[error("no connection could be tried: {0}")]
    Start(#[source] io::Error),
    /// There is none.
    #[error("{0}")]
    NoConnection(String),
}

impl EngineError {
    /// A thread ended by a panic, with its message.
    pub(super) fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned());
        Self::Panicked(text.unwrap_or_else(|| "no message".to_owned()))
    }
}
