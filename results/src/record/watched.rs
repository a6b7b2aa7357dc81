//! What a block keeps of a watch from outside.

use serde::{Deserialize, Serialize};

/// What a watch from outside told of the service's event loops during a block. The five times
/// are sums over its loops.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// `tokio`, `asyncio`, `uvloop`, `node` or `unknown`.
    pub runtime: String,
    /// `switches`: the kernel told of each sleep; `looks`: they were looked for, and short ones
    /// are missed.
    pub sleeps_by: String,
    /// Event loops.
    pub loops: u32,
    /// Waiting for events.
    pub idle_us: u64,
    /// On a core.
    pub running_us: u64,
    /// Ready, and waiting for a core.
    pub runqueue_us: u64,
    /// Waiting for Python's interpreter lock.
    pub gil_us: u64,
    /// Kept by something else: nobody on the loop could go on.
    pub blocked_us: u64,
    /// What kept them, the longest in sum first; at most [`WATCHED_CAUSES_MAX`].
    pub causes: Vec<WatchedCause>,
    /// Causes beyond that number, together.
    pub others_us: u64,
    /// What the watch couldn't see.
    pub notes: Vec<String>,
}

/// Causes that a block keeps.
pub const WATCHED_CAUSES_MAX: usize = 32;

/// One thing that kept a loop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedCause {
    /// `io`, `lock`, `sleep`, `spawn`, `gil`, `log`, `fault`, `cpu`, `runqueue` or `unknown`.
    pub class: String,
    /// The system call, if it was in one.
    pub syscall: Option<String>,
    /// A file, or who is at the other end.
    pub target: Option<String>,
    /// `METHOD /route`, where it can be had.
    pub endpoint: Option<String>,
    /// The line to look at: `function at file:line`.
    pub line: Option<String>,
    /// Whether an async call would have left the loop to others.
    pub is_blocking: bool,
    /// Times that it was seen.
    pub count: u64,
    /// Together.
    pub total_us: u64,
    /// Longest of them.
    pub longest_us: u64,
}
