//! What a made-up session is made of: for simulations, which need more of the truth to choose and
//! less of a record to keep.

use std::f64::consts::TAU;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::percentile_ratios::PercentileRatios;
use super::{EndpointSpec, Session, envelope, normal_pair};
use crate::design::{ArmName, balanced_first_arms};
use crate::record::{EndpointSamples, RunRecord};

/// One session of blocks in pairs.
#[derive(Debug, Clone)]
pub struct SessionSpec {
    /// All that is random follows from it.
    pub seed: u64,
    /// Numbers of pairs after which it is judged, the last one after all.
    pub looks: Vec<u32>,
    /// Per endpoint and block.
    pub requests: u64,
    /// What is asked for.
    pub endpoints: Vec<EndpointSpec>,
    /// What being the second block of a pair adds to the logarithm of its times.
    pub position: f64,
    /// Amplitude, in the logarithm of times, of something that comes and goes on the machine with
    /// a period of 2.5 to 6 blocks.
    pub rhythm: f64,
    /// False leaves out what no comparison reads (the generator's lateness, the series, times
    /// other than the response): made several times as fast.
    pub is_complete: bool,
}

impl SessionSpec {
    /// What [`super::record`] makes.
    pub fn new(seed: u64, pairs: u32, requests: u64, endpoints: &[EndpointSpec]) -> Self {
        Self {
            seed,
            looks: vec![pairs],
            requests,
            endpoints: endpoints.to_vec(),
            position: 0.01,
            rhythm: 0.0,
            is_complete: true,
        }
    }

    /// All pairs.
    pub fn pairs(&self) -> u32 {
        self.looks.last().copied().unwrap_or(0)
    }

    /// The record of the session.
    pub fn record(&self) -> RunRecord {
        let mut session = Session::new(self);
        let mut first_arms = Vec::new();
        for look in &self.looks {
            let begun = first_arms.len() as u32;
            first_arms.extend(balanced_first_arms(look - begun, &mut session.rng));
        }
        let mut blocks = Vec::new();
        let mut clock_ns = 0;
        for (pair, first) in (0..).zip(first_arms) {
            for position in 0..2 {
                let after = (position == 0) == (first == ArmName::After);
                blocks.push(session.block(
                    pair,
                    position,
                    after,
                    self.requests,
                    &self.endpoints,
                    &mut clock_ns,
                ));
            }
        }
        let endpoints = &self.endpoints;
        let mut record = envelope(self.seed, self.pairs(), self.requests, endpoints, blocks);
        if self.looks.len() > 1 {
            record.load.looks = self.looks.clone();
        }
        record
    }
}

/// Something that comes and goes: a job by the clock, a neighbour.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rhythm {
    amplitude: f64,
    period: f64,
    phase: f64,
}

impl Rhythm {
    pub(super) fn of(spec: &SessionSpec) -> Self {
        // A generator of its own: what else is drawn doesn't depend on it.
        let mut rng = ChaCha8Rng::seed_from_u64(spec.seed ^ 0x7268_7974_686d);
        Self {
            amplitude: spec.rhythm,
            period: rng.random_range(2.5..6.0),
            phase: rng.random(),
        }
    }

    pub(super) fn at(&self, block: f64) -> f64 {
        if self.amplitude == 0.0 {
            return 0.0;
        }
        self.amplitude * (TAU * (block / self.period + self.phase)).sin()
    }
}

impl Session {
    /// Response times alone, in the same distribution as [`Self::endpoint`] makes them.
    pub(super) fn times(
        &mut self,
        spec: &EndpointSpec,
        shape: Option<PercentileRatios>,
        requests: u64,
        middle: f64,
    ) -> (EndpointSamples, f64) {
        let (of_endpoint, first) = normal_pair(&mut self.rng);
        let middle = middle + 0.015 * of_endpoint;
        let mut noise = RequestNoise::new(spec.spread, first, requests);
        let mut samples = EndpointSamples::default();
        let mut sum_us = 0.0;
        for _ in 0..requests {
            let noise = noise.next(&mut self.rng);
            let shaped = shape.map_or(0.0, |shape| shape.at(noise));
            let response_us = (middle + noise + shaped).exp();
            sum_us += response_us;
            samples.response.record_us(response_us as u64);
        }
        samples.completed = requests;
        samples.response.compact();
        (samples, sum_us)
    }
}

/// The logarithm of one request's time after the other, around their middle: spread, a slow wave
/// that neighbours share, and now and then a burst of slow ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestNoise {
    spread: f64,
    wave: f64,
    /// Probability that a burst begins with a request.
    pub(super) burst_share: f64,
    burst_left: u32,
}

impl RequestNoise {
    /// `first` is a standard normal value.
    pub(super) fn new(spread: f64, first: f64, requests: u64) -> Self {
        Self {
            spread,
            wave: 0.2 * first,
            burst_share: 1.0 / requests.max(2) as f64,
            burst_left: 0,
        }
    }

    pub(super) fn next(&mut self, rng: &mut ChaCha8Rng) -> f64 {
        let (own, shared) = normal_pair(rng);
        let begins_burst = rng.random::<f64>() < self.burst_share;
        self.step(shared, begins_burst, own)
    }

    /// The next request of these draws: what it shares with its neighbours, whether a burst begins
    /// with it, and its own.
    pub(super) fn step(&mut self, shared: f64, begins_burst: bool, own: f64) -> f64 {
        const BURST: u32 = 15;
        const BURST_LN: f64 = 0.916_290_731_874_155; // 2.5 times as slow
        self.wave = 0.95 * self.wave + 0.2 * (1.0f64 - 0.95 * 0.95).sqrt() * shared;
        if begins_burst {
            self.burst_left = BURST;
        }
        let burst = if self.burst_left > 0 { BURST_LN } else { 0.0 };
        self.burst_left = self.burst_left.saturating_sub(1);
        self.spread * own + self.wave + burst
    }
}
