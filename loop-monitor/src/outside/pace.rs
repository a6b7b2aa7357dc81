//! How often a watch does a round: seldom while nothing keeps any loop, since the kernel's ring keeps
//! what happens meanwhile; often while something does, since a name can only be had during a sleep.

use std::time::{Duration, Instant};

/// Between two rounds when a loop has just begun to be kept, and where only looks tell: a sleep of
/// 1 ms has a fair chance to be met.
const WHEN_KEPT: Duration = Duration::from_millis(1);
/// A loop that is kept on and on is looked at so often for so long.
const KEEN_FOR: Duration = Duration::from_secs(2);
/// After that, its sleeps are met in the same proportions by fewer looks.
const WHEN_KEPT_LONG: Duration = Duration::from_millis(4);
/// A loop that was kept once is looked at often for so long.
const KEPT_FOR: Duration = Duration::from_secs(1);
/// Between two rounds while nothing keeps any loop: twice as long each time, up to this.
const WHEN_CLEAN_MAX: Duration = Duration::from_millis(50);
/// A ring that was fuller when it was read is read sooner next time.
const RING_FILL_MAX: f64 = 0.25;

/// The pauses of one watch.
#[derive(Debug)]
pub(super) struct Pace {
    kept_since: Option<Instant>,
    kept_until: Option<Instant>,
    paused: Duration,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self {
            kept_since: None,
            kept_until: None,
            paused: WHEN_KEPT,
        }
    }

    /// Something kept a loop.
    pub(super) fn keep(&mut self, now: Instant) {
        if self.kept_until.is_none_or(|until| until < now) {
            self.kept_since = Some(now);
        }
        self.kept_until = Some(now + KEPT_FOR);
    }

    /// How long to pause before the next round. `is_told` says whether the kernel tells each sleep
    /// with its place; `ring_fill` how full its fullest ring was at this round.
    pub(super) fn next(&mut self, now: Instant, is_told: bool, ring_fill: f64) -> Duration {
        self.paused = if !is_told {
            WHEN_KEPT
        } else if self.kept_until.is_some_and(|until| now <= until) {
            let is_keen = self.kept_since.is_some_and(|since| now < since + KEEN_FOR);
            if is_keen { WHEN_KEPT } else { WHEN_KEPT_LONG }
        } else if ring_fill > RING_FILL_MAX {
            (self.paused / 2).max(WHEN_KEPT)
        } else {
            (self.paused * 2).min(WHEN_CLEAN_MAX)
        };
        self.paused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_loop_is_visited_seldom_and_one_that_is_kept_at_once_again() {
        let (mut pace, mut now) = (Pace::new(), Instant::now());
        for _ in 0..10 {
            pace.next(now, true, 0.0);
        }
        assert_eq!(pace.next(now, true, 0.0), WHEN_CLEAN_MAX);
        pace.keep(now);
        assert_eq!(pace.next(now, true, 0.0), WHEN_KEPT);
        // On and on.
        for _ in 0..40 {
            now += Duration::from_millis(100);
            pace.keep(now);
        }
        assert_eq!(pace.next(now, true, 0.0), WHEN_KEPT_LONG);
        now += 2 * KEPT_FOR;
        assert!(pace.next(now, true, 0.0) > WHEN_KEPT_LONG);
        pace.keep(now);
        assert_eq!(pace.next(now, true, 0.0), WHEN_KEPT);
    }

    #[test]
    fn a_ring_that_fills_is_read_sooner() {
        let (mut pace, now) = (Pace::new(), Instant::now());
        for _ in 0..10 {
            pace.next(now, true, 0.0);
        }
        assert_eq!(pace.next(now, true, 0.6), WHEN_CLEAN_MAX / 2);
        for _ in 0..10 {
            pace.next(now, true, 0.6);
        }
        assert_eq!(pace.next(now, true, 0.6), WHEN_KEPT);
    }

    #[test]
    fn where_only_looks_tell_they_stay_frequent() {
        let (mut pace, now) = (Pace::new(), Instant::now());
        for _ in 0..10 {
            assert_eq!(pace.next(now, false, 0.0), WHEN_KEPT);
        }
    }
}
