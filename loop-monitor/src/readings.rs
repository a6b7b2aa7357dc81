//! What the kernel knows about the calling thread, read without `unsafe` and as seldom as possible.
//!
//! Sources, from cheap to dear: the thread's CPU clock; `getrusage(RUSAGE_THREAD)` for switches
//! and major faults; and `run_delay`, the second field of `/proc/thread-self/schedstat`:
//! nanoseconds spent runnable but waiting for a core (Documentation/scheduler/sched-stats.rst).
//! Each is read only when the one before says that it can have changed: a thread that was never
//! off its core has no new switches, and one without switches has no new `run_delay`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::ClockId;

use crate::poll_clock::PollClock;

/// Reading takes a few microseconds; from here on the thread has lost its core meanwhile.
const READING_TIME_NS_MAX: u64 = 30_000;
/// Leaving a core and coming back takes longer than this, so who was off for less wasn't off. (A
/// switch overlooked here is counted with the next one, and brings less than this along.)
const OFF_CORE_NS_MIN: u64 = 2_000;
/// A machine so busy that three readings in a row are interrupted is rare, and not worth more.
const ATTEMPTS: usize = 3;

/// State of a thread at one moment; differences of two make an interval.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// Monotonic wall clock, as [`monotonic_ns`].
    pub(crate) wall_ns: u64,
    /// Goes on from `wall_ns`.
    pub(crate) clock: PollClock,
    /// CPU time the thread has used.
    pub(crate) cpu_ns: u64,
    /// Time the thread waited for a core.
    pub(crate) run_delay_ns: u64,
    /// Times the thread gave up its core by itself.
    pub(crate) sleeps: i64,
    /// Pages it had to wait for.
    pub(crate) major_faults: i64,
}

/// Reads the calling thread. Belongs to one thread for good, since its file does.
#[derive(Debug)]
pub(crate) struct ThreadReader {
    schedstat: Option<File>,
    run_delay_ns: u64,
    /// All switches at the time `run_delay_ns` was read.
    run_delay_switches: Option<i64>,
    usage: ThreadUsage,
    last: Option<Reading>,
}

#[derive(Debug, Clone, Copy, Default)]
struct ThreadUsage {
    sleeps: i64,
    preemptions: i64,
    major_faults: i64,
}

impl ThreadReader {
    /// For the calling thread.
    #[expect(
        clippy::disallowed_methods,
        reason = "a file of procfs, in memory, opened once per thread"
    )]
    pub(crate) fn for_this_thread() -> Self {
        Self {
            // Absent in some sandboxes; then run_delay stays 0, which `kernel_canary` has told.
            schedstat: File::open("/proc/thread-self/schedstat").ok(),
            run_delay_ns: 0,
            run_delay_switches: None,
            usage: ThreadUsage::default(),
            last: None,
        }
    }

    /// Whether the wait for a core can be told from blocking here.
    pub(crate) fn knows_run_delay(&self) -> bool {
        self.schedstat.as_ref().and_then(read_run_delay).is_some()
    }

    /// Reads all sources as of one moment.
    ///
    /// A thread that loses its core half-way has a wall clock from before and a `run_delay` from
    /// after the wait, which would hide as much blocked time; then everything is read again. After
    /// [`ATTEMPTS`] the reading stands, with that error.
    pub(crate) fn read(&mut self) -> Reading {
        for _ in 1..ATTEMPTS {
            let reading = self.try_read();
            if monotonic_ns().saturating_sub(reading.wall_ns) < READING_TIME_NS_MAX {
                return reading;
            }
        }
        self.try_read()
    }

    fn try_read(&mut self) -> Reading {
        let (wall_ns, clock) = PollClock::set();
        let cpu_ns = thread_cpu_ns();
        if self.off_core_ns(wall_ns, cpu_ns) >= OFF_CORE_NS_MIN {
            self.read_usage();
        }
        let reading = Reading {
            wall_ns,
            clock,
            cpu_ns,
            run_delay_ns: self.run_delay_ns,
            sleeps: self.usage.sleeps,
            major_faults: self.usage.major_faults,
        };
        self.last = Some(reading);
        reading
    }

    /// Time since the last reading in which the thread didn't compute.
    fn off_core_ns(&self, wall_ns: u64, cpu_ns: u64) -> u64 {
        self.last.map_or(u64::MAX, |last| {
            let passed_ns = wall_ns.saturating_sub(last.wall_ns);
            passed_ns.saturating_sub(cpu_ns.saturating_sub(last.cpu_ns))
        })
    }

    fn read_usage(&mut self) {
        // getrusage has no way to fail for the calling thread; were there one, the counts of
        // before stand and the interval looks clean, which is the side to err on.
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) {
            self.usage = ThreadUsage {
                sleeps: usage.voluntary_context_switches(),
                preemptions: usage.involuntary_context_switches(),
                major_faults: usage.major_page_faults(),
            };
        }
        let switches = self.usage.sleeps + self.usage.preemptions;
        if self.run_delay_switches != Some(switches) {
            if let Some(run_delay_ns) = self.schedstat.as_ref().and_then(read_run_delay) {
                self.run_delay_ns = run_delay_ns;
            }
            self.run_delay_switches = Some(switches);
        }
    }
}

fn read_run_delay(schedstat: &File) -> Option<u64> {
    let mut text = [0u8; 96];
    let length = schedstat.read_at(&mut text, 0).ok()?;
    parse_run_delay(&text[..length])
}

/// Second of three numbers.
fn parse_run_delay(schedstat: &[u8]) -> Option<u64> {
    let mut fields = schedstat.split(u8::is_ascii_whitespace);
    let field = fields.nth(1)?;
    if field.is_empty() {
        return None;
    }
    field.iter().try_fold(0u64, |value, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

fn thread_cpu_ns() -> u64 {
    // The clock exists on every Linux; a refusal would make CPU time look like 0 and only in an
    // interval with a sleep or a fault.
    ClockId::CLOCK_THREAD_CPUTIME_ID
        .now()
        .map_or(0, timespec_ns)
}

/// The system's monotonic clock, the same for all processes of the machine.
///
/// Many polls read it twice, see [`PollClock`]: so not by `nix`, which asks libc and may fail, and
/// takes half as long again.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    whole_ns(time.tv_sec, time.tv_nsec)
}

pub(crate) fn timespec_ns(time: nix::sys::time::TimeSpec) -> u64 {
    whole_ns(time.tv_sec(), time.tv_nsec())
}

/// A clock that counts from the machine's, or the thread's, start never shows less than 0.
#[inline]
fn whole_ns(seconds: impl TryInto<u64>, rest: impl TryInto<u64>) -> u64 {
    seconds.try_into().unwrap_or(0) * 1_000_000_000 + rest.try_into().unwrap_or(0)
}

/// Saturates after 584 years.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::from(duration.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_delay_is_the_second_field() {
        assert_eq!(parse_run_delay(b"123456 789 42\n"), Some(789));
        assert_eq!(parse_run_delay(b"0 0 1\n"), Some(0));
    }

    #[test]
    fn rubbish_is_no_run_delay() {
        for rubbish in [
            &b""[..],
            b"12",
            b"12  3",
            b"1 x 2",
            b"1 -2 3",
            b"1 99999999999999999999999 3",
        ] {
            assert_eq!(parse_run_delay(rubbish), None, "{rubbish:?}");
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the sleep is what is read")]
    fn a_sleep_shows_in_the_counts_and_not_in_the_cpu_clock() {
        let mut reader = ThreadReader::for_this_thread();
        let before = reader.read();
        std::thread::sleep(Duration::from_millis(5));
        let after = reader.read();
        assert!(after.sleeps > before.sleeps);
        assert!(after.cpu_ns - before.cpu_ns < after.wall_ns - before.wall_ns);
    }
}
