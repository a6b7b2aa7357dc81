//! The warning about a poll that is too long already, while it goes on.

use std::time::Duration;

use crate::cause::{Cause, CauseClass};
use crate::warning::{Told, milliseconds};

/// One poll that is too long already, and goes on.
#[derive(Debug, Clone, Copy)]
pub(super) struct LongWait<'a> {
    pub(super) method: &'a str,
    pub(super) route: &'a str,
    pub(super) cause: &'a Cause,
    pub(super) age: Duration,
    pub(super) suppressed: u64,
}

impl LongWait<'_> {
    /// Says it to the log.
    pub(super) fn warn(&self) {
        let Self {
            method,
            route,
            cause,
            age,
            suppressed,
        } = *self;
        let told = Told::of(Some(cause));
        let age_ms = milliseconds(age);
        let advice = match cause.class {
            CauseClass::Cpu => {
                "it computes and doesn't block; move long computations to spawn_blocking, or \
                 yield now and then"
            }
            CauseClass::Runqueue => {
                "it is ready and gets no core; the machine is busy, or its CPU quota used up"
            }
            CauseClass::Log => "give the log a thread of its own, as tracing-appender does",
            _ => "await an async client instead, or move the call to spawn_blocking",
        };
        tracing::warn!(
            target: "unstall",
            method,
            endpoint = route,
            age_ms,
            suppressed,
            class = told.class,
            syscall = told.syscall,
            target = told.target,
            function = told.function,
            line = told.line,
            "one poll has held the event loop for {age_ms} ms and goes on: {cause}: {advice}",
        );
    }
}
