//! The wire form of the monitor: one JSON document, the same from Rust and Python.
//!
//! Counters only grow; a reader takes differences between two snapshots. A
//! changed [`Snapshot::start_id`] is a restart. What a monitor can't measure it leaves out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::watched::WatchedCause;

/// Where a service answers with its snapshot, unless it is configured otherwise.
pub const SNAPSHOT_PATH: &str = "/__unstall/snapshot";
/// Where it answers in Prometheus' text format.
pub const METRICS_PATH: &str = "/__unstall/metrics";
/// In the query of [`SNAPSHOT_PATH`]: with `?stalls_after=42` the snapshot tells all that is kept of
/// [`Stalls`] after the 42nd, and else the newest few. Up to 3 MB of JSON when all slots are full, made
/// on the service's own loop, which is held meanwhile: for after a measurement, not for a scrape.
pub const STALLS_AFTER: &str = "stalls_after";
/// How the text of a 403 begins that comes from the monitor, so that a reader can tell it from
/// a service that lets nobody in; what to do follows.
pub const REFUSAL_PREFIX: &str = "unstall: ";
/// The schema name of [`Snapshot`].
pub const SCHEMA_NAME: &str = "unstall.snapshot";
/// Bumped when a field changes its meaning or disappears.
pub const SCHEMA_MAJOR: u32 = 1;
/// Bumped when a field is added.
pub const SCHEMA_MINOR: u32 = 4;

/// For the schema: a field that is left out wasn't measured, which is no 0 by default.
#[cfg(feature = "schema")]
fn has_no_default<T>(_: &T) -> bool {
    true
}

/// Everything the monitor knows at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Snapshot {
    /// Name and version of this form.
    pub schema: Schema,
    /// Unique per process start.
    pub start_id: String,
    /// Monotonic clock of the process.
    pub mono_ns: u64,
    /// `tokio`, `asyncio` or `uvloop`.
    pub runtime: String,
    /// How blocked time is charged.
    pub mode: Mode,
    /// Number of event-loop threads.
    pub loops: u64,
    /// `METHOD route-template` → counters since the process started.
    /// A service that doesn't speak HTTP has the method `CALL`.
    pub endpoints: BTreeMap<String, Endpoint>,
    /// Name of a spawned task → counters of all tasks of that name, with tasks in the place of
    /// requests. Only tasks that were wrapped are here.
    #[serde(default)]
    pub tasks: BTreeMap<String, Endpoint>,
    /// Blocked time seen between polls of monitored futures, or on tasks that aren't wrapped;
    /// left out where it isn't measured, which is in [`Mode::Holds`] and in Python.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "has_no_default"))]
    pub unattributed: Blocked,
    /// Delay of a timer beyond its due time; single-threaded loops only.
    pub loop_lag: Option<Histogram>,
    /// Threads that run a loop, or a monitored poll, now: is one of them stalled?
    #[serde(default)]
    pub workers: Vec<Worker>,
    /// Jobs for the blocking pool that were wrapped; left out where none can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Pool>,
    /// Name → what the service itself has counted under it since the process started; left out by
    /// a monitor that it can't count with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<BTreeMap<String, u64>>,
    /// What the watcher named, the longest in sum first; left out where none watches. Beyond a cap
    /// they share an entry of endpoint `* (other)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causes: Option<Vec<WatchedCause>>,
    /// Long holds of the loops with their times; left out by a monitor that keeps none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    /// Threads now.
    pub threads: Threads,
    /// What the runtime itself counts; left out by those that count nothing.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "has_no_default"))]
    pub runtime_metrics: RuntimeMetrics,
    /// What this monitor can't see here, in plain words.
    pub not_covered: Vec<String>,
}

/// Name and version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Schema {
    /// Always [`SCHEMA_NAME`].
    pub name: String,
    /// See [`SCHEMA_MAJOR`].
    pub major: u32,
    /// See [`SCHEMA_MINOR`].
    pub minor: u32,
}

/// How blocked time is charged to polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Kernel counters at park, unpark and after long polls; charged to the longest poll.
    Counters,
    /// Kernel counters around every poll: exact, and dearer.
    FullSplit,
    /// Wall time of polls alone: blocked time isn't measured and left out, because this kernel
    /// doesn't count what it takes.
    Holds,
}

impl Mode {
    /// Whether blocked time is measured; if not, the zeros in its place mean nothing.
    #[must_use]
    pub fn measures_blocked(self) -> bool {
        self != Self::Holds
    }
}

/// Counters of one endpoint, or of the tasks of one name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Endpoint {
    /// Requests, or tasks, begun.
    pub requests: u64,
    /// Polls of handlers, bodies or tasks, and what of [`Parts::after`] isn't a poll.
    pub polls: u64,
    /// Wall time inside polls.
    pub hold_ns_sum: u64,
    /// Longest poll since the process started.
    pub hold_ns_max: u64,
    /// Largest sum of one request's polls (all its parts) since the process started. Waits
    /// between its polls aren't in it; the mean per request is `hold_ns_sum / requests`.
    pub request_hold_ns_max: u64,
    /// Polls longer than 1, 10 and 100 ms.
    pub holds_over: HoldsOver,
    /// Distribution of polls' wall time.
    pub hold: Histogram,
    /// Thread CPU inside polls; 0 or left out unless in [`Mode::FullSplit`].
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "has_no_default"))]
    pub cpu_ns: u64,
    /// Waiting for a core inside polls; 0 or left out unless in [`Mode::FullSplit`].
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "has_no_default"))]
    pub runqueue_ns: u64,
    /// Blocked time charged here; left out in [`Mode::Holds`].
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "has_no_default"))]
    pub blocked: Blocked,
    /// The same, by the part of the request that did it: they add up to the above.
    #[serde(default)]
    pub parts: Parts,
}

/// What a request's time on the loop was for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parts {
    /// Until there was a response; of a task, all its polls.
    pub handler: Part,
    /// Polls of the response's body, up to and with the one that says that it has ended.
    pub body: Part,
    /// Polls of the tasks that the request has started, until its response has ended; left out
    /// by a monitor that doesn't see whose a task is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<Part>,
    /// What nobody waits for any more: the dropping of the body, or of a future that was given
    /// up (its client has left, its task was aborted), and whatever runs once the body has ended.
    pub after: Part,
}

/// One part of [`Parts`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// Polls and, in [`Parts::after`], droppings.
    pub polls: u64,
    /// Wall time inside them.
    pub hold_ns_sum: u64,
    /// Blocked time charged to them; left out in [`Mode::Holds`].
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "has_no_default"))]
    pub blocked_ns: u64,
}

/// Polls that held a loop for long, one by one: the newest of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stalls {
    /// Polls that were no longer than this aren't among them.
    pub threshold_ns: u64,
    /// All that there were since the process started, also those that aren't kept any more. It
    /// only grows.
    pub seen: u64,
    /// The monitor keeps so many of the newest.
    pub kept_max: u64,
    /// Those that were asked for (see [`STALLS_AFTER`]) and are kept, by their numbers.
    pub told: Vec<Stall>,
}

/// One poll that held a loop for long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stall {
    /// From 1 on, in the order in which they ended: the last one is [`Stalls::seen`]. A missing
    /// number is one whose times are lost.
    pub number: u64,
    /// By the clock of [`Snapshot::mono_ns`].
    pub began_ns: u64,
    /// By the same clock.
    pub ended_ns: u64,
    /// Whose poll it was: `METHOD route`, or `TASK name`.
    pub endpoint: String,
    /// Which part of it.
    pub part: HoldPart,
    /// Blocked time in it; left out where that isn't measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_ns: Option<u64>,
    /// The line that it was last seen in while it ran, as `function at file:line`; left out
    /// unless a watcher named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
}

/// A part of [`Parts`], by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum HoldPart {
    /// See [`Parts::handler`].
    Handler,
    /// See [`Parts::body`].
    Body,
    /// See [`Parts::child`].
    Child,
    /// See [`Parts::after`].
    After,
}

/// A thread that runs a loop, or a monitored poll outside of one, at this moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Worker {
    /// The kernel's number of the thread.
    pub thread_id: u32,
    /// Number of the worker whose loop it runs; none outside of a loop.
    #[serde(default)]
    pub worker: Option<u64>,
    /// How long the monitored poll that it is in has lasted, also one that never ends; none
    /// between monitored polls.
    #[serde(default)]
    pub poll_age_ns: Option<u64>,
    /// Whose poll that is: `METHOD route`, or `TASK name`.
    #[serde(default)]
    pub endpoint: Option<String>,
}

/// Jobs for the blocking pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pool {
    /// Threads that the pool may have.
    pub threads_max: u64,
    /// Wrapped jobs that run now, as a share of `threads_max`. Near 1, further jobs wait.
    pub saturation: f64,
    /// Wrapped jobs that run now.
    pub running: u64,
    /// Most that ran at once since the process started.
    pub running_max: u64,
    /// Wrapped jobs that wait for a thread now.
    pub queued: u64,
    /// Most that waited at once since the process started.
    pub queued_max: u64,
    /// Name → counters of the jobs of that name.
    pub jobs: BTreeMap<String, PoolJobs>,
}

/// Jobs of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PoolJobs {
    /// Jobs handed over.
    pub submitted: u64,
    /// Jobs that ran to their end, by return or panic.
    pub finished: u64,
    /// Jobs given up before they began.
    pub cancelled: u64,
    /// Wait for a thread now.
    pub queued: u64,
    /// Run now.
    pub running: u64,
    /// From handing over to begin.
    pub wait: Histogram,
    /// Sum of those.
    pub wait_ns_sum: u64,
    /// Longest of those since the process started.
    pub wait_ns_max: u64,
    /// From begin to end.
    pub run: Histogram,
    /// Sum of those.
    pub run_ns_sum: u64,
    /// Longest of those since the process started.
    pub run_ns_max: u64,
}

/// Counts of long polls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HoldsOver {
    /// Longer than 1 ms.
    pub ms_1: u64,
    /// Longer than 10 ms.
    pub ms_10: u64,
    /// Longer than 100 ms.
    pub ms_100: u64,
}

/// Blocked time by class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Blocked {
    /// The thread gave up its core by itself.
    pub slept_ns: u64,
    /// The thread waited for a page from disk.
    pub fault_ns: u64,
    /// Waits for an interpreter's lock: no blocked time, and in none of the other fields. In
    /// Python, which alone has such a lock, what may have been a wait for it counts here.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "has_no_default"))]
    pub gil_ns: u64,
    /// Part of both that was charged to the longest of several polls.
    pub shared_ns: u64,
    /// Polls with any.
    pub events: u64,
    /// Polls with at least 200 µs.
    pub events_over_200us: u64,
    /// Longest in one poll since the process started.
    pub ns_max: u64,
}

/// A distribution: bucket `i` counts values in `[2^i, 2^(i+1))` microseconds, bucket 0 those below 2 µs.
///
/// Powers of two keep the document small and the difference of two snapshots exact.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Histogram {
    /// Counts per bucket; trailing zeros are left out.
    pub log2_us: Vec<u64>,
}

/// Threads of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Threads {
    /// Workers of the runtime.
    pub workers: u64,
    /// Blocking pool.
    pub pool: u64,
    /// The rest.
    pub other: u64,
}

/// What the runtime counts by itself: counters begin when the monitor meets the runtime.
///
/// Tokio counts a stretch of work when it ends, at a park or a look for events; so what runs now
/// isn't in it yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuntimeMetrics {
    /// Time that workers were busy.
    pub busy_ns: u64,
    /// Tasks alive now.
    pub alive_tasks: u64,
    /// Tasks waiting in the global queue now.
    pub global_queue_depth: u64,
    /// Times that a worker parked.
    pub parks: u64,
}
