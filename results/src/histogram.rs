//! Latency histograms: what is recorded, how it is merged and how it is read.
//!
//! One unit (microseconds), one precision (3 significant digits) and one wire
//! form (HdrHistogram V2, see `hdr_wire.rs`) for every crate, so that no reader
//! has to guess. Recording and the bins are the hdrhistogram crate's. What is not
//! being recorded is kept as a short list of the bins in use instead: a record of
//! a hundred endpoints holds tens of thousands of histograms, and the crate's
//! array of counters takes about 90 KB for one that reaches a second.

use std::borrow::Cow;
use std::time::Duration;

use hdrhistogram::Histogram;

/// Precision of every histogram.
pub(crate) const SIGNIFICANT_DIGITS: u8 = 3;
/// The largest value that every HdrHistogram implementation can read back.
pub(crate) const VALUE_US_MAX: u64 = i64::MAX as u64;

/// A histogram of microseconds with 3 significant digits that grows as needed.
///
/// Values in one bin are reported as the bin's upper end, as HdrHistogram does:
/// at most 0.1 % above what was recorded, and a percentile never exceeds
/// [`max_us`](Self::max_us).
#[derive(Debug, Clone)]
pub struct LatencyHistogram(Storage);

#[derive(Debug, Clone)]
enum Storage {
    /// Constant time to record.
    Recording(Box<Histogram<u64>>),
    /// Upper ends of the bins in use, ascending, with their counts.
    Used { bins: Vec<(u64, u64)>, count: u64 },
}

impl LatencyHistogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self::from_bins(Vec::new())
    }

    /// Records one duration, rounded to the nearest microsecond.
    pub fn record(&mut self, latency: Duration) {
        // In 64 bits: a division of 128 is a call, and this is done several times per request.
        let below_second_us = u64::from((latency.subsec_nanos() + 500) / 1_000);
        let whole_us = latency.as_secs().saturating_mul(1_000_000);
        self.record_us(whole_us.saturating_add(below_second_us));
    }

    /// Records one value in microseconds. Any value is accepted; those beyond
    /// 2⁶³ µs (292 000 years) count as 2⁶³ − 1.
    pub fn record_us(&mut self, latency_us: u64) {
        self.record_us_times(latency_us, 1);
    }

    /// Records one value `times` times, in the time that one takes.
    pub fn record_us_times(&mut self, latency_us: u64, times: u64) {
        if times == 0 {
            return;
        }
        if let Storage::Used { bins, .. } = &self.0 {
            self.0 = Storage::Recording(Box::new(counters(bins)));
        }
        if let Storage::Recording(histogram) = &mut self.0 {
            add(histogram, latency_us, times);
        }
    }

    /// Adds everything that `other` counted. Sizes need not match.
    pub fn merge(&mut self, other: &Self) {
        if !other.is_empty() {
            *self = Self::sum([&*self, other]);
        }
    }

    /// Frees the array of counters: recording is over. Reading never needs this, and
    /// recording again is allowed.
    pub fn compact(&mut self) {
        if let Storage::Recording(histogram) = &self.0 {
            *self = Self::from_counters(histogram);
        }
    }

    /// The sum of many histograms.
    pub fn sum<'a>(histograms: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut bins = Vec::new();
        for histogram in histograms {
            bins.extend_from_slice(&histogram.bins());
        }
        // Stable, because that sort makes use of runs that are in order already.
        bins.sort_by_key(|(end_us, _)| *end_us);
        bins.dedup_by(|(end_us, count), (kept_us, sum)| {
            let same = end_us == kept_us;
            if same {
                *sum = sum.saturating_add(*count);
            }
            same
        });
        Self::from_bins(bins)
    }

    /// How many values were recorded.
    pub fn count(&self) -> u64 {
        match &self.0 {
            Storage::Recording(histogram) => histogram.len(),
            Storage::Used { count, .. } => *count,
        }
    }

    /// True when nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The largest recorded value, as its bin's upper end.
    pub fn max_us(&self) -> Option<u64> {
        self.bins().last().map(|(end_us, _)| *end_us)
    }

    /// The `q`-quantile in microseconds: the smallest recorded value that at
    /// least a share `q` of all values does not exceed (rank ⌈q·n⌉, Hyndman and
    /// Fan's type 1; no interpolation). `None` when nothing was recorded.
    pub fn quantile_us(&self, q: f64) -> Option<u64> {
        self.value_at_rank(rank_of(q, self.count()))
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
        let bins = self.bins();
        (0..bins.len()).map(move |position| bins[position])
    }

    /// The percentile curve: each value in use with the share of all values
    /// that do not exceed it.
    pub fn curve(&self) -> impl Iterator<Item = (f64, u64)> {
        let total = self.count() as f64;
        let mut seen = 0u64;
        self.iter().map(move |(value, count)| {
            seen = seen.saturating_add(count);
            (seen as f64 / total, value)
        })
    }

    /// From the upper ends of bins, ascending, with positive counts.
    fn from_bins(mut bins: Vec<(u64, u64)>) -> Self {
        bins.shrink_to_fit();
        let counts = bins.iter().map(|(_, count)| *count);
        let count = counts.fold(0, u64::saturating_add);
        Self(Storage::Used { bins, count })
    }

    fn bins(&self) -> Cow<'_, [(u64, u64)]> {
        match &self.0 {
            Storage::Recording(histogram) => Cow::Owned(used(histogram)),
            Storage::Used { bins, .. } => Cow::Borrowed(bins),
        }
    }

    /// From the crate's own, of microseconds and 3 significant digits.
    pub(crate) fn from_counters(histogram: &Histogram<u64>) -> Self {
        Self::from_bins(used(histogram))
    }

    /// As the crate's own.
    pub(crate) fn counters(&self) -> Cow<'_, Histogram<u64>> {
        match &self.0 {
            Storage::Recording(histogram) => Cow::Borrowed(histogram),
            Storage::Used { bins, .. } => Cow::Owned(counters(bins)),
        }
    }
}

/// The bins in use.
fn used(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let bins = histogram.iter_recorded();
    bins.map(|bin| (bin.value_iterated_to(), bin.count_at_value()))
        .collect()
}

/// An array of counters with these bins.
fn counters(bins: &[(u64, u64)]) -> Histogram<u64> {
    let mut histogram = Histogram::new(SIGNIFICANT_DIGITS).expect("the crate takes 0 to 5 digits");
    // The largest first, so that it grows only once.
    for (end_us, count) in bins.iter().rev() {
        add(&mut histogram, *end_us, *count);
    }
    histogram
}

fn add(histogram: &mut Histogram<u64>, value_us: u64, count: u64) {
    let value_us = value_us.min(VALUE_US_MAX);
    // It can't fail to grow where memory has 32-bit addresses; elsewhere the
    // largest value that fits is counted instead, so that counts stay right.
    if histogram.record_n(value_us, count).is_err() {
        histogram.saturating_record_n(value_us, count);
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for LatencyHistogram {
    fn eq(&self, other: &Self) -> bool {
        self.bins() == other.bins()
    }
}

/// The rank of the `q`-quantile among `n` values: ⌈q·n⌉, at least 1.
///
/// The product is lowered by a few parts in 10¹² first, since 0.07 × 100 is
/// slightly more than 7 in binary: the crate's own `value_at_quantile` takes the
/// 8th of 100 values there, and its sums may overflow.
pub(crate) fn rank_of(q: f64, n: u64) -> u64 {
    let exact = q.clamp(0.0, 1.0) * n as f64;
    ((exact * (1.0 - 4e-12)).ceil() as u64).clamp(1, n.max(1))
}

/// For tests: these values, recorded.
#[cfg(test)]
pub(crate) fn histogram_of(values: &[u64]) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new();
    for value in values {
        histogram.record_us(*value);
    }
    histogram
}

#[cfg(test)]
mod tests {
    use super::histogram_of as of;
    use super::*;
    use proptest::prelude::*;

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
    fn recording_many_times_is_recording_one_by_one() {
        let mut many = of(&[5]);
        many.record_us_times(9, 0);
        many.record_us_times(70_000, 3);
        assert_eq!(many, of(&[5, 70_000, 70_000, 70_000]));
    }

    #[test]
    fn counts_do_not_wrap() {
        let mut full = LatencyHistogram::from_bins(vec![(3, u64::MAX), (5, u64::MAX)]);
        assert_eq!(full.count(), u64::MAX);
        full.merge(&of(&[3]));
        full.record_us(5);
        assert_eq!(full.count(), u64::MAX);
        assert_eq!(full.quantile_us(0.5), Some(3));
        let mut many = LatencyHistogram::new();
        many.record_us_times(3, u64::MAX);
        many.record_us_times(5, 2);
        assert_eq!((many.count(), many.max_us()), (u64::MAX, Some(5)));
        assert!({
            let mut none = LatencyHistogram::new();
            none.record_us_times(3, 0);
            none.is_empty()
        });
    }

    proptest! {
        #[test]
        fn a_value_is_reported_to_three_digits(value in 0..=VALUE_US_MAX) {
            let mut histogram = of(&[value]);
            let reported = histogram.max_us().unwrap();
            prop_assert!(reported >= value && reported - value <= value / 1_000);
            histogram.record_us(reported);
            prop_assert_eq!(histogram.iter().count(), 1);
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
            prop_assert_eq!(histogram.quantile_us(q), Some(counters(&[]).highest_equivalent(exact)));
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
