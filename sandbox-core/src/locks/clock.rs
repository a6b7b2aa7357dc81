//! The time by which leases end: neither the wall clock, which may be set, nor one that stands still
//! while the machine sleeps.

use std::fmt;
use std::time::Duration;

use crate::boot_time::boot_time;

/// A clock that never goes back.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Time since a moment in the past, always the same one.
    fn elapsed(&self) -> Duration;
}

/// Linux' `CLOCK_BOOTTIME` (clock_gettime(2)): monotonic, not set by anybody, and it goes on while the
/// machine is suspended. It stands still, as every clock in there, while a virtual machine is paused
/// from outside: what its leases' holders do after such a pause only the fencing token stops, in stores
/// and in the runtime that the next holder uses, too.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn elapsed(&self) -> Duration {
        boot_time()
    }
}

/// Waits until the clock says `until`. The runtime's timers stand still while the machine sleeps, so
/// the clock is looked at every `look_every`.
pub(super) async fn sleep_until(clock: &dyn Clock, until: Duration, look_every: Duration) {
    loop {
        let left = until.saturating_sub(clock.elapsed());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(look_every)).await;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A clock that goes when it is told to.
    #[derive(Debug)]
    pub(in crate::locks) struct HandClock(AtomicU64);

    impl HandClock {
        pub(in crate::locks) fn new() -> Self {
            Self(AtomicU64::new(1_000_000))
        }

        pub(in crate::locks) fn forward(&self, time: Duration) {
            let ms = u64::try_from(time.as_millis()).expect("a short time");
            self.0.fetch_add(ms, Ordering::SeqCst);
        }
    }

    impl Clock for HandClock {
        fn elapsed(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::SeqCst))
        }
    }

    #[test]
    fn the_boot_clock_goes_and_never_goes_back() {
        let begin = BootClock.elapsed();
        assert!(begin > Duration::ZERO);
        while BootClock.elapsed() == begin {}
        assert!(BootClock.elapsed() > begin);
    }

    #[tokio::test]
    async fn a_sleep_ends_by_the_clock_and_not_by_the_timer() {
        let clock = HandClock::new();
        let until = clock.elapsed() + Duration::from_secs(3600);
        let look_every = Duration::from_millis(1);
        tokio::join!(sleep_until(&clock, until, look_every), async {
            tokio::task::yield_now().await;
            clock.forward(Duration::from_secs(3600));
        });
        assert_eq!(clock.elapsed(), until);
    }
}
