//! What is said between the self-test and the program that holds the canaries: one JSON document
//! per line, orders on its stdin and replies on its stdout.

use serde::{Deserialize, Serialize};
use unstall_loop_monitor::certificate::Certificate;
use unstall_loop_monitor::wire::Snapshot;

use super::canary::Canary;

/// To the program.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    /// Serve requests, one after the other, and say when they are done.
    Run(Run),
    /// Say what the monitor knows.
    Snapshot,
    /// Say what the proof knows.
    Certificate,
    /// Let the never-ending poll end.
    Release,
}

/// One canary's requests.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Run {
    /// What each does.
    pub(super) canary: Canary,
    /// How many.
    pub(super) count: u64,
    /// How long each sleeps or computes, where that can be chosen.
    pub(super) block_us: u64,
    /// Whether to read the thread's own counters around each call; not under a proof, which
    /// would take these reads for the canary's.
    pub(super) count_sleeps: bool,
}

/// From the program.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reply {
    /// It listens.
    Ready,
    /// A run is over.
    Finished(Finished),
    /// What the monitor knows.
    Snapshot(Box<Snapshot>),
    /// What the proof knows.
    Certificate(Box<Certificate>),
}

/// What the canary says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Finished {
    /// Which.
    pub(super) canary: Canary,
    /// Calls made.
    pub(super) calls: u64,
    /// Calls in which the thread slept for 200 µs or more, by its own account.
    pub(super) slept: u64,
    /// Why it couldn't go on.
    #[serde(default)]
    pub(super) error: Option<String>,
}
