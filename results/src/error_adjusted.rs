//! Percentiles that failing fast cannot improve.
//!
//! Successful requests are events. Requests in flight when the load stopped are
//! censored at their age, at random with respect to their outcome, so the
//! product-limit estimate applies (Kaplan and Meier, 1958). A failed request
//! never succeeds: it stays at risk for ever, and a percentile that reaches the
//! failures is a bound instead of a number.

use crate::histogram::LatencyHistogram;
use crate::order_statistics::{interval_ranks, lower_rank};

/// A percentile of requests of which some failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantile {
    /// This many microseconds.
    Exact(u64),
    /// Not less than this many microseconds: failures or unfinished requests
    /// reach into this percentile.
    AtLeast(u64),
}

impl Quantile {
    /// The number or the bound, in microseconds.
    pub(crate) fn us(self) -> u64 {
        match self {
            Self::Exact(us) | Self::AtLeast(us) => us,
        }
    }

    /// True for [`Quantile::AtLeast`].
    pub(crate) fn is_bound(self) -> bool {
        matches!(self, Self::AtLeast(_))
    }
}

/// The error-adjusted distribution of one endpoint's times.
#[derive(Debug, Clone)]
pub(crate) struct ErrorAdjusted {
    /// Value in µs and the share of requests that needed at most that long.
    steps: Vec<(u64, f64)>,
    bound_us: u64,
    count: u64,
}

impl ErrorAdjusted {
    /// From successes, the ages of unfinished requests and the number of
    /// failures. A failure counts as at least `timeout_us`, the endpoint's own
    /// timeout, however fast it came.
    pub(crate) fn new(
        successes: &LatencyHistogram,
        in_flight: &LatencyHistogram,
        failed: u64,
        timeout_us: u64,
    ) -> Self {
        let sum = |counts: [u64; 3]| counts.into_iter().fold(0, u64::saturating_add);
        let count = sum([successes.count(), in_flight.count(), failed]);
        let mut at_risk = count;
        let mut surviving = 1.0;
        let mut steps = Vec::new();
        let mut censored = in_flight.iter().peekable();
        for (value_us, events) in successes.iter() {
            // Of equal times, the success comes first: its request was still at risk.
            while let Some((_, leaving)) = censored.next_if(|(age_us, _)| *age_us < value_us) {
                at_risk = at_risk.saturating_sub(leaving);
            }
            surviving *= 1.0 - events as f64 / at_risk.max(1) as f64;
            at_risk = at_risk.saturating_sub(events);
            steps.push((value_us, 1.0 - surviving));
        }
        let longest_us = successes.max_us().max(in_flight.max_us()).unwrap_or(0);
        let bound_us = if failed > 0 {
            longest_us.max(timeout_us)
        } else {
            longest_us
        };
        Self {
            steps,
            bound_us,
            count,
        }
    }

    /// Requests behind it: successes, failures and unfinished ones.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The `q`-quantile, of type 1 as [`LatencyHistogram::quantile_us`] is, and
    /// equal to it when nothing failed. `None` without requests.
    pub(crate) fn quantile(&self, q: f64) -> Option<Quantile> {
        if self.count == 0 {
            return None;
        }
        // The estimate is a product of many factors: forgive its last digits.
        let share = q.clamp(0.0, 1.0) - 1e-11;
        let position = self.steps.partition_point(|(_, reached)| *reached < share);
        Some(match self.steps.get(position) {
            Some((value_us, _)) => Quantile::Exact(*value_us),
            None => Quantile::AtLeast(self.bound_us),
        })
    }

    /// Its distribution-free 95 % interval, where the sample is large enough
    /// for one; see [`interval_ranks`].
    pub(crate) fn interval(&self, q: f64) -> Option<(Quantile, Quantile)> {
        let (low, high) = interval_ranks(q, self.count)?;
        let at = |rank: u64| self.quantile(rank as f64 / self.count as f64);
        Some((at(low)?, at(high)?))
    }

    /// Whether failures reach into the `q`-quantile of the version and not only into that of these
    /// requests: the lower end of its 95 % interval is a bound, too.
    pub(crate) fn is_surely_bound(&self, q: f64) -> bool {
        let low = lower_rank(q, self.count);
        low.and_then(|rank| self.quantile(rank as f64 / self.count as f64))
            .is_some_and(Quantile::is_bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::histogram_of as of;
    use proptest::prelude::*;

    #[test]
    fn failing_fast_does_not_look_faster() {
        let slow: Vec<u64> = (1..=100).map(|i| i * 10).collect();
        let all = ErrorAdjusted::new(&of(&slow), &of(&[]), 0, 1_000_000);
        assert_eq!(all.quantile(0.9), Some(Quantile::Exact(900)));
        // The ten slowest now fail at once.
        let failing = ErrorAdjusted::new(&of(&slow[..90]), &of(&[]), 10, 1_000_000);
        assert_eq!(failing.quantile(0.9), Some(Quantile::Exact(900)));
        assert_eq!(failing.quantile(0.91), Some(Quantile::AtLeast(1_000_000)));
        let dead = ErrorAdjusted::new(&of(&[]), &of(&[]), 10, 1_000_000);
        assert_eq!(dead.quantile(0.5), Some(Quantile::AtLeast(1_000_000)));
        let none = ErrorAdjusted::new(&of(&[]), &of(&[]), 0, 1_000_000);
        assert_eq!(none.quantile(0.5), None);
        assert_eq!(none.interval(0.5), None);
    }

    #[test]
    fn unfinished_requests_are_censored() {
        // Textbook: events at 6, 6, 6, 7, 10, 13, 16, 22, 23 and censoring at 6, 9, 10,
        // 11, 17, 19, 20, 25, 32, 32, 34, 35 (Freireich's trial, 6-MP arm): S(23) = 0.4482.
        let events = of(&[6, 6, 6, 7, 10, 13, 16, 22, 23]);
        let censored = of(&[6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]);
        let estimate = ErrorAdjusted::new(&events, &censored, 0, 1_000);
        let (_, reached) = *estimate.steps.last().unwrap();
        assert!((1.0 - reached - 0.4482).abs() < 5e-5, "{reached}");
        assert_eq!(estimate.quantile(0.5), Some(Quantile::Exact(23)));
        assert_eq!(estimate.quantile(0.56), Some(Quantile::AtLeast(35)));
    }

    proptest! {
        #[test]
        fn without_failures_it_is_the_plain_percentile(
            values in prop::collection::vec(0..100_000u64, 1..300),
            percent in 0..=1_000u32,
        ) {
            let q = f64::from(percent) / 1_000.0;
            let histogram = of(&values);
            let adjusted = ErrorAdjusted::new(&histogram, &of(&[]), 0, 1);
            prop_assert_eq!(adjusted.quantile(q), histogram.quantile_us(q).map(Quantile::Exact));
        }

        #[test]
        fn it_grows_with_q_and_with_failures(
            values in prop::collection::vec(0..100_000u64, 0..100),
            ages in prop::collection::vec(0..100_000u64, 0..20),
            failed in 0..50u64,
            q in 0.0..1.0f64,
            more in 0.0..0.5f64,
        ) {
            let at = |failed, q| {
                ErrorAdjusted::new(&of(&values), &of(&ages), failed, 1_000_000)
                    .quantile(q)
                    .map(Quantile::us)
            };
            prop_assert!(at(failed, q) <= at(failed, (q + more).min(1.0)));
            if !values.is_empty() {
                prop_assert!(at(failed, q) <= at(failed + 1, q));
            }
        }
    }
}
