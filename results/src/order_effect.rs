//! Whether being first or second within a pair changed the numbers.
//!
//! The balanced random order keeps such an effect out of the difference of the
//! arms, but a large one says that blocks do not start from the same state.

use crate::comparison::Metric;
use crate::hodges_lehmann::median_of_sorted;
use crate::measure::reading;
use crate::pairing::Pairing;
use crate::policy::Policy;
use crate::record::RunRecord;
use crate::wording;

/// From here on it is worth a warning: 10 pairs can reach it.
const ALPHA_WARNING: f64 = 0.01;
/// From here on it spoils the comparison: 14 pairs can reach it. Lower, because every
/// comparison makes this test, and one in a hundred must not be thrown away by chance.
const ALPHA_FAULT: f64 = 0.001;

/// An effect up to this share of the median's harm limit spoils nothing. What both arms suffer
/// alike cancels out; at worst only one of them does, and then the comparison is off by the
/// effect: by half of what a pass allows.
const HARM_SHARE_MAX: f64 = 0.5;

/// How every sentence about it begins.
const BEGINS: &str = "The second block of a pair has medians";

/// Whether a fault or warning of a comparison is that of an order effect.
pub fn tells_order_effect(sentence: &str) -> bool {
    sentence.starts_with(BEGINS)
}

/// What was found.
#[derive(Debug, PartialEq)]
pub(crate) enum OrderEffect {
    /// Nothing, or too few pairs to tell.
    None,
    /// There seems to be one, which the order keeps out of the comparison.
    Warns(String),
    /// Beyond doubt, and more than [`HARM_SHARE_MAX`] of the median's harm limit.
    Spoils(String),
}

/// A rank-sum test (Wilcoxon; Mann and Whitney) of the arms' differences in the
/// pairs whose second block is the after arm against those whose second block is
/// the before arm: an order effect shifts them apart, the arms' own difference
/// does not. With fewer than 10 pairs it can't reach its level, with fewer than 14 it
/// only warns.
pub(crate) fn order_effect(
    record: &RunRecord,
    pairing: &Pairing<'_>,
    policy: &Policy,
) -> OrderEffect {
    let (after_second, before_second) = differences(record, pairing);
    if after_second.is_empty() || before_second.is_empty() {
        return OrderEffect::None;
    }
    let p = rank_sum_p(&after_second, &before_second);
    if p > ALPHA_WARNING {
        return OrderEffect::None;
    }
    let mut shifts: Vec<f64> = after_second
        .iter()
        .flat_map(|one| before_second.iter().map(move |other| one - other))
        .collect();
    shifts.sort_by(f64::total_cmp);
    // Being second raises one group and lowers the other.
    let size = median_of_sorted(&shifts) / 2.0;
    let found = format!(
        "{BEGINS} {} from the first's, whatever the arm",
        wording::change_of_ratio(size.exp()),
    );
    let harm = policy.margin(None, Metric::ResponseP50).harm.ln_1p();
    let matters = size.abs() > HARM_SHARE_MAX * harm;
    if p <= ALPHA_FAULT && matters {
        OrderEffect::Spoils(format!(
            "{found}: blocks do not start alike; reset the state before each (--before-block), or \
             pause between blocks"
        ))
    } else {
        OrderEffect::Warns(format!(
            "{found}; the balanced order keeps it out of the comparison."
        ))
    }
}

/// Per pair the mean over endpoints and levels of ln(after ÷ before), apart for
/// the pairs that end with the after arm and with the before arm.
fn differences(record: &RunRecord, pairing: &Pairing<'_>) -> (Vec<f64>, Vec<f64>) {
    let mut sums = vec![(0.0, false); pairing.pairs];
    let mut cells = 0.0;
    for pairs in pairing.levels.values() {
        for endpoint in &record.scenario.endpoints {
            let log_median = |block| {
                let median = reading(block, Some(endpoint), Metric::ResponseP50)?;
                Some(median.value.max(Metric::ResponseP50.resolution()).ln())
            };
            let logs: Option<Vec<f64>> = pairs
                .iter()
                .map(|pair| Some(log_median(pair.after)? - log_median(pair.before)?))
                .collect();
            let Some(logs) = logs else {
                continue;
            };
            cells += 1.0;
            for ((sum, log), pair) in sums.iter_mut().zip(logs).zip(pairs) {
                *sum = (sum.0 + log, pair.after.position == 1);
            }
        }
    }
    if cells == 0.0 {
        return (Vec::new(), Vec::new());
    }
    let (second, first): (Vec<_>, Vec<_>) = sums.into_iter().partition(|(_, second)| *second);
    let mean = |group: Vec<(f64, bool)>| group.into_iter().map(|(sum, _)| sum / cells).collect();
    (mean(second), mean(first))
}

/// Two-sided exact p that two samples have the same centre; ties count half.
fn rank_sum_p(one: &[f64], other: &[f64]) -> f64 {
    let wins: f64 = one
        .iter()
        .flat_map(|x| other.iter().map(move |y| (x, y)))
        .map(|(x, y)| match x.total_cmp(y) {
            std::cmp::Ordering::Greater => 1.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Less => 0.0,
        })
        .sum();
    let most = (one.len() * other.len()) as f64;
    // Half a win, from a tie, is given to the other side: never more extreme than it was.
    let extreme = wins.max(most - wins).floor() as usize;
    // Orders of the two samples by number of wins: each value of the first sample in
    // turn beats a non-decreasing number of the second's.
    let counts = win_counts(one.len(), other.len());
    let all: f64 = counts.iter().sum();
    let tail: f64 = counts[extreme.min(counts.len() - 1)..].iter().sum();
    (2.0 * tail / all).min(1.0)
}

/// Coefficients of the Gaussian binomial: in how many orders of `m` and `n` values
/// the first sample has so many wins.
fn win_counts(m: usize, n: usize) -> Vec<f64> {
    let mut counts = vec![0.0; m * n + 1];
    counts[0] = 1.0;
    for i in 1..=m {
        // Multiply by 1 − x^(n+i), then divide by 1 − x^i.
        for wins in (n + i..counts.len()).rev() {
            counts[wins] -= counts[wins - n - i];
        }
        for wins in i..counts.len() {
            counts[wins] += counts[wins - i];
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EndpointSpec, record};

    #[test]
    fn rank_sums_by_hand() {
        assert_eq!(win_counts(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        let (low, high) = ([1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]);
        assert!((rank_sum_p(&low, &high) - 2.0 / 252.0).abs() < 1e-12);
        assert!((rank_sum_p(&high, &low) - 2.0 / 252.0).abs() < 1e-12);
        assert_eq!(rank_sum_p(&[1.0, 4.0], &[2.0, 3.0]), 1.0);
        assert_eq!(rank_sum_p(&[1.0; 5], &[1.0; 5]), 1.0);
    }

    #[test]
    fn a_slow_second_block_is_seen_whatever_the_arms_do() {
        for (ratio, slowdown, spoils) in [(1.0, 2.0, true), (0.2, 2.0, true), (0.2, 1.0, false)] {
            let spec = EndpointSpec {
                ratio,
                spread: 0.05,
                ..EndpointSpec::new("GET a", 10.0)
            };
            let mut measured = record(5, 14, 120, &[spec]);
            for block in measured
                .blocks
                .iter_mut()
                .filter(|block| block.position == 1)
            {
                let samples = block.endpoints.get_mut("GET a").unwrap();
                let mut slowed = crate::histogram::LatencyHistogram::new();
                for (value, count) in samples.response.iter() {
                    for _ in 0..count {
                        slowed.record_us((value as f64 * slowdown) as u64);
                    }
                }
                samples.response = slowed;
            }
            let policy = Policy::default();
            let found = order_effect(&measured, &Pairing::of(&measured, &policy), &policy);
            assert_eq!(matches!(found, OrderEffect::Spoils(_)), spoils, "{found:?}");
        }
    }
}
