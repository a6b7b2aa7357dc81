//! What the runtime counts by itself, through tokio-metrics.
//!
//! tokio-metrics tells what happened since it was asked last; the wire form promises counters that
//! only grow, whoever asks and however often. So every answer is added to totals kept here.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_metrics::{RuntimeIntervals, RuntimeMonitor};

use crate::readings::nanoseconds;
use crate::wire::RuntimeMetrics;

/// The runtime that a monitor watches, counted from the moment that the monitor met it.
#[derive(Debug)]
pub(crate) struct WatchedRuntime {
    single: bool,
    totals: Mutex<Totals>,
}

#[derive(Debug)]
struct Totals {
    intervals: RuntimeIntervals,
    busy: Duration,
    parks: u64,
}

/// One answer of the runtime.
#[derive(Debug, Default)]
pub(crate) struct RuntimeCounts {
    /// Event-loop threads.
    pub(crate) workers: u64,
    pub(crate) metrics: RuntimeMetrics,
}

impl WatchedRuntime {
    pub(crate) fn new(handle: &Handle) -> Self {
        Self {
            single: handle.runtime_flavor() == RuntimeFlavor::CurrentThread,
            totals: Mutex::new(Totals {
                intervals: RuntimeMonitor::new(handle).intervals(),
                busy: Duration::ZERO,
                parks: 0,
            }),
        }
    }

    /// Whether its loop runs on the thread that called `block_on`.
    pub(crate) fn is_single(&self) -> bool {
        self.single
    }

    /// Asks the runtime. Whoever asks later gets counters that are at least as high.
    pub(crate) fn count(&self) -> RuntimeCounts {
        // Nothing between two writes can panic, so a poisoned lock still guards whole totals.
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        // The iterator never ends.
        let Some(interval) = totals.intervals.next() else {
            return RuntimeCounts::default();
        };
        totals.busy += interval.total_busy_duration;
        totals.parks += interval.total_park_count;
        RuntimeCounts {
            workers: to_u64(interval.workers_count),
            metrics: RuntimeMetrics {
                busy_ns: nanoseconds(totals.busy),
                alive_tasks: to_u64(interval.live_tasks_count),
                global_queue_depth: to_u64(interval.global_queue_depth),
                parks: totals.parks,
            },
        }
    }
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
