//! The rules by which people compare two versions without a gate like this one, on the very
//! sessions that it judges: so that a table can show what each of its parts is for.
//!
//! Each says whether it would alarm. None is used anywhere else.

use crate::comparison::{Cell, Comparison, Family, Scale};
use crate::histogram::LatencyHistogram;
use crate::policy::Policy;
use crate::record::{Block, RunRecord};
use crate::signflip::{SignFlips, TestCell};
use crate::student::student_quantile;

/// One of these rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A rank test (Mann and Whitney) of all requests after against all before, per endpoint.
    PooledRequests,
    /// The p95 of one run is more than 10 % above that of one earlier run, of any endpoint.
    EarlierRun,
    /// Welch's t-test of the mean times of blocks, without a margin, per endpoint.
    BlockMeans,
    /// The shipped test of each cell by itself.
    Uncorrected,
    /// The shipped test with the standard error of the unflipped differences for every flip.
    FixedError,
}

/// The level of all of them.
const ALPHA: f64 = 0.05;
/// Standard normal quantile of 1 − α.
const Z: f64 = 1.644_854;

impl Rule {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::PooledRequests,
        Self::EarlierRun,
        Self::BlockMeans,
        Self::Uncorrected,
        Self::FixedError,
    ];

    /// What it does, in a few words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::PooledRequests => "Mann–Whitney on all requests, per endpoint",
            Self::EarlierRun => "p95 > 1.10 × that of one earlier run",
            Self::BlockMeans => "t-test on means of blocks, no margin",
            Self::Uncorrected => "this rule, each cell tested alone",
            Self::FixedError => "this rule, one standard error for all flips",
        }
    }

    /// Whether the rule calls this session a regression.
    pub fn alarms(self, record: &RunRecord, comparison: &Comparison, policy: &Policy) -> bool {
        let mut endpoints = record.scenario.endpoints.iter();
        match self {
            Self::PooledRequests => endpoints.any(|of| pooled_requests(record, &of.name)),
            Self::EarlierRun => endpoints.any(|of| earlier_run(record, &of.name)),
            Self::BlockMeans => endpoints.any(|of| block_means(record, &of.name)),
            Self::Uncorrected => uncorrected(record, comparison, policy),
            Self::FixedError => fixed_error(record, comparison, policy),
        }
    }
}

/// Whether all bounds of the shipped rule are below its margin: what a pass would take if the
/// margin were the limit, too.
pub fn passes_at_margin(comparison: &Comparison, policy: &Policy) -> bool {
    let mut cells = latency(comparison).filter_map(|cell| Some((cell, cell.change.as_ref()?)));
    cells.all(|(cell, change)| {
        change.upper_bound
            < 1.0
                + policy
                    .margin(cell.endpoint.as_deref(), cell.metric)
                    .regression
    })
}

fn of_arm<'a>(
    record: &'a RunRecord,
    arm: &'a str,
    endpoint: &'a str,
) -> impl DoubleEndedIterator<Item = &'a LatencyHistogram> {
    let blocks = record
        .blocks
        .iter()
        .filter(move |block: &&Block| block.arm == arm);
    blocks.filter_map(move |block| Some(&block.endpoints.get(endpoint)?.response))
}

fn pooled_requests(record: &RunRecord, endpoint: &str) -> bool {
    let pool = |arm| LatencyHistogram::sum(of_arm(record, arm, endpoint));
    rank_z(&pool("before"), &pool("after")) > Z
}

/// How far the second sample is above the first, in standard deviations (normal approximation
/// with ties: the samples are large).
fn rank_z(first: &LatencyHistogram, second: &LatencyHistogram) -> f64 {
    let (n, m) = (first.count() as f64, second.count() as f64);
    let mut wins = 0.0;
    let mut below = 0.0;
    let mut ties = 0.0;
    let mut lower = first.iter().peekable();
    let mut tie = |count: f64| ties += count.powi(3) - count;
    for (value, count) in second.iter() {
        while let Some((_, smaller)) = lower.next_if(|(other, _)| *other < value) {
            below += smaller as f64;
            tie(smaller as f64);
        }
        let equal = lower.next_if(|(other, _)| *other == value);
        let equal = equal.map_or(0.0, |(_, count)| count as f64);
        wins += count as f64 * (below + equal / 2.0);
        below += equal;
        tie(count as f64 + equal);
    }
    lower.for_each(|(_, count)| tie(count as f64));
    let all = n + m;
    let variance = n * m / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    (wins - n * m / 2.0) / variance.max(f64::MIN_POSITIVE).sqrt()
}

/// The session's first block before is the earlier run, its last one after the later.
fn earlier_run(record: &RunRecord, endpoint: &str) -> bool {
    let p95 = |histogram: Option<&LatencyHistogram>| {
        let us = histogram.and_then(|histogram| histogram.quantile_us(0.95));
        us.map(|us| us as f64)
    };
    let earlier = p95(of_arm(record, "before", endpoint).next());
    let later = p95(of_arm(record, "after", endpoint).next_back());
    earlier
        .zip(later)
        .is_some_and(|(earlier, later)| later > 1.10 * earlier)
}

fn block_means(record: &RunRecord, endpoint: &str) -> bool {
    let means = |arm| -> Vec<f64> {
        let blocks = of_arm(record, arm, endpoint);
        blocks.filter(|of| !of.is_empty()).map(mean_us).collect()
    };
    welch(&means("before"), &means("after"))
}

fn mean_us(histogram: &LatencyHistogram) -> f64 {
    let sum: f64 = histogram
        .iter()
        .map(|(us, count)| us as f64 * count as f64)
        .sum();
    sum / histogram.count() as f64
}

/// One-sided: the second mean is larger (Welch, 1947).
fn welch(first: &[f64], second: &[f64]) -> bool {
    let [(n, mean, error), (m, other_mean, other_error)] = [first, second].map(|values| {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (count, mean, squares / (count - 1.0) / count)
    });
    let freedom = (error + other_error).powi(2)
        / (error.powi(2) / (n - 1.0) + other_error.powi(2) / (m - 1.0));
    (other_mean - mean) / (error + other_error).sqrt()
        > student_quantile(1.0 - ALPHA, freedom as u32)
}

fn latency(comparison: &Comparison) -> impl Iterator<Item = &Cell> {
    let cells = comparison.cells.iter();
    cells.filter(|cell| cell.judged && cell.family == Family::Latency)
}

/// The differences of a cell beyond its margin, and whether its change is above the floor, as the
/// shipped rule takes them.
fn beyond_margin(cell: &Cell, policy: &Policy) -> Option<(TestCell, bool)> {
    let change = cell.change.as_ref().filter(|of| of.scale == Scale::Ratio)?;
    let margin = policy.margin(cell.endpoint.as_deref(), cell.metric);
    let pairs = cell.before.per_block.iter().zip(&cell.after.per_block);
    let differences: Vec<f64> = pairs
        .map(|(before, after)| (after / before).ln() - margin.regression.ln_1p())
        .collect();
    let before = cell.before.per_block.iter().sum::<f64>() / differences.len() as f64;
    let test = TestCell {
        standard_error_min: 0.001 / (differences.len() as f64).sqrt(),
        differences,
    };
    Some((test, before * (change.estimate - 1.0) > margin.floor))
}

fn flips(record: &RunRecord, comparison: &Comparison) -> SignFlips {
    SignFlips::new(comparison.pairs as usize, record.load.seed)
}

fn uncorrected(record: &RunRecord, comparison: &Comparison, policy: &Policy) -> bool {
    let flips = flips(record, comparison);
    latency(comparison)
        .filter_map(|cell| beyond_margin(cell, policy))
        .any(|(test, above_floor)| above_floor && flips.test(&[test])[0] <= ALPHA)
}

fn fixed_error(record: &RunRecord, comparison: &Comparison, policy: &Policy) -> bool {
    let flips = flips(record, comparison);
    let cells: Vec<(TestCell, bool)> = latency(comparison)
        .filter_map(|cell| beyond_margin(cell, policy))
        .collect();
    let statistics: Vec<Vec<f64>> = cells
        .iter()
        .map(|(cell, _)| flips.statistics_of_fixed_error(cell))
        .collect();
    let Some(largest) = statistics.iter().cloned().reduce(|mut most, one| {
        for (most, one) in most.iter_mut().zip(one) {
            *most = most.max(one);
        }
        most
    }) else {
        return false;
    };
    statistics
        .iter()
        .zip(&cells)
        .any(|(of_cell, (_, above_floor))| {
            // The first flip is none.
            let reached = of_cell[0] - 1e-9;
            let as_large = largest.iter().filter(|t| **t >= reached).count();
            *above_floor && as_large as f64 <= ALPHA * largest.len() as f64
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::histogram_of;

    #[test]
    fn ranks_by_hand() {
        // U of {4, 5} over {1, 2, 3} is 6 of 6: (6 − 3) ÷ √(6 · 6 ÷ 12).
        let z = rank_z(&histogram_of(&[1, 2, 3]), &histogram_of(&[4, 5]));
        assert!((z - 3.0 / 3f64.sqrt()).abs() < 1e-12, "{z}");
        let same = histogram_of(&[1, 2, 2, 3]);
        assert!(rank_z(&same, &same).abs() < 1e-12);
    }

    #[test]
    fn welch_tells_what_is_apart() {
        assert!(welch(&[1.0, 2.0, 3.0, 2.0], &[5.0, 6.0, 7.0, 6.0]));
        assert!(!welch(&[1.0, 2.0, 3.0, 2.0], &[1.0, 2.0, 3.0, 2.0]));
    }
}
