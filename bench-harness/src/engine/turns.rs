//! How late a generator thread may have been when it read something: the uncertainty of an
//! item's time.
//!
//! A runtime's thread waits in the kernel, wakes, polls the tasks that became ready (a *turn*)
//! and waits again. What it reads came in after it last looked, and the kernel doesn't say
//! when. So the lateness of a read is bounded from above:
//!
//! - If the thread had slept before this turn, what it reads is what woke it. It may be late by
//!   the time between the wake-up and the read, and by the wait for a core before the wake-up
//!   (`run_delay` of schedstat, as far as it fits into the sleep).
//! - If it hadn't, the data may have come in at any time since the turn before began.
//!
//! The bound doesn't see what happened before the socket was readable (interrupts, a
//! hypervisor that took the core), and it is blind to waits for a core where the kernel keeps
//! no schedstat. Only threads that read streams keep turns.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;

/// A shorter stay in the kernel was no sleep: something was ready at once.
const SLEEP_MIN: Duration = Duration::from_micros(50);

/// What is known of this thread's turn.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// When the thread last went to wait.
    parked: Instant,
    /// When it last came back.
    woke: Instant,
    /// Nothing that this turn finds was there before this moment.
    nothing_before: Instant,
    /// Wait for a core at the end of the sleep.
    core_wait: Duration,
    /// The kernel's sum of such waits, at the wake-up.
    run_delay_ns: u64,
}

thread_local! {
    static TURN: Cell<Option<Turn>> = const { Cell::new(None) };
    static SCHEDSTAT: RefCell<Option<File>> = const { RefCell::new(None) };
}

/// Has the runtime's thread keep its turns. The thread itself must call [`begin`].
pub(super) fn watch(builder: &mut Builder) {
    builder.on_thread_park(parked).on_thread_unpark(woke);
}

/// Begins on this thread, outside of any turn.
pub(super) fn begin() {
    // Without it (a kernel without CONFIG_SCHED_INFO) waits for a core stay unseen.
    let schedstat = File::open("/proc/thread-self/schedstat").ok();
    SCHEDSTAT.with_borrow_mut(|slot| *slot = schedstat);
    let now = Instant::now();
    TURN.set(Some(Turn {
        parked: now,
        woke: now,
        nothing_before: now,
        core_wait: Duration::ZERO,
        run_delay_ns: run_delay_ns(),
    }));
}

/// By how much a read at `moment`, in the present turn, may have been late; zero on threads
/// that keep no turns.
pub(super) fn lateness(moment: Instant) -> Duration {
    TURN.get().map_or(Duration::ZERO, |turn| {
        moment.saturating_duration_since(turn.nothing_before) + turn.core_wait
    })
}

fn parked() {
    if let Some(turn) = TURN.get() {
        let parked = Instant::now();
        TURN.set(Some(Turn { parked, ..turn }));
    }
}

fn woke() {
    if let Some(turn) = TURN.get() {
        TURN.set(Some(turn.next(Instant::now(), run_delay_ns())));
    }
}

impl Turn {
    /// The turn that begins now.
    fn next(self, now: Instant, run_delay_ns: u64) -> Self {
        let stay = now.saturating_duration_since(self.parked);
        let waited = Duration::from_nanos(run_delay_ns.saturating_sub(self.run_delay_ns));
        let (nothing_before, core_wait) = if stay >= SLEEP_MIN {
            (now, waited.min(stay))
        } else {
            (self.woke, Duration::ZERO)
        };
        Self {
            parked: self.parked,
            woke: now,
            nothing_before,
            core_wait,
            run_delay_ns,
        }
    }
}

/// The second number of schedstat (Documentation/scheduler/sched-stats.rst); 0 where there
/// is none, so that no wait is ever made up.
fn run_delay_ns() -> u64 {
    SCHEDSTAT
        .with_borrow(|file| {
            let mut text = [0; 64];
            let length = file.as_ref()?.read_at(&mut text, 0).ok()?;
            let text = std::str::from_utf8(&text[..length]).ok()?;
            text.split_ascii_whitespace().nth(1)?.parse().ok()
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn turn(parked: Instant, woke: Instant) -> Turn {
        Turn {
            parked,
            woke,
            nothing_before: woke,
            core_wait: Duration::ZERO,
            run_delay_ns: 1_000_000,
        }
    }

    #[test]
    fn after_a_sleep_a_read_is_late_by_the_wait_for_a_core_and_its_turn() {
        let start = Instant::now();
        let slept = turn(start, start).next(start + ms(20), 4_000_000);
        assert_eq!(slept.core_wait, ms(3));
        assert_eq!(slept.nothing_before, start + ms(20));
        // A wait for a core that doesn't fit into the sleep was before it.
        let short = turn(start, start).next(start + ms(1), 4_000_000);
        assert_eq!(short.core_wait, ms(1));
    }

    #[test]
    fn without_a_sleep_what_is_read_may_be_as_old_as_the_turn_before() {
        let start = Instant::now();
        let busy = turn(start + ms(7), start);
        let next = busy.next(start + ms(7), 9_000_000);
        assert_eq!(next.nothing_before, start);
        assert_eq!(next.core_wait, Duration::ZERO);
    }

    #[test]
    fn a_thread_that_was_busy_knows_it() {
        let mut builder = Builder::new_current_thread();
        watch(builder.enable_all());
        let runtime = builder.build().expect("a runtime starts");
        std::thread::spawn(move || {
            assert_eq!(lateness(Instant::now()), Duration::ZERO, "not begun");
            begin();
            runtime.block_on(async {
                tokio::time::sleep(ms(2)).await;
                // A poll of our own that holds the thread, as a big answer's check would.
                std::thread::sleep(ms(15));
                assert!(lateness(Instant::now()) >= ms(15));
            });
        })
        .join()
        .expect("no assertion failed");
    }
}
