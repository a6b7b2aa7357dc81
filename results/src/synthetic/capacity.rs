//! A search for capacity on made-up services.

use super::{EndpointSpec, record as pairs};
use crate::capacity::{PROMISED_PERCENT, Search, Step, read_block};
use crate::level::{self, Level};
use crate::record::{Block, CapacityLoad, OpenBlock, OpenLoad, OpenStage, RunRecord};
use crate::slo::Slo;

/// Seconds of a block.
const SECONDS: u64 = 5;

/// What two services can take, and what is asked of them.
#[derive(Debug, Clone, Copy)]
pub struct CapacitySpec {
    /// Arrivals per second before.
    pub before: f64,
    /// The same after; `None` for a record of one version.
    pub after: Option<f64>,
    /// No rate above this is tried.
    pub highest: f64,
}

/// A finished search with the objective `p95<200ms, errors<1%`, the same for the same seed.
pub fn capacity_record(seed: u64, spec: CapacitySpec) -> RunRecord {
    let slo = "p95<200ms, errors<1%";
    let load = CapacityLoad {
        slo: slo.to_owned(),
        from_per_second: 50.0,
        lowest_per_second: 12.5,
        highest_per_second: spec.highest,
        precision: 0.05,
        blocks_max: 40,
        promised_percent: PROMISED_PERCENT,
    };
    let mut record = pairs(seed, 1, 1, &[EndpointSpec::new("POST message", 10.0)]);
    record.blocks.clear();
    record.step = None;
    record.load.model = level::OPEN.to_owned();
    record.load.levels.clear();
    record.load.pairs = 0;
    record.load.open = Some(OpenLoad {
        arrivals: "poisson".to_owned(),
        stages: vec![OpenStage {
            rate_per_second: None,
            duration_ms: SECONDS * 1_000,
        }],
        in_flight_max: 1_000,
    });
    let mut arms = vec![("before", spec.before)];
    match spec.after {
        Some(after) => arms.push(("after", after)),
        None => {
            arms[0].0 = "run";
            let arm = record.arms.remove("before").expect("both arms are there");
            record.arms = [("run".to_owned(), arm)].into();
        }
    }
    for (arm, capacity) in arms {
        search(&mut record, arm, capacity, &load, seed);
    }
    record.load.capacity = Some(load);
    record
}

fn search(record: &mut RunRecord, arm: &str, capacity: f64, load: &CapacityLoad, seed: u64) {
    let slo = Slo::parse(&load.slo).expect("a constant objective");
    let mut search = Search::new(load.bounds());
    let mut round = 0;
    while let Step::Measure(rate) = search.step() {
        let mut block = block(seed + u64::from(round), rate, capacity);
        arm.clone_into(&mut block.arm);
        block.pair = round;
        block.position = 0;
        round += 1;
        search.learn(read_block(&slo, &block, &record.scenario.endpoints).trial());
        if !record.load.levels.contains(&block.level) {
            record.load.levels.push(block.level);
        }
        record.blocks.push(block);
    }
}

/// Times grow as those of a queue do, and beyond the capacity with what piles up.
fn block(seed: u64, rate: f64, capacity: f64) -> Block {
    let arrivals = (rate * SECONDS as f64).round() as u64;
    let used = rate / capacity;
    let backlog = (rate - capacity).max(0.0) * SECONDS as f64;
    let p50_ms = if used < 1.0 {
        (8.0 / (1.0 - used)).min(95.0)
    } else {
        95.0 + backlog / rate * 500.0
    };
    let spec = EndpointSpec {
        spread: 0.3,
        ..EndpointSpec::new("POST message", p50_ms)
    };
    let mut block = pairs(seed, 1, arrivals, &[spec]).blocks.swap_remove(0);
    let backlog = backlog as u64;
    block.level = Level::of_rate(rate).key();
    block.open = Some(OpenBlock {
        arrivals,
        begun: arrivals,
        ended_in_time: arrivals.saturating_sub(backlog),
        duration_ms: SECONDS * 1_000,
        in_flight_max: 1_000,
        in_flight_most: backlog.min(1_000),
        queued_at_end: 0,
        backlog_least_third_quarter: backlog / 2,
        backlog_least_fourth_quarter: backlog * 3 / 4,
        arrivals_fourth_quarter: arrivals / 4,
    });
    block
}
