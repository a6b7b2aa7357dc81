//! A version that is slower by another share at each percentile: the truth under which every cell
//! sits exactly at its margin.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

use super::EndpointSpec;
use super::session::RequestNoise;

/// Percentiles at which the ratio is given.
const AT: [f64; 3] = [0.5, 0.95, 0.99];
/// Requests from which the percentiles of the noise are read.
const SAMPLE: usize = 200_000;

/// What is added to the logarithm of a time, by where the time is among all.
///
/// It grows with the time, so order among requests stays, and with it a percentile of the new
/// times is the old percentile with its own ratio.
#[derive(Debug, Clone, Copy)]
pub(super) struct PercentileRatios {
    /// Noise at the percentiles.
    places: [f64; 3],
    /// Logarithms of the ratios there.
    ratios: [f64; 3],
}

impl PercentileRatios {
    /// Of an endpoint in blocks of so many requests.
    pub(super) fn of(spec: &EndpointSpec, requests: u64) -> Option<Self> {
        let ratios = spec.percentile_ratios?;
        Some(Self {
            places: percentiles(spec.spread, requests),
            ratios: ratios.map(f64::ln),
        })
    }

    /// Linear between the percentiles, constant beyond them.
    pub(super) fn at(&self, noise: f64) -> f64 {
        let [low, middle, high] = self.places;
        let between = |from: usize, to: usize| {
            let share = (noise - self.places[from]) / (self.places[to] - self.places[from]);
            self.ratios[from] + share * (self.ratios[to] - self.ratios[from])
        };
        if noise <= low {
            self.ratios[0]
        } else if noise <= middle {
            between(0, 1)
        } else if noise <= high {
            between(1, 2)
        } else {
            self.ratios[2]
        }
    }
}

/// The percentiles of the noise of requests with this spread, the same at each call. They take
/// longer than a session, so they are kept.
fn percentiles(spread: f64, requests: u64) -> [f64; 3] {
    static KNOWN: Mutex<BTreeMap<(u64, u64), [f64; 3]>> = Mutex::new(BTreeMap::new());
    // Whoever panicked with it has left it whole: it is only ever added to.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    *known
        .entry((spread.to_bits(), requests))
        .or_insert_with(|| {
            let mut rng = ChaCha8Rng::seed_from_u64(1);
            let mut noise = RequestNoise::new(spread, 0.0, requests);
            let mut sample: Vec<f64> = (0..SAMPLE).map(|_| noise.next(&mut rng)).collect();
            sample.sort_by(f64::total_cmp);
            AT.map(|q| sample[(q * SAMPLE as f64) as usize])
        })
}

#[cfg(test)]
mod tests {
    use super::super::SessionSpec;
    use super::*;
    use crate::histogram::LatencyHistogram;

    #[test]
    fn each_percentile_has_its_own_ratio() {
        let slower = EndpointSpec {
            percentile_ratios: Some([1.03, 1.05, 1.10]),
            ..EndpointSpec::new("GET a", 20.0)
        };
        let spec = SessionSpec {
            is_complete: false,
            ..SessionSpec::new(3, 400, 2_000, &[slower])
        };
        let record = spec.record();
        let mean_ln = |arm: &str, q: f64| {
            let of = |histogram: &LatencyHistogram| histogram.quantile_us(q).unwrap() as f64;
            let blocks = record.blocks.iter().filter(|block| block.arm == arm);
            let logs: Vec<f64> = blocks
                .map(|block| of(&block.endpoints["GET a"].response).ln())
                .collect();
            logs.iter().sum::<f64>() / logs.len() as f64
        };
        for (q, expected) in [(0.5, 1.03), (0.95, 1.05), (0.99, 1.10)] {
            let ratio = (mean_ln("after", q) - mean_ln("before", q)).exp();
            // 400 pairs leave about half a percent of noise.
            assert!((ratio - expected).abs() < 0.02, "{q}: {ratio}");
        }
    }
}
