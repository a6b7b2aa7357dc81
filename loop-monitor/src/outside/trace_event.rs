//! What a trace tells, in words that mean the same where nothing can be traced.

use std::fmt;

use nix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::cause::Cause;
use crate::certificate::Certificate;

/// Where all calls are counted when no middleware in proof mode tells the requests.
pub const WHOLE_LOOP: &str = "(the whole loop)";
/// Where calls are counted that no request's step made: the server's own. The star marks a bucket
/// that is no route.
pub const OUTSIDE_REQUESTS: &str = "* (outside of requests)";

/// Which threads of the process are traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TracedThreads {
    /// Those that run an event loop; all their calls count.
    #[default]
    Loops,
    /// All of them and those that they start; calls inside a loop's step count. For tests, where
    /// loops come and go. Python only.
    All,
}

/// One thing that a trace tells while it runs; as JSON, one line each.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum TraceEvent {
    /// All threads are traced from now on.
    Ready {
        /// `CLOCK_MONOTONIC`.
        mono_ns: u64,
        /// The process.
        pid: u32,
        /// The threads that are traced.
        threads: Vec<u32>,
        /// What this trace can't see.
        not_covered: Vec<String>,
    },
    /// A call that can block was made inside a loop's step.
    Finding {
        /// `CLOCK_MONOTONIC`.
        mono_ns: u64,
        /// The thread.
        thread: u32,
        /// The call and its line.
        cause: Cause,
    },
    /// A call that can block and may.
    Exempt {
        /// `CLOCK_MONOTONIC`.
        mono_ns: u64,
        /// The thread.
        thread: u32,
        /// Why it may.
        reason: String,
    },
    /// Nothing is traced any more.
    End {
        /// `CLOCK_MONOTONIC`.
        mono_ns: u64,
        /// Why.
        reason: TraceEnd,
        /// All that was found.
        certificate: Box<Certificate>,
    },
}

impl fmt::Display for TraceEnd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Asked => "it was asked to end",
            Self::Marked => "the process asked it to end",
            Self::Exited => "the process has ended",
            Self::OtherProgram => "the process runs another program now",
            Self::Failed => "the thread that traces died, which is a fault of unstall",
        })
    }
}

/// Why a trace ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceEnd {
    /// It was asked to.
    Asked,
    /// The traced program said so itself (the tracer's `MARKER_OFFSET`).
    Marked,
    /// The process has ended.
    Exited,
    /// The process runs another program now.
    OtherProgram,
    /// The thread that traced died: what came after was seen by nobody.
    Failed,
}

/// Tells one event; called on the tracing thread, while the target may stand still.
pub type EventSink = Box<dyn FnMut(&TraceEvent) + Send>;

/// `CLOCK_MONOTONIC`, which all events carry.
#[must_use]
pub fn monotonic_ns() -> u64 {
    // Linux has this clock always.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| {
        let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
        seconds * 1_000_000_000 + u64::try_from(time.tv_nsec()).unwrap_or(0)
    })
}
