//! A bystander probe beside a made-up load.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::normal;
use crate::record::{ProbeLoad, ProbeSamples, RunRecord};

/// A block has at least this many probes, however short its made-up load is.
const PROBES_MIN: u64 = 60;

/// How often others find the loop held, and how long it is held.
#[derive(Debug, Clone, Copy)]
pub struct ProbeSpec {
    /// Share of probes that come while the loop is held before, 0 to 1.
    pub held_before: f64,
    /// The same after.
    pub held_after: f64,
    /// How long it is held each time, ms: a probe waits for a part of it.
    pub hold_ms: f64,
}

/// Adds a probe of 50 per second to every block of a record.
pub fn add_probe(record: &mut RunRecord, spec: ProbeSpec) {
    let rate_per_second = 50.0;
    record.load.probe = Some(ProbeLoad {
        path: "/health".to_owned(),
        rate_per_second,
    });
    let mut rng = ChaCha8Rng::seed_from_u64(record.load.seed ^ 0x0050_726F_6265);
    for block in &mut record.blocks {
        let held = if block.arm == "after" {
            spec.held_after
        } else {
            spec.held_before
        };
        let offered = (block.wall_ns as f64 / 1e9 * rate_per_second) as u64;
        let mut samples = ProbeSamples {
            offered: offered.max(PROBES_MIN),
            ..ProbeSamples::default()
        };
        samples.completed = samples.offered;
        for _ in 0..samples.offered {
            let mut us = 450.0 * (0.25 * normal(&mut rng)).exp();
            if rng.random_bool(held.clamp(0.0, 1.0)) {
                us += spec.hold_ms * 1_000.0 * rng.random::<f64>();
            }
            let lag_us = 60.0 * normal(&mut rng).abs();
            samples.response.record_us((us + lag_us) as u64);
            samples.generator_lag.record_us(lag_us as u64);
        }
        samples.response.compact();
        samples.generator_lag.compact();
        block.probe = Some(samples);
    }
}
