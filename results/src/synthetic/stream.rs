//! Streamed answers of a made-up endpoint.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::normal;
use crate::histogram::LatencyHistogram;
use crate::record::RunRecord;

/// How the answers of one endpoint stream.
#[derive(Debug, Clone, Copy)]
pub struct StreamSpec {
    /// Items per stream.
    pub items: u64,
    /// Median time to the first one before, ms.
    pub ttft_before_ms: f64,
    /// The same after.
    pub ttft_after_ms: f64,
    /// Median gap between items, ms.
    pub gap_ms: f64,
    /// Share of gaps during which the loop was held before, 0 to 1: they take ten times as long.
    pub stalled_before: f64,
    /// The same after.
    pub stalled_after: f64,
    /// Share of items that come in one read with the one before, 0 to 1.
    pub coalesced: f64,
}

/// Makes every success of `endpoint` a stream; its response times stay as they are.
pub fn add_stream(record: &mut RunRecord, endpoint: &str, spec: StreamSpec) {
    let mut rng = ChaCha8Rng::seed_from_u64(record.load.seed ^ 0x0053_7472_6561_6D73);
    for block in &mut record.blocks {
        let (ttft_ms, stalled) = match block.arm.as_str() {
            "after" => (spec.ttft_after_ms, spec.stalled_after),
            _ => (spec.ttft_before_ms, spec.stalled_before),
        };
        let Some(samples) = block.endpoints.get_mut(endpoint) else {
            continue;
        };
        let [mut ttft, mut ttft_sent, mut gap, mut gap_longest] =
            [(); 4].map(|()| LatencyHistogram::new());
        for _ in 0..samples.completed {
            let first_us = ttft_ms * 1_000.0 * (0.3 * normal(&mut rng)).exp();
            ttft.record_us(first_us as u64);
            ttft_sent.record_us((first_us * 0.98) as u64);
            let mut longest_us = 0;
            samples.items += spec.items;
            for _ in 1..spec.items {
                if rng.random_bool(spec.coalesced.clamp(0.0, 1.0)) {
                    samples.items_coalesced += 1;
                    continue;
                }
                let held = rng.random_bool(stalled.clamp(0.0, 1.0));
                let factor = if held { 10_000.0 } else { 1_000.0 };
                let gap_us = (spec.gap_ms * factor * (0.2 * normal(&mut rng)).exp()) as u64;
                gap.record_us(gap_us);
                longest_us = longest_us.max(gap_us);
            }
            gap_longest.record_us(longest_us);
        }
        for histogram in [&mut ttft, &mut ttft_sent, &mut gap, &mut gap_longest] {
            histogram.compact();
        }
        samples.ttft = Some(ttft);
        samples.ttft_sent = Some(ttft_sent);
        samples.gap = Some(gap);
        samples.gap_longest = Some(gap_longest);
    }
}
