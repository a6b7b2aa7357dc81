//! How the blocked time of an interval is shared out between its longest poll and nobody.

use crate::cells::{EndpointCells, Part};
use crate::conservation::{Class, Interval};

/// From this share of its interval on, a poll is taken for the only suspect.
const EXACT_PERCENT: u64 = 90;

/// How an interval's blocked time is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) class: Class,
    /// To the longest poll; at most its length.
    pub(crate) longest_ns: u64,
    /// That poll fills so much of the interval that nobody else is a suspect.
    exact: bool,
    /// More than the longest poll can have been blocked.
    pub(crate) unattributed_ns: u64,
}

impl Charge {
    pub(crate) fn of(interval: &Interval, longest_ns: u64) -> Self {
        let blocked_ns = interval.blocked_ns();
        let charged_ns = blocked_ns.min(longest_ns);
        Self {
            class: interval.class(),
            longest_ns: charged_ns,
            exact: u128::from(longest_ns) * 100
                >= u128::from(interval.wall_ns) * u128::from(EXACT_PERCENT),
            unattributed_ns: blocked_ns - charged_ns,
        }
    }

    pub(crate) fn longest_to(&self, endpoint: &EndpointCells, part: Part) {
        endpoint.add_blocked(part, self.class, self.longest_ns, self.exact);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn slept(wall_ns: u64, cpu_ns: u64) -> Interval {
        Interval {
            wall_ns,
            cpu_ns,
            sleeps: 1,
            ..Interval::default()
        }
    }

    #[test]
    fn a_poll_that_fills_its_interval_is_charged_exactly() {
        let charge = Charge::of(&slept(10 * MS, 4 * MS), 9 * MS);
        assert!(charge.exact);
        assert_eq!((charge.longest_ns, charge.unattributed_ns), (6 * MS, 0));
    }

    #[test]
    fn a_poll_among_others_shares() {
        let charge = Charge::of(&slept(10 * MS, 4 * MS), 7 * MS);
        assert!(!charge.exact);
        assert_eq!((charge.longest_ns, charge.unattributed_ns), (6 * MS, 0));
    }

    #[test]
    fn a_poll_is_never_charged_more_than_it_lasted() {
        let charge = Charge::of(&slept(10 * MS, MS), 50_000);
        assert_eq!(charge.longest_ns, 50_000);
        assert_eq!(charge.unattributed_ns, 9 * MS - 50_000);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_is_made_up(
            wall_ns in 0u64..1_000_000_000, cpu_ns in 0u64..1_000_000_000, longest_ns in 0u64..1_000_000_000,
        ) {
            let interval = slept(wall_ns, cpu_ns);
            let charge = Charge::of(&interval, longest_ns);
            prop_assert_eq!(charge.longest_ns + charge.unattributed_ns, interval.blocked_ns());
            prop_assert!(charge.longest_ns <= longest_ns);
        }
    }
}
