//! How much of its own time a watch may spend on names, so that it never takes a core from those
//! that it watches.

use std::time::Duration;

/// Spent at once, when there is much to name: the first names are also the dearest.
const BURST: Duration = Duration::from_millis(150);
/// In the long run a name may be sought for this share of the time: 1 in 60.
const SHARE: u32 = 60;

/// A name that costs more read tables of symbols, which is done once for each file.
const COST_MAX: Duration = Duration::from_millis(10);

/// Time for names: a bucket that fills slowly.
#[derive(Debug)]
pub(super) struct Budget {
    spent: Duration,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self {
            spent: Duration::ZERO,
        }
    }

    /// Whether one more name may be sought, after so long a watch.
    pub(super) fn allows(&self, watched: Duration) -> bool {
        self.spent < BURST + watched / SHARE
    }

    /// So much was spent.
    pub(super) fn spend(&mut self, cost: Duration) {
        self.spent += cost.min(COST_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_paid_back() {
        let mut budget = Budget::new();
        assert!(budget.allows(Duration::ZERO));
        for _ in 0..20 {
            budget.spend(Duration::from_secs(1));
        }
        assert!(!budget.allows(Duration::from_secs(1)));
        assert!(budget.allows(Duration::from_secs(4)));
    }
}
