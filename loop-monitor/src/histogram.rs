//! Counts by powers of two of microseconds, written by any thread: the cells behind
//! [`wire::Histogram`].

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::wire;

/// Up to 2^40 µs, almost 13 days.
pub(crate) const BUCKETS: usize = 40;

/// One histogram.
#[derive(Debug)]
pub(crate) struct HistogramCells([AtomicU64; BUCKETS]);

impl Default for HistogramCells {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl HistogramCells {
    pub(crate) fn record(&self, ns: u64) {
        self.cell(ns).fetch_add(1, Relaxed);
    }

    /// The one that counts such values.
    pub(crate) fn cell(&self, ns: u64) -> &AtomicU64 {
        &self.0[bucket_of(ns)]
    }

    pub(crate) fn to_wire(&self) -> wire::Histogram {
        let mut counts = [0; BUCKETS];
        self.add_to(&mut counts);
        trimmed(&counts)
    }

    pub(crate) fn add_to(&self, counts: &mut [u64; BUCKETS]) {
        for (count, cell) in counts.iter_mut().zip(&self.0) {
            *count += cell.load(Relaxed);
        }
    }
}

fn bucket_of(ns: u64) -> usize {
    // The logarithm of a u64 is below 64, so the conversion is exact.
    let log2 = (ns / 1_000).checked_ilog2().unwrap_or(0) as usize;
    log2.min(BUCKETS - 1)
}

/// Without the zeros at the end.
pub(crate) fn trimmed(counts: &[u64; BUCKETS]) -> wire::Histogram {
    let length = counts
        .iter()
        .rposition(|count| *count > 0)
        .map_or(0, |last| last + 1);
    wire::Histogram {
        log2_us: counts[..length].to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_are_as_the_wire_form_says() {
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(1_999), 0);
        assert_eq!(bucket_of(2_000), 1);
        assert_eq!(bucket_of(3_999), 1);
        assert_eq!(bucket_of(4_000), 2);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    proptest! {
        #[test]
        fn a_value_lies_within_its_bucket(ns in 2_000u64..1_000_000_000_000) {
            let us = ns / 1_000;
            let bucket = bucket_of(ns);
            prop_assert!((1u64 << bucket) <= us && us < (1u64 << (bucket + 1)));
        }
    }
}
