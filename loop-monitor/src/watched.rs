//! What watching another process told: where its loops' time went, and what kept them.

use serde::{Deserialize, Serialize};

use crate::cause::Cause;
use crate::wire::Schema;

/// The schema name of [`WatchSummary`].
pub const SCHEMA_NAME: &str = "unstall.watch";
/// Bumped when a field changes its meaning or disappears.
pub const SCHEMA_MAJOR: u32 = 1;
/// Bumped when a field is added.
pub const SCHEMA_MINOR: u32 = 0;

/// One process, over one stretch of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchSummary {
    /// Name and version of this form.
    pub schema: Schema,
    /// The process.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// `tokio`, `asyncio`, `uvloop`, `node`, or `unknown`.
    pub runtime: String,
    /// How long it was watched.
    pub duration_ns: u64,
    /// Who counted the sleeps.
    pub sleeps_by: SleepSource,
    /// Times that its threads were looked at for names.
    pub looks: u64,
    /// Its event loops, one per thread.
    pub loops: Vec<WatchedLoop>,
    /// What kept them, the longest in sum first.
    pub causes: Vec<WatchedCause>,
    /// What this watch couldn't see, and what to do about it.
    pub notes: Vec<String>,
}

/// Who counted the sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SleepSource {
    /// The kernel told each one (`perf_event_open`), preemption apart.
    Switches,
    /// They were seen by looking often: short ones are missed.
    Looks,
}

/// One event loop. The five add up to the time watched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchedLoop {
    /// The thread's id.
    pub thread_id: u32,
    /// The thread's name.
    pub name: String,
    /// Waiting for events: nothing to do.
    pub idle_ns: u64,
    /// On a core.
    pub running_ns: u64,
    /// Ready, and waiting for a core, or for the kernel to change its memory's map, or for a thread
    /// of its own runtime to begin: what a busy machine makes longer, and no async call shorter.
    pub runqueue_ns: u64,
    /// Waiting for the interpreter lock.
    pub gil_ns: u64,
    /// Kept by something else: nobody on this loop could go on.
    pub blocked_ns: u64,
}

/// One thing that kept a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchedCause {
    /// What, and from which line.
    pub cause: Cause,
    /// Times; where sleeps are only looked at, those seen.
    pub count: u64,
    /// Together.
    pub total_ns: u64,
    /// Longest of them.
    pub longest_ns: u64,
}
