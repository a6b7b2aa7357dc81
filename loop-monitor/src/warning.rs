//! The warning about one poll that held the loop for too long, told at most once a second per endpoint.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::cause::Cause;
use crate::meter::PollCost;
use crate::readings::nanoseconds;

/// A stalled service must not drown its own log as well.
const QUIET: Duration = Duration::from_secs(1);

/// Per endpoint: when it last warned, and what it kept to itself since.
#[derive(Debug, Default)]
pub(crate) struct WarningState {
    /// Nanoseconds since the monitor's start, plus one; 0 before the first warning.
    last_ns: AtomicU64,
    suppressed: AtomicU64,
}

impl WarningState {
    /// Whether to speak now; if so, how many warnings were kept back since the last one.
    pub(crate) fn admit(&self, since_start: Duration) -> Option<u64> {
        let now_ns = nanoseconds(since_start) + 1;
        let last_ns = self.last_ns.load(Relaxed);
        let due = last_ns == 0 || now_ns.saturating_sub(last_ns) >= nanoseconds(QUIET);
        // Of two threads that find it due at once, the one that moves the time speaks.
        if due
            && self
                .last_ns
                .compare_exchange(last_ns, now_ns, Relaxed, Relaxed)
                .is_ok()
        {
            return Some(self.suppressed.swap(0, Relaxed));
        }
        self.suppressed.fetch_add(1, Relaxed);
        None
    }
}

/// One poll that was too long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LongHold<'a> {
    pub(crate) method: &'a str,
    pub(crate) route: &'a str,
    pub(crate) cost: PollCost,
    pub(crate) suppressed: u64,
    /// If the watcher named it while it ran.
    pub(crate) cause: Option<&'a Cause>,
}

impl LongHold<'_> {
    /// Says it to the log.
    pub(crate) fn warn(&self) {
        let Self {
            method,
            route,
            cost,
            suppressed,
            cause,
        } = *self;
        let told = Told::of(cause);
        let milliseconds = |ns| milliseconds(Duration::from_nanos(ns));
        let hold_ms = milliseconds(cost.hold_ns);
        let blocked_time_ms = milliseconds(cost.blocked_ns);
        let runqueue_ms = milliseconds(cost.runqueue_ns);
        tracing::warn!(
            target: "unstall",
            method,
            endpoint = route,
            hold_ms,
            blocked_time_ms,
            runqueue_ms,
            suppressed,
            class = told.class,
            syscall = told.syscall,
            target = told.target,
            function = told.function,
            line = told.line,
            "one poll held the event loop for {hold_ms} ms, {blocked_time_ms} ms of it blocked \
             and {runqueue_ms} ms waiting for a core{}: move blocking calls to spawn_blocking or \
             an async client, and long computations off the loop",
            cause.map(|cause| format!(" (last seen in {cause})")).unwrap_or_default(),
        );
    }
}

/// A cause in fields.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) class: Option<String>,
    pub(crate) syscall: Option<String>,
    pub(crate) target: Option<String>,
    pub(crate) function: Option<String>,
    pub(crate) line: Option<String>,
}

impl Told {
    pub(crate) fn of(cause: Option<&Cause>) -> Self {
        let Some(cause) = cause else {
            return Self::default();
        };
        let blamed = cause.blamed();
        let line = blamed.and_then(|frame| match (&frame.file, frame.line) {
            (Some(file), Some(line)) => Some(format!("{file}:{line}")),
            (file, _) => file.clone(),
        });
        Self {
            class: Some(cause.class.to_string()),
            syscall: cause.syscall.clone(),
            target: cause.target.as_ref().map(ToString::to_string),
            function: blamed.map(|frame| frame.function.clone()),
            line,
        }
    }
}

/// To the microsecond.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speaks_once_a_second_and_tells_what_it_kept_back() {
        let state = WarningState::default();
        let at = |ms| state.admit(Duration::from_millis(ms));
        assert_eq!(at(0), Some(0));
        assert_eq!(at(1), None);
        assert_eq!(at(999), None);
        assert_eq!(at(1_000), Some(2));
        assert_eq!(at(2_500), Some(0));
    }
}
