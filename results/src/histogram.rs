//! Latency histograms: what is recorded, how it is merged and how it is read.
//!
//! One unit (microseconds), one precision (3 significant digits) and one wire
//! form (HdrHistogram V2, see `hdr_wire.rs`) for every crate, so that no reader
//! has to guess. The bins are HdrHistogram's own; the storage is not: an array
//! of counters only while something is being recorded, and a short list of the
//! bins in use everywhere else, because a record of a hundred endpoints holds
//! tens of thousands of histograms.

use std::borrow::Cow;
use std::time::Duration;

/// Values below this have a bin of their own; above, bins grow with the value.
const LINEAR_LIMIT: u64 = 2048;
/// Bins per power of two above [`LINEAR_LIMIT`].
const BINS_PER_OCTAVE: u64 = 1024;
/// The largest value that every HdrHistogram implementation can read back.
pub(crate) const VALUE_US_MAX: u64 = i64::MAX as u64;

/// A histogram of microseconds with 3 significant digits that grows as needed.
///
/// Values in one bin are reported as the bin's upper end, as HdrHistogram does:
/// at most 0.1 % above what was recorded, and a percentile never exceeds
/// [`max_us`](Self::max_us).
#[derive(Debug, Clone)]
pub struct LatencyHistogram {
    bins: Bins,
    count: u64,
}

#[derive(Debug, Clone)]
enum Bins {
    /// One counter per bin from 0: constant time to record.
    Array(Vec<u64>),
    /// The bins in use, ascending.
    List(Vec<(u32, u64)>),
}

impl LatencyHistogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self {
            bins: Bins::List(Vec::new()),
            count: 0,
        }
    }

    /// Records one duration, rounded to the nearest microsecond.
    pub fn record(&mut self, latency: Duration) {
        let latency_us = (latency.as_nanos().saturating_add(500)) / 1_000;
        self.record_us(u64::try_from(latency_us).unwrap_or(VALUE_US_MAX));
    }

    /// Records one value in microseconds. Any value is accepted; those beyond
    /// 2⁶³ µs (292 000 years) count as 2⁶³ − 1.
    pub fn record_us(&mut self, latency_us: u64) {
        let index = bin_of(latency_us.min(VALUE_US_MAX)) as usize;
        let counters = self.counters();
        if index >= counters.len() {
            counters.resize(index + 1, 0);
        }
        counters[index] = counters[index].saturating_add(1);
        self.count = self.count.saturating_add(1);
    }

    /// Adds everything that `other` counted. Sizes need not match.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let mine = self.list();
        let theirs = other.list();
        let mut merged: Vec<(u32, u64)> = Vec::with_capacity(mine.len().max(theirs.len()));
        let (mut left, mut right) = (mine.iter().peekable(), theirs.iter().peekable());
        loop {
            let next = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) if a.0 == b.0 => {
                    let sum = (a.0, a.1.saturating_add(b.1));
                    left.next();
                    right.next();
                    sum
                }
                (Some(a), Some(b)) if a.0 < b.0 => {
                    let bin = **a;
                    left.next();
                    bin
                }
                (_, Some(b)) => {
                    let bin = **b;
                    right.next();
                    bin
                }
                (Some(a), None) => {
                    let bin = **a;
                    left.next();
                    bin
                }
                (None, None) => break,
            };
            merged.push(next);
        }
        *self = Self::from_bins(merged);
    }

    /// Frees the array of counters: recording is over. Reading never needs this, and
    /// recording again is allowed.
    pub fn compact(&mut self) {
        *self = Self::from_bins(self.list().into_owned());
    }

    /// The sum of many histograms.
    pub fn sum<'a>(histograms: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut total = Self::new();
        for histogram in histograms {
            total.merge(histogram);
        }
        total
    }

    /// How many values were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// True when nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many recorded values are at most `latency_us`, by bins.
    pub fn count_at_most(&self, latency_us: u64) -> u64 {
        self.iter()
            .take_while(|(value, _)| *value <= highest_in(bin_of(latency_us.min(VALUE_US_MAX))))
            .fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    /// The largest recorded value, as its bin's upper end.
    pub fn max_us(&self) -> Option<u64> {
        self.list().last().map(|(bin, _)| highest_in(*bin))
    }

    /// The smallest recorded value, as its bin's upper end.
    pub fn min_us(&self) -> Option<u64> {
        self.list().first().map(|(bin, _)| highest_in(*bin))
    }

    /// Mean of the recorded values in microseconds.
    pub fn mean_us(&self) -> Option<f64> {
        let (sum, count) = self.iter().fold((0.0, 0.0), |(sum, n), (value, count)| {
            (sum + value as f64 * count as f64, n + count as f64)
        });
        (count > 0.0).then(|| sum / count)
    }

    /// The `q`-quantile in microseconds: the smallest recorded value that at
    /// least a share `q` of all values does not exceed (rank ⌈q·n⌉, Hyndman and
    /// Fan's type 1; no interpolation). `None` when nothing was recorded.
    pub fn quantile_us(&self, q: f64) -> Option<u64> {
        self.value_at_rank(rank_of(q, self.count))
    }

    /// The value with this rank, from 1 for the smallest.
    pub fn value_at_rank(&self, rank: u64) -> Option<u64> {
        let mut seen = 0u64;
        self.iter()
            .find(|(_, count)| {
                seen = seen.saturating_add(*count);
                seen >= rank
            })
            .map(|(value, _)| value)
    }

    /// Every value in use with its count, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let list = self.list();
        (0..list.len()).map(move |position| {
            let (bin, count) = list[position];
            (highest_in(bin), count)
        })
    }

    /// The percentile curve: each value in use with the share of all values
    /// that do not exceed it.
    pub fn curve(&self) -> impl Iterator<Item = (f64, u64)> {
        let total = self.count as f64;
        let mut seen = 0u64;
        self.iter().map(move |(value, count)| {
            seen = seen.saturating_add(count);
            (seen as f64 / total, value)
        })
    }

    /// From bins in ascending order with positive counts.
    pub(crate) fn from_bins(bins: Vec<(u32, u64)>) -> Self {
        let count = bins
            .iter()
            .fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
        Self {
            bins: Bins::List(bins),
            count,
        }
    }

    /// The bins in use, ascending.
    pub(crate) fn list(&self) -> Cow<'_, [(u32, u64)]> {
        match &self.bins {
            Bins::List(list) => Cow::Borrowed(list),
            Bins::Array(counters) => Cow::Owned(
                (0u32..)
                    .zip(counters)
                    .filter(|(_, count)| **count > 0)
                    .map(|(bin, count)| (bin, *count))
                    .collect(),
            ),
        }
    }

    fn counters(&mut self) -> &mut Vec<u64> {
        if let Bins::List(list) = &self.bins {
            let length = list.last().map_or(0, |(bin, _)| *bin as usize + 1);
            let mut counters = vec![0; length];
            for (bin, count) in list {
                counters[*bin as usize] = *count;
            }
            self.bins = Bins::Array(counters);
        }
        match &mut self.bins {
            Bins::Array(counters) => counters,
            Bins::List(_) => unreachable!("turned into an array above"),
        }
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for LatencyHistogram {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count && self.list() == other.list()
    }
}

/// The rank of the `q`-quantile among `n` values: ⌈q·n⌉, at least 1.
///
/// The product is lowered by a few parts in 10¹² first, since 0.07 × 100 is
/// slightly more than 7 in binary.
pub(crate) fn rank_of(q: f64, n: u64) -> u64 {
    let exact = q.clamp(0.0, 1.0) * n as f64;
    ((exact * (1.0 - 4e-12)).ceil() as u64).clamp(1, n.max(1))
}

/// Index of the bin that holds a value.
pub(crate) fn bin_of(value: u64) -> u32 {
    let bin = if value < LINEAR_LIMIT {
        value
    } else {
        let shift = u64::from(53 - value.leading_zeros());
        shift * BINS_PER_OCTAVE + (value >> shift)
    };
    u32::try_from(bin).expect("64-bit values have fewer than 57 000 bins")
}

/// Upper end of a bin; a bin that no value has yields the largest value.
pub(crate) fn highest_in(bin: u32) -> u64 {
    let bin = u64::from(bin);
    if bin < LINEAR_LIMIT {
        return bin;
    }
    let shift = bin / BINS_PER_OCTAVE - 1;
    let mantissa = u128::from(bin % BINS_PER_OCTAVE + BINS_PER_OCTAVE);
    let end = ((mantissa + 1) << shift.min(64)) - 1;
    u64::try_from(end).map_or(VALUE_US_MAX, |end| end.min(VALUE_US_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::new();
        for value in values {
            histogram.record_us(*value);
        }
        histogram
    }

    #[test]
    fn quantiles_are_order_statistics() {
        let histogram = of(&[10, 20, 30, 40]);
        assert_eq!(histogram.quantile_us(0.5), Some(20));
        assert_eq!(histogram.quantile_us(0.51), Some(30));
        assert_eq!(histogram.quantile_us(1.0), Some(40));
        assert_eq!(histogram.quantile_us(0.0), Some(10));
        assert_eq!(LatencyHistogram::new().quantile_us(0.5), None);
        let hundred: Vec<u64> = (1..=100).collect();
        for percent in 1..=100u64 {
            let q = percent as f64 / 100.0;
            assert_eq!(of(&hundred).quantile_us(q), Some(percent), "p{percent}");
        }
    }

    #[test]
    fn any_value_is_recorded_and_merged() {
        let hour = 3_600_000_000;
        let mut small = of(&[1, 2]);
        small.merge(&of(&[hour, u64::MAX]));
        let mut large = of(&[u64::MAX, hour]);
        large.merge(&of(&[1, 2]));
        assert_eq!(small, large);
        assert_eq!(small.count(), 4);
        assert_eq!(small.max_us(), Some(VALUE_US_MAX));
        let recorded = small.quantile_us(0.75).unwrap();
        assert!(recorded.abs_diff(hour) <= hour / 1_000, "{recorded}");
        small.record(Duration::MAX);
        assert_eq!(small.count(), 5);
    }

    #[test]
    fn compacting_changes_nothing_that_can_be_read() {
        let mut histogram = of(&[5, 5, 70_000]);
        let before = histogram.clone();
        histogram.compact();
        assert_eq!(histogram, before);
        histogram.record_us(6);
        assert_eq!(histogram, of(&[5, 5, 6, 70_000]));
    }

    #[test]
    fn counts_do_not_wrap() {
        let mut full = LatencyHistogram::from_bins(vec![(3, u64::MAX), (5, u64::MAX)]);
        full.merge(&of(&[3]));
        full.record_us(5);
        assert_eq!(full.count(), u64::MAX);
        assert_eq!(full.quantile_us(0.5), Some(3));
    }

    proptest! {
        #[test]
        fn bins_are_three_digits_wide_and_in_order(value in 0..=VALUE_US_MAX, step in 0..1_000_000u64) {
            let high = highest_in(bin_of(value));
            prop_assert!(high >= value);
            prop_assert!(high - value <= value / 1_000);
            prop_assert_eq!(bin_of(high), bin_of(value));
            prop_assert!(bin_of((value + step).min(VALUE_US_MAX)) >= bin_of(value));
        }

        #[test]
        fn a_percentile_never_exceeds_the_maximum(
            values in prop::collection::vec(any::<u64>(), 1..200),
            q in 0.0..=1.0f64,
        ) {
            let histogram = of(&values);
            prop_assert!(histogram.quantile_us(q) <= histogram.max_us());
            let mut sorted = values;
            sorted.sort_unstable();
            let rank = rank_of(q, sorted.len() as u64) as usize;
            let exact = sorted[rank - 1].min(VALUE_US_MAX);
            prop_assert_eq!(histogram.quantile_us(q), Some(highest_in(bin_of(exact))));
        }

        #[test]
        fn merging_is_recording_everything(
            left in prop::collection::vec(0..10_000_000u64, 0..100),
            right in prop::collection::vec(any::<u64>(), 0..100),
        ) {
            let mut merged = of(&left);
            merged.merge(&of(&right));
            prop_assert_eq!(merged, of(&[left, right].concat()));
        }
    }
}
