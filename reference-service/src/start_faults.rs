//! The faults of the migration's start that its review found, counted where they happen.
//!
//! The calls that earlier pull requests had moved to threads took a request's database session
//! with them, waited for each other in a full pool, and each stream had a thread of its own and a
//! queue without bound to its client. The start commits all four, safely; from step 0 on none of
//! them can happen. The counters are told in every state, so that two states can be compared.

use unstall_loop_monitor::{Counter, Monitor};

/// Where the faults are counted; clones count together.
#[derive(Debug, Clone, Default)]
pub struct StartFaults {
    /// Database sessions that a thread used which hadn't opened them.
    pub sessions_used_on_other_threads: Counter,
    /// Calls of stores that found every thread of the pool taken.
    pub store_calls_queued_for_pool: Counter,
    /// Objects put into a stream's queue while it held as many as it should.
    pub stream_objects_queued_beyond_bound: Counter,
    /// Streams' threads that were started while there were as many as the pool has.
    pub stream_threads_beyond_pool: Counter,
}

impl StartFaults {
    /// Counters in the monitor's snapshot, named as the fields are.
    #[must_use]
    pub fn counted_by(monitor: &Monitor) -> Self {
        Self {
            sessions_used_on_other_threads: monitor.counter("sessions_used_on_other_threads"),
            store_calls_queued_for_pool: monitor.counter("store_calls_queued_for_pool"),
            stream_objects_queued_beyond_bound: monitor
                .counter("stream_objects_queued_beyond_bound"),
            stream_threads_beyond_pool: monitor.counter("stream_threads_beyond_pool"),
        }
    }
}
