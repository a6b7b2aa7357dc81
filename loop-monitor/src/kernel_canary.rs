//! Asks the kernel once, at start, whether its counters can be believed: some sandboxes emulate
//! them or leave them out, and a monitor that shows 0 there would be lying.

use std::time::Duration;

use crate::conservation::Interval;
use crate::readings::{ThreadReader, nanoseconds};

/// Long enough that no timer rounds it away, short enough for every start.
const SLEEP: Duration = Duration::from_millis(1);

/// What can be believed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KernelCounters {
    /// A sleep is seen, with its length.
    pub(crate) see_sleeps: bool,
    /// The wait for a core is known.
    pub(crate) know_run_delay: bool,
}

/// Sleeps 1 ms on a thread of its own and looks whether it was seen.
#[expect(
    clippy::disallowed_methods,
    reason = "runs once, before the loop, and the sleep is the canary"
)]
pub(crate) fn probe() -> KernelCounters {
    let canary = std::thread::Builder::new()
        .name("unstall-canary".to_owned())
        .spawn(|| {
            let mut reader = ThreadReader::for_this_thread();
            let before = reader.read();
            std::thread::sleep(SLEEP);
            let after = reader.read();
            let interval = Interval::between(&before, &after);
            KernelCounters {
                // Not all of the sleep: a thread that was woken late has waited for a core.
                see_sleeps: interval.sleeps > 0
                    && interval.blocked_ns() + interval.runqueue_ns >= nanoseconds(SLEEP) / 2,
                know_run_delay: reader.knows_run_delay(),
            }
        });
    let blind = KernelCounters {
        see_sleeps: false,
        know_run_delay: false,
    };
    match canary {
        // A canary that can't start, or dies, has seen nothing; the snapshot says so.
        Ok(canary) => canary.join().unwrap_or(blind),
        Err(_) => blind,
    }
}
