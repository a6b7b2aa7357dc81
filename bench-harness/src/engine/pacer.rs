//! Waiting for a moment to a fraction of a millisecond, on the thread that will use it.
//!
//! A runtime's own timers are rounded to milliseconds, and a thread that keeps the time for
//! another one costs two more switches per arrival. A timerfd wakes the runtime's own wait for
//! events at the nanosecond asked for; what remains is the kernel's wake-up. It is registered for
//! edges, so its count never has to be read: setting it again makes the next edge.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::{Duration, Instant};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::unix::AsyncFd;

/// Waits on this thread's runtime. One moment at a time.
#[derive(Debug)]
pub(super) struct Pacer(AsyncFd<Timer>);

#[derive(Debug)]
struct Timer(TimerFd);

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Pacer {
    /// A pacer of the present runtime.
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        #[expect(
            deprecated,
            reason = "it trusts the type to keep its descriptor, which `Timer` does; what replaces \
                      it is unsafe code"
        )]
        Ok(Self(AsyncFd::new(Timer(timer))?))
    }

    /// Returns when `moment` has come: at once if it has.
    pub(super) async fn until(&self, moment: Instant) -> io::Result<()> {
        loop {
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.sleep(left).await?;
        }
    }

    /// May return early, when an edge of before comes in.
    async fn sleep(&self, left: Duration) -> io::Result<()> {
        let expiration = Expiration::OneShot(TimeSpec::from_duration(left));
        self.0
            .get_ref()
            .0
            .set(expiration, TimerSetTimeFlags::empty())?;
        self.0.readable().await?.clear_ready();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_returns_early() {
        let waited = super::super::generator::block_on(async {
            let pacer = Pacer::new().expect("a timer");
            let begun = Instant::now();
            for index in 1..=200 {
                let due = begun + Duration::from_micros(137 * index);
                pacer.until(due).await.expect("a wait");
                assert!(Instant::now() >= due);
            }
            // What has passed is not waited for.
            pacer.until(begun).await.expect("a wait");
        });
        waited.expect("a runtime");
    }

    #[test]
    fn a_wait_that_was_given_up_does_not_disturb_the_next() {
        let waited = super::super::generator::block_on(async {
            let pacer = Pacer::new().expect("a timer");
            let begun = Instant::now();
            tokio::select! {
                biased;
                _ = pacer.until(begun + Duration::from_millis(1)) => {}
                () = tokio::task::yield_now() => {}
            }
            let due = begun + Duration::from_millis(20);
            pacer.until(due).await.expect("a wait");
            assert!(Instant::now() >= due);
        });
        waited.expect("a runtime");
    }
}
