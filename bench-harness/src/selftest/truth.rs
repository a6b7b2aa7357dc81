//! What a canary itself knows of a call: whether its thread slept in it, and for how long.
//!
//! A second account beside the monitor's, read from the same kernel by other code: an uncached
//! read may find its page in memory after all, and then nobody has missed it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::ClockId;

/// From here on a sleep counts: what the monitor promises to see (MEASURING: 200 µs).
const SLEEP_NS_MIN: u128 = 200_000;

/// A reading that takes longer was interrupted: the thread lost its core half-way.
const READING_TIME_MAX: Duration = Duration::from_micros(60);
/// A machine so busy that so many readings in a row are interrupted is rare.
const ATTEMPTS: usize = 4;

/// The calling thread at one moment.
#[derive(Debug)]
pub(super) struct Truth {
    /// Before the counters were read.
    began: Instant,
    /// And after.
    ended: Instant,
    cpu_ns: u128,
    run_delay_ns: u128,
    sleeps: i64,
}

impl Truth {
    /// Reads the calling thread.
    pub(super) fn read() -> io::Result<Self> {
        for _ in 1..ATTEMPTS {
            let reading = Self::read_once()?;
            if reading.ended.duration_since(reading.began) < READING_TIME_MAX {
                return Ok(reading);
            }
        }
        Self::read_once()
    }

    fn read_once() -> io::Result<Self> {
        let began = Instant::now();
        let cpu = ClockId::CLOCK_THREAD_CPUTIME_ID.now()?;
        let usage = getrusage(UsageWho::RUSAGE_THREAD)?;
        Ok(Self {
            began,
            cpu_ns: Duration::from(cpu).as_nanos(),
            run_delay_ns: run_delay_ns()?,
            sleeps: usage.voluntary_context_switches() + usage.major_page_faults(),
            ended: Instant::now(),
        })
    }

    /// Whether the calling thread has slept since then, for as long as counts. Sure: the wall
    /// time is that between the two readings, and the counters' that of the readings, too.
    pub(super) fn has_slept_since(&self) -> io::Result<bool> {
        let now = Self::read()?;
        let wall = now.began.saturating_duration_since(self.ended).as_nanos();
        let awake = now.cpu_ns.saturating_sub(self.cpu_ns)
            + now.run_delay_ns.saturating_sub(self.run_delay_ns);
        Ok(now.sleeps > self.sleeps && wall.saturating_sub(awake) >= SLEEP_NS_MIN)
    }
}

/// Second field of the thread's schedstat: time it was ready and waited for a core.
fn run_delay_ns() -> io::Result<u128> {
    thread_local! {
        static FILE: Option<File> = File::open("/proc/thread-self/schedstat").ok(); // told below
    }
    let mut text = [0; 96];
    let length = FILE.with(|file| match file {
        Some(file) => file.read_at(&mut text, 0),
        None => Err(io::Error::other(
            "/proc/thread-self/schedstat can't be read: the canaries can't tell a sleep from a \
             wait for a core here",
        )),
    })?;
    let text = String::from_utf8_lossy(&text[..length]);
    let field = text
        .split_whitespace()
        .nth(1)
        .and_then(|field| field.parse().ok());
    field.ok_or_else(|| io::Error::other(format!("/proc/thread-self/schedstat says {text:?}")))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_sleep_is_told_from_a_computation() {
        let before = Truth::read().expect("counters");
        let mut sum = 0_u64;
        for number in 0..100_000_u64 {
            sum = std::hint::black_box(sum.wrapping_add(number));
        }
        assert!(!before.has_slept_since().expect("counters"));
        let before = Truth::read().expect("counters");
        thread::sleep(Duration::from_millis(2));
        assert!(before.has_slept_since().expect("counters"));
    }
}
