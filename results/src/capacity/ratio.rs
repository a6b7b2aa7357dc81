//! The new version's capacity by the old one's, and what that means.

use super::search::{CONFIDENCE, Capacity, Ceiling, Search};
use crate::comparison::Verdict;

/// What a migration is to bring over all its steps, where its plan says nothing else: 30 to 40 % more
/// requests per instance. From the lower end on, it has.
pub const PROMISED_PERCENT: [u32; 2] = [30, 40];
/// A version that may have less than this of the old one's capacity does not pass.
pub const HARM_RATIO_MIN: f64 = 0.9;

/// After ÷ before. What has no number is not bounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The middle one; `None` where only a bound is known.
    pub estimate: Option<f64>,
    /// Lower end of its [`CONFIDENCE`] interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// What a ratio says of [`goal_ratio`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// The whole interval reaches it.
    Reached,
    /// The whole interval is below it.
    Missed,
    /// It lies within the interval.
    Unclear,
}

impl Ratio {
    /// Of two searches; `None` where nothing bounds it.
    pub(super) fn of(before: &Search, after: &Search) -> Option<Self> {
        const TAIL: f64 = (1.0 - CONFIDENCE) / 2.0;
        let bound = |estimate, low, high| {
            Some(Self {
                estimate,
                low,
                high,
            })
        };
        match (before.close(), after.close()) {
            (Capacity::Found { .. }, Capacity::Found { .. }) => {
                let quantiles = [TAIL, 0.5, 1.0 - TAIL];
                let [low, estimate, high] =
                    before.belief().ratio_quantiles(after.belief(), quantiles);
                bound(Some(estimate), Some(low), Some(high))
            }
            (Capacity::Found { high, .. }, Capacity::AtLeast { rate, because }) => {
                bound(None, Some(sure(after, rate, because)? / high), None)
            }
            (Capacity::AtLeast { rate, because }, Capacity::Found { high, .. }) => {
                bound(None, None, Some(high / sure(before, rate, because)?))
            }
            _ => None,
        }
    }

    /// Whether it is what the migration is to bring: `promised_percent` more, from which to which.
    pub fn goal(&self, promised_percent: [u32; 2]) -> Goal {
        let goal = goal_ratio(promised_percent);
        match (self.low, self.high) {
            (Some(low), _) if low >= goal => Goal::Reached,
            (_, Some(high)) if high < goal => Goal::Missed,
            _ => Goal::Unclear,
        }
    }
}

/// After ÷ before from which a promise is kept: its lower end.
pub fn goal_ratio([least, _]: [u32; 2]) -> f64 {
    1.0 + f64::from(least) / 100.0
}

/// What a bound says for certain: where a search ended before its time, the fastest block that held
/// may be the only one.
fn sure(search: &Search, rate: f64, because: Ceiling) -> Option<f64> {
    match because {
        Ceiling::Ended => search.surely_held(),
        Ceiling::Asked | Ceiling::Generator => Some(rate),
    }
}

/// A regression is beyond the precision that was asked for, the whole interval; a pass keeps the
/// whole interval above [`HARM_RATIO_MIN`].
pub(super) fn verdict(
    before: Capacity,
    after: Capacity,
    ratio: Option<Ratio>,
    precision: f64,
) -> Verdict {
    if let Some(Ratio { low, high, .. }) = ratio {
        return match (low, high) {
            (_, Some(high)) if high < 1.0 / (1.0 + precision) => Verdict::Regression,
            (Some(low), _) if low >= HARM_RATIO_MIN => Verdict::Pass,
            _ => Verdict::Inconclusive,
        };
    }
    match (before, after) {
        (Capacity::Unknown, _) | (_, Capacity::Unknown) => Verdict::Invalid,
        (Capacity::Below { .. }, Capacity::Below { .. }) => Verdict::Inconclusive,
        (_, Capacity::Below { .. }) => Verdict::Regression,
        (Capacity::Below { .. }, _) => Verdict::Pass,
        _ => Verdict::Inconclusive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(low: f64, high: f64) -> Option<Ratio> {
        Some(Ratio {
            estimate: Some((low * high).sqrt()),
            low: Some(low),
            high: Some(high),
        })
    }

    #[test]
    fn only_a_whole_interval_decides() {
        let found = Capacity::Found {
            rate: 100.0,
            low: 95.0,
            high: 105.0,
            is_precise: true,
        };
        let judge = |ratio| verdict(found, found, ratio, 0.05);
        assert_eq!(judge(ratio(0.6, 0.94)), Verdict::Regression);
        assert_eq!(judge(ratio(0.8, 0.97)), Verdict::Inconclusive);
        assert_eq!(judge(ratio(0.93, 1.07)), Verdict::Pass);
        assert_eq!(judge(ratio(0.85, 1.02)), Verdict::Inconclusive);
    }

    #[test]
    fn what_holds_nowhere_is_worse_than_what_holds_somewhere() {
        let below = Capacity::Below { rate: 1.0 };
        let at_least = Capacity::AtLeast {
            rate: 9.0,
            because: Ceiling::Generator,
        };
        assert_eq!(verdict(at_least, below, None, 0.05), Verdict::Regression);
        assert_eq!(verdict(below, at_least, None, 0.05), Verdict::Pass);
        assert_eq!(
            verdict(at_least, at_least, None, 0.05),
            Verdict::Inconclusive
        );
        let unknown = Capacity::Unknown;
        assert_eq!(verdict(at_least, unknown, None, 0.05), Verdict::Invalid);
    }

    #[test]
    fn the_goal_is_reached_by_the_lower_end() {
        let goal = |low, high, promised| ratio(low, high).map(|of| of.goal(promised));
        assert_eq!(goal(1.31, 1.5, PROMISED_PERCENT), Some(Goal::Reached));
        assert_eq!(goal(1.2, 1.4, PROMISED_PERCENT), Some(Goal::Unclear));
        assert_eq!(goal(1.0, 1.2, PROMISED_PERCENT), Some(Goal::Missed));
        assert_eq!(goal(1.31, 1.5, [60, 80]), Some(Goal::Missed));
        assert_eq!(goal(1.12, 1.2, [10, 20]), Some(Goal::Reached));
    }
}
