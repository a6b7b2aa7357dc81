//! How often a waiter asks whether a lock is free: soon at first, seldom when the wait is long or many
//! are before it.

use std::time::Duration;

/// Pause after the first answer.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// Longest pause of whoever is next. So late it may notice that the lock is free.
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// What each one before a waiter adds to its pause, since it can't be its turn sooner.
const PAUSE_PER_PLACE: Duration = Duration::from_millis(5);
/// More before a waiter add nothing.
const PLACES_MAX: u32 = 40;

/// For how long a place in the queue is kept for a waiter that asks no more: several times as long as
/// the longest pause. A waiter that was paused for longer goes to the queue's end.
pub(super) const PLACE_KEPT: Duration = Duration::from_secs(2);

/// The pause before a waiter asks again: an eighth of what it has waited, within bounds, and more if
/// others are before it. `spread` makes each waiter's pauses shorter or longer than its neighbour's, so
/// that those who came together don't ask together: by a quarter at most.
pub(super) fn pause(waited: Duration, places_ahead: u32, spread: u8) -> Duration {
    let own = (waited / 8).clamp(PAUSE_MIN, PAUSE_MAX);
    let pause = own + PAUSE_PER_PLACE * places_ahead.min(PLACES_MAX);
    pause.mul_f64(0.75 + f64::from(spread) / 512.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pauses_are_bounded_and_never_outlast_the_place(
            waited_ms in 0_u64..100_000_000,
            ahead in any::<u32>(),
            spread in any::<u8>(),
        ) {
            let pause = pause(Duration::from_millis(waited_ms), ahead, spread);
            prop_assert!(pause >= Duration::from_micros(1500));
            prop_assert!(pause * 4 < PLACE_KEPT);
        }
    }

    #[test]
    fn whoever_is_next_asks_more_often_than_those_behind() {
        let waited = Duration::from_secs(1);
        assert!(pause(waited, 0, 0) < pause(waited, 1, 0));
        assert!(pause(Duration::ZERO, 0, 128) <= Duration::from_millis(3));
    }
}
