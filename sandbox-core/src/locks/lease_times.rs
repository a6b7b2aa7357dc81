//! How long a lease lasts, and what follows from that.

use std::time::Duration;

use crate::domain::Invalid;

/// Shorter ones would be lost to an ordinary hiccup of the network or a busy machine.
const LENGTH_MIN: Duration = Duration::from_millis(300);
/// A dead worker's locks are held up for so long.
const LENGTH_MAX: Duration = Duration::from_secs(3600);
/// Long enough for a restart of Redis, short enough to wait for a dead worker's locks.
const LENGTH_DEFAULT: Duration = Duration::from_secs(15);
/// How late it may be noticed that the machine slept.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(1);

/// A lease's times. All are parts of its length:
///
/// - after a third it is renewed; a renewal may take a sixth, and is tried again after a thirtieth if it
///   failed, so that one that isn't answered at all leaves time for another one;
/// - from four fifths on it may no longer be relied on, unless it was renewed. The last fifth is for
///   stopping what is done under it, and for clocks that don't go equally fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTimes {
    length: Duration,
}

impl LeaseTimes {
    /// Those of leases that last `length` unless they are renewed.
    ///
    /// # Errors
    /// When that is under 300 ms or over an hour.
    pub fn of_length(length: Duration) -> Result<Self, Invalid> {
        if !(LENGTH_MIN..=LENGTH_MAX).contains(&length) {
            return Err(Invalid::new(
                "length of a lease",
                &format!("{length:?}"),
                "it must be between 300 ms and an hour",
            ));
        }
        Ok(Self { length })
    }

    /// How long whoever keeps the locks keeps one for a holder that isn't heard any more.
    #[must_use]
    pub fn length(self) -> Duration {
        self.length
    }

    /// Time from a granted request to the next one.
    pub(super) fn renew_after(self) -> Duration {
        self.length / 3
    }

    /// Longest time for one request.
    pub(super) fn request_max(self) -> Duration {
        self.length / 6
    }

    /// Pause after a request that failed.
    pub(super) fn retry_after(self) -> Duration {
        self.length / 30
    }

    /// How often the clock is looked at.
    pub(super) fn look_every(self) -> Duration {
        (self.length / 10).min(LOOK_EVERY_MAX)
    }

    /// Until when a lease may be relied on that was asked for, or renewed, by a request sent at that
    /// time. Whoever keeps the locks counts from later on: from when it had the request.
    pub(super) fn relied_until(self, sent_at: Duration) -> Duration {
        sent_at + self.length / 5 * 4
    }
}

/// 15 seconds.
impl Default for LeaseTimes {
    fn default() -> Self {
        Self {
            length: LENGTH_DEFAULT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unanswered_renewal_leaves_time_for_another_one() {
        for length in [LENGTH_MIN, LENGTH_DEFAULT, LENGTH_MAX] {
            let times = LeaseTimes::of_length(length).expect("a length in bounds");
            let second_end = times.renew_after() + times.request_max() * 2 + times.retry_after();
            assert!(
                second_end < times.relied_until(Duration::ZERO),
                "{length:?}"
            );
            assert!(times.relied_until(Duration::ZERO) < length);
            assert!(times.look_every() <= length / 10);
        }
    }

    #[test]
    fn lengths_out_of_bounds_are_refused_with_the_bounds() {
        for length in [Duration::ZERO, Duration::from_millis(299), LENGTH_MAX * 2] {
            let refused = LeaseTimes::of_length(length).expect_err("out of bounds");
            assert!(refused.to_string().contains("300 ms"), "{refused}");
        }
    }
}
