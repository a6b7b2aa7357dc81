//! When to give up: a dead service must end the block, not fill it with failures.
//!
//! The rule: give up once at least `3 × users` requests in a row (20 at least)
//! failed with no answer of any kind among them, *and* the first of them lies
//! longer back than the patience. So a service that restarts within the
//! patience is waited for, a block short of the patience keeps its exact
//! counts, and a service that accepts but never answers ends after some
//! timeouts per user instead of all of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Shared by all users of a block.
#[derive(Debug)]
pub(super) struct Liveness {
    begun: Instant,
    patience: Duration,
    row_min: u64,
    /// Failures in a row without any answer.
    row: AtomicU64,
    /// When the row began, nanoseconds after `begun`.
    row_began_ns: AtomicU64,
    gave_up: watch::Sender<bool>,
}

impl Liveness {
    /// `users` send at the same time, or as many arrive within a second.
    pub(super) fn new(users: u32, patience: Duration) -> Self {
        Self {
            begun: Instant::now(),
            patience,
            row_min: (3 * u64::from(users)).max(20),
            row: AtomicU64::new(0),
            row_began_ns: AtomicU64::new(0),
            gave_up: watch::Sender::new(false),
        }
    }

    /// Forgets all: a new phase begins.
    pub(super) fn reset(&self) {
        self.row.store(0, Ordering::Relaxed);
        self.gave_up.send_replace(false);
    }

    /// The service answered: one relaxed load in the usual case.
    pub(super) fn answered(&self) {
        if self.row.load(Ordering::Relaxed) != 0 {
            self.row.store(0, Ordering::Relaxed);
        }
    }

    /// A request ended at `now` with no answer at all.
    pub(super) fn unanswered(&self, now: Instant) {
        let now_ns = self.since_begun_ns(now);
        let before = self.row.fetch_add(1, Ordering::Relaxed);
        if before == 0 {
            self.row_began_ns.store(now_ns, Ordering::Relaxed);
            return;
        }
        let lasted = now_ns.saturating_sub(self.row_began_ns.load(Ordering::Relaxed));
        if before + 1 >= self.row_min && u128::from(lasted) >= self.patience.as_nanos() {
            self.gave_up.send_replace(true);
        }
    }

    /// True once the rule has held.
    pub(super) fn has_given_up(&self) -> bool {
        *self.gave_up.borrow()
    }

    /// Waits until the rule holds; for ever if it never does.
    pub(super) async fn given_up(&self) {
        if self
            .gave_up
            .subscribe()
            .wait_for(|gave_up| *gave_up)
            .await
            .is_err()
        {
            std::future::pending::<()>().await;
        }
    }

    fn since_begun_ns(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.begun).as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_both_many_failures_and_the_patience() {
        let liveness = Liveness::new(10, Duration::from_secs(3));
        let start = liveness.begun;
        for _ in 0..100 {
            liveness.unanswered(start + Duration::from_secs(2));
        }
        assert!(!liveness.has_given_up(), "within the patience");
        liveness.unanswered(start + Duration::from_secs(6));
        assert!(liveness.has_given_up());

        liveness.reset();
        liveness.unanswered(start);
        liveness.unanswered(start + Duration::from_secs(60));
        assert!(!liveness.has_given_up(), "too few");
    }

    #[test]
    fn an_answer_ends_the_row() {
        let liveness = Liveness::new(1, Duration::from_secs(1));
        let start = liveness.begun;
        for second in 0..19 {
            liveness.unanswered(start + Duration::from_secs(second));
        }
        liveness.answered();
        for _ in 0..19 {
            liveness.unanswered(start + Duration::from_secs(60));
        }
        assert!(!liveness.has_given_up());
    }
}
