//! What the service's own loop monitor counted while a block was measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::histogram::LatencyHistogram;

/// Differences of the service's monitor between the edges of a block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MonitorDelta {
    /// `counters` or `full-split`: how blocked time was charged; `holds`: not at all.
    pub mode: String,
    /// Scenario endpoint (or `METHOD route` where none matches) → what it did to the loop.
    pub endpoints: BTreeMap<String, MonitorEndpoint>,
    /// Blocked time that no endpoint could be charged with.
    pub unattributed_blocked_us: u64,
    /// Delay of a timer on the loop beyond its due time, on single-threaded loops.
    pub loop_lag: Option<LatencyHistogram>,
    /// Threads at the end of the block.
    pub threads: ThreadCount,
}

impl MonitorDelta {
    /// Whether blocked time was measured; if not, the zeros in its place mean nothing.
    #[must_use]
    pub fn measures_blocked(&self) -> bool {
        self.mode != "holds"
    }
}

/// What one endpoint did to the loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MonitorEndpoint {
    /// Requests that reached the service.
    pub requests: u64,
    /// Polls of their futures.
    pub polls: u64,
    /// Wall time inside polls.
    pub hold_us_sum: u64,
    /// Longest single poll.
    pub hold_us_max: u64,
    /// Polls longer than 100 ms.
    pub holds_over_100ms: u64,
    /// Thread CPU inside polls (`full-split` only, else 0).
    pub cpu_us: u64,
    /// Waiting for a core inside polls (`full-split` only, else 0).
    pub runqueue_us: u64,
    /// Blocked time by what the counters can tell.
    pub blocked_us: BlockedTime,
    /// Polls with blocked time of at least 200 µs.
    pub blocks_over_200us: u64,
    /// Longest blocked time in one poll.
    pub blocked_us_max: u64,
}

/// Blocked time by class: the thread slept, or waited for a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedTime {
    /// Polls in which the thread gave up its core by itself.
    pub slept: u64,
    /// Polls with a major page fault.
    pub fault: u64,
}

/// Threads of the service's process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadCount {
    /// Workers of the runtime.
    pub workers: u64,
    /// Blocking pool.
    pub pool: u64,
    /// The rest.
    pub other: u64,
}
