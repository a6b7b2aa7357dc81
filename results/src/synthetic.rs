//! Believable records without a measurement: for the tests of this crate, of
//! the reports, and for simulating how often the comparison is right.
//!
//! The noise is that of a real service on a shared machine: log-normal requests
//! that are correlated within a block, bursts of slow ones, a machine that
//! drifts during the session, and a level of its own for every process start. A
//! [`SessionSpec`] says what else there may be.

mod bystander;
mod capacity;
mod envelope;
pub mod naive;
mod normal;
mod open;
mod percentile_ratios;
mod session;
pub mod simulation;
mod stalls;
mod start;
mod stream;
mod watch;

use std::collections::BTreeMap;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use crate::histogram::LatencyHistogram;
use crate::record::{
    Block, BlockValidity, BlockedTime, EndpointSamples, ErrorKind, MonitorDelta, MonitorEndpoint,
    ProcessUse, RunRecord, Second, ThreadCount,
};

use envelope::envelope;
use normal::{normal, normal_pair};
use percentile_ratios::PercentileRatios;
use session::{RequestNoise, Rhythm};

pub use bystander::{ProbeSpec, add_probe};
pub use capacity::{CapacitySpec, capacity_record};
pub use open::add_open;
pub use session::SessionSpec;
pub use stalls::add_stalls;
pub use start::add_start;
pub use stream::{StreamSpec, add_stream};
pub use watch::{WatchSpec, add_watch};

const THREADS: ThreadCount = ThreadCount {
    workers: 1,
    pool: 0,
    other: 3,
};

/// How one endpoint behaves in both arms.
#[derive(Debug, Clone)]
pub struct EndpointSpec {
    /// Its name, for example `GET usage`: method first.
    pub name: String,
    /// Median response time before, ms.
    pub p50_ms: f64,
    /// Standard deviation of the logarithm of a request's time; 0.5 is usual.
    pub spread: f64,
    /// Response times after ÷ before: 1 is the same, 0.2 five times as fast.
    pub ratio: f64,
    /// Blocked time before, ms per 1 000 requests.
    pub blocked_before_ms: f64,
    /// Blocked time after, ms per 1 000 requests.
    pub blocked_after_ms: f64,
    /// Share of requests that fail before, 0 to 1.
    pub errors_before: f64,
    /// Share of requests that fail after, 0 to 1.
    pub errors_after: f64,
    /// Instead of one `ratio`: after ÷ before at the 50th, 95th and 99th percentile, with
    /// something in between elsewhere.
    pub percentile_ratios: Option<[f64; 3]>,
}

impl EndpointSpec {
    /// An endpoint that is the same in both arms, neither blocks nor fails.
    pub fn new(name: &str, p50_ms: f64) -> Self {
        Self {
            name: name.to_owned(),
            p50_ms,
            spread: 0.5,
            ratio: 1.0,
            blocked_before_ms: 0.0,
            blocked_after_ms: 0.0,
            errors_before: 0.0,
            errors_after: 0.0,
            percentile_ratios: None,
        }
    }
}

/// A finished record with two arms at concurrency 20, the same for the same seed.
pub fn record(seed: u64, pairs: u32, requests: u64, endpoints: &[EndpointSpec]) -> RunRecord {
    SessionSpec::new(seed, pairs, requests, endpoints).record()
}

/// The same with one arm, as `unstall run` writes it: the `before` of the specs.
pub fn run_record(seed: u64, requests: u64, endpoints: &[EndpointSpec]) -> RunRecord {
    let mut session = Session::new(&SessionSpec::new(seed, 1, requests, endpoints));
    let mut block = session.block(0, 0, false, requests, endpoints, &mut 0);
    "run".clone_into(&mut block.arm);
    let mut record = envelope(seed, 0, requests, endpoints, vec![block]);
    record.arms.retain(|name, _| name == "before");
    let arm = record
        .arms
        .remove("before")
        .expect("the envelope has both arms");
    record.arms.insert("run".to_owned(), arm);
    record.step = None;
    record
}

/// State of the machine during one session.
struct Session {
    rng: ChaCha8Rng,
    blocks: f64,
    block_index: f64,
    drift: f64,
    slope: f64,
    rhythm: Rhythm,
    position: f64,
    /// Everything that a record has; else only what a comparison needs.
    is_complete: bool,
    /// Per endpoint how its times after depend on where they are among those before.
    shapes: Vec<Option<PercentileRatios>>,
}

impl Session {
    fn new(spec: &SessionSpec) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(spec.seed);
        let slope = 0.08 * normal(&mut rng);
        let drift = 0.05 * normal(&mut rng);
        let shapes = spec.endpoints.iter();
        Self {
            rng,
            blocks: f64::from(spec.pairs().max(1)) * 2.0,
            block_index: 0.0,
            drift,
            slope,
            rhythm: Rhythm::of(spec),
            position: spec.position,
            is_complete: spec.is_complete,
            shapes: shapes
                .map(|endpoint| PercentileRatios::of(endpoint, spec.requests))
                .collect(),
        }
    }

    /// Logarithm of this block's slowness: machine, process start, place in the pair.
    fn environment(&mut self, position: u32) -> f64 {
        let trend = self.slope * (self.block_index / self.blocks - 0.5);
        let rhythm = self.rhythm.at(self.block_index);
        self.block_index += 1.0;
        self.drift = 0.7 * self.drift + 0.05 * (1.0f64 - 0.49).sqrt() * normal(&mut self.rng);
        let place = self.position * f64::from(position);
        self.drift + trend + rhythm + 0.03 * normal(&mut self.rng) + place
    }

    /// Of each endpoint its samples and what the monitor counted; and how long all requests took.
    fn measured(
        &mut self,
        position: u32,
        after: bool,
        requests: u64,
        endpoints: &[EndpointSpec],
    ) -> (
        BTreeMap<String, EndpointSamples>,
        BTreeMap<String, MonitorEndpoint>,
        f64,
    ) {
        let environment = self.environment(position);
        let mut samples = BTreeMap::new();
        let mut monitored = BTreeMap::new();
        let mut busy_us = 0.0;
        for (index, spec) in endpoints.iter().enumerate() {
            let shape = self.shapes[index].filter(|_| after);
            let ratio = if after && shape.is_none() {
                spec.ratio
            } else {
                1.0
            };
            let middle = (spec.p50_ms * 1_000.0 * ratio).ln() + environment;
            let (of_it, sum_us) = if self.is_complete {
                self.endpoint(spec, shape, after, requests, middle)
            } else {
                self.times(spec, shape, requests, middle)
            };
            busy_us += sum_us;
            let counted = self.monitored(spec, after, requests, sum_us);
            monitored.insert(spec.name.clone(), counted);
            samples.insert(spec.name.clone(), of_it);
        }
        (samples, monitored, busy_us)
    }

    fn block(
        &mut self,
        pair: u32,
        position: u32,
        after: bool,
        requests: u64,
        endpoints: &[EndpointSpec],
        clock_ns: &mut u64,
    ) -> Block {
        let (samples, monitored, busy_us) = self.measured(position, after, requests, endpoints);
        let wall_ns = (busy_us / 20.0 * 1_000.0) as u64 + 1;
        let started_mono_ns = *clock_ns;
        *clock_ns += wall_ns + 2_000_000_000;
        let errors = errors_of(&samples);
        let offered = requests * endpoints.len() as u64;
        let completed = samples.values().map(|s| s.completed).sum();
        let changed = endpoints.iter().any(|spec| spec.ratio != 1.0);
        let cpu_us = if after && changed { 290 } else { 280 };
        Block {
            arm: if after { "after" } else { "before" }.to_owned(),
            pair,
            position,
            level: 20,
            process_start_id: Some(format!("{pair}-{position}")),
            started_utc: started_utc(pair * 2 + position),
            started_mono_ns,
            wall_ns,
            offered,
            sent: offered,
            completed,
            errors,
            local_faults: BTreeMap::new(),
            generator_lag: self.lag(if self.is_complete { offered } else { 0 }),
            probe: None,
            series: if self.is_complete {
                series(wall_ns, offered, completed, &samples)
            } else {
                Vec::new()
            },
            endpoints: samples,
            monitor: Some(MonitorDelta {
                mode: "full-split".to_owned(),
                endpoints: monitored,
                unattributed_blocked_us: 0,
                loop_lag: None,
                threads: THREADS,
            }),
            service_counters: None,
            process: Some(self.process(offered * cpu_us)),
            watch: None,
            open: None,
            generator_busy_share: Some(0.2),
            generator_cpu_us: offered * 12,
            stalls: None,
            steal_share: Some(0.001),
            cpu_pressure_share: None,
            validity: BlockValidity {
                ok: true,
                reasons: Vec::new(),
            },
        }
    }

    /// Samples of one endpoint, and the sum of its response times in µs.
    fn endpoint(
        &mut self,
        spec: &EndpointSpec,
        shape: Option<PercentileRatios>,
        after: bool,
        requests: u64,
        middle: f64,
    ) -> (EndpointSamples, f64) {
        let error_share = if after {
            spec.errors_after
        } else {
            spec.errors_before
        };
        let middle = middle + 0.015 * normal(&mut self.rng);
        let mut samples = EndpointSamples::default();
        let mut sum_us = 0.0;
        let mut noise = RequestNoise::new(spec.spread, normal(&mut self.rng), requests);
        for _ in 0..requests {
            // In the order in which published records were drawn.
            let shared = normal(&mut self.rng);
            let begins_burst = self.rng.random_bool(noise.burst_share);
            let noise = noise.step(shared, begins_burst, normal(&mut self.rng));
            let shaped = shape.map_or(0.0, |shape| shape.at(noise));
            let response_us = (middle + noise + shaped).exp();
            sum_us += response_us;
            if self.rng.random_bool(error_share.clamp(0.0, 1.0)) {
                *samples.errors.entry(ErrorKind::Status).or_insert(0) += 1;
                samples.failed.record_us(500);
                continue;
            }
            samples.completed += 1;
            samples.response.record_us(response_us as u64);
            samples.service.record_us((response_us * 0.97) as u64);
            samples.queue.record_us((response_us * 0.01) as u64);
            samples.body_bytes += 256;
        }
        let EndpointSamples {
            response,
            service,
            queue,
            failed,
            ..
        } = &mut samples;
        for histogram in [response, service, queue, failed] {
            histogram.compact();
        }
        (samples, sum_us)
    }

    fn monitored(
        &mut self,
        spec: &EndpointSpec,
        after: bool,
        requests: u64,
        sum_us: f64,
    ) -> MonitorEndpoint {
        let per_1000_ms = if after {
            spec.blocked_after_ms
        } else {
            spec.blocked_before_ms
        };
        let jitter = (0.05 * normal(&mut self.rng)).exp();
        let blocked_us = per_1000_ms * requests as f64 * jitter;
        let cpu_us = requests as f64 * 90.0 * (0.02 * normal(&mut self.rng)).exp();
        let polls = requests * 3;
        MonitorEndpoint {
            requests,
            polls,
            hold_us_sum: (cpu_us + blocked_us + sum_us * 0.001) as u64,
            hold_us_max: (1_500.0 + blocked_us / requests.max(1) as f64 * 4.0) as u64,
            holds_over_100ms: 0,
            cpu_us: cpu_us as u64,
            runqueue_us: (sum_us * 0.001) as u64,
            blocked_us: BlockedTime {
                slept: blocked_us as u64,
                fault: 0,
            },
            blocks_over_200us: if per_1000_ms > 200.0 { requests } else { 0 },
            blocked_us_max: (blocked_us / requests.max(1) as f64 * 4.0) as u64,
        }
    }

    fn process(&mut self, cpu_us: u64) -> ProcessUse {
        ProcessUse {
            cpu_us: cpu_us + (normal(&mut self.rng).abs() * 3_000.0) as u64,
            rss_kib_max: 24_000 + (normal(&mut self.rng).abs() * 400.0) as u64,
            threads_max: THREADS.workers + THREADS.pool + THREADS.other,
        }
    }

    fn lag(&mut self, requests: u64) -> LatencyHistogram {
        let mut lag = LatencyHistogram::new();
        for _ in 0..requests {
            lag.record_us((30.0 * normal(&mut self.rng).abs()) as u64);
        }
        lag.compact();
        lag
    }
}

fn errors_of(samples: &BTreeMap<String, EndpointSamples>) -> BTreeMap<ErrorKind, u64> {
    let mut errors = BTreeMap::new();
    for (kind, count) in samples.values().flat_map(|samples| &samples.errors) {
        *errors.entry(*kind).or_insert(0) += count;
    }
    errors
}

/// Blocks begin 5 s apart.
fn started_utc(index: u32) -> String {
    let (minute, second) = (index / 12 % 60, index % 12 * 5);
    format!("2026-01-01T00:{minute:02}:{second:02}Z")
}

/// One per second, as if the load had been even.
fn series(
    wall_ns: u64,
    offered: u64,
    completed: u64,
    samples: &BTreeMap<String, EndpointSamples>,
) -> Vec<Second> {
    let all = LatencyHistogram::sum(samples.values().map(|s| &s.response));
    let seconds = wall_ns / 1_000_000_000 + 1;
    let share = |total: u64, second: u64| {
        let upto = |second| total * second / seconds;
        upto(second + 1) - upto(second)
    };
    (0..seconds)
        .map(|second| Second {
            second: second as u32,
            offered: share(offered, second),
            sent: share(offered, second),
            completed: share(completed, second),
            errors: share(offered, second) - share(completed, second),
            p50_us: all.quantile_us(0.5),
            p95_us: all.quantile_us(0.95),
            max_us: all.max_us(),
        })
        .collect()
}
