//! An open load in a synthetic record, kept up with or not.

use crate::level::{Level, OPEN};
use crate::record::{Block, OpenBlock, OpenLoad, OpenStage, RunRecord};

/// Seconds of load in each block.
const SECONDS: u64 = 10;
/// Least backlog of a version that keeps up.
const BACKLOG: u64 = 2;
/// Of what arrives, a saturated version serves this many in a hundred.
const SERVED_PERCENT: u64 = 70;

/// Makes the record that of an open load at one rate. `saturated` says for the version before and
/// the one after whether it can't keep up.
pub fn add_open(record: &mut RunRecord, rate_per_second: u64, saturated: [bool; 2]) {
    let level = Level::of_rate(rate_per_second as f64).key();
    OPEN.clone_into(&mut record.load.model);
    record.load.levels = vec![level];
    record.load.open = Some(OpenLoad {
        arrivals: "poisson".to_owned(),
        stages: vec![OpenStage {
            rate_per_second: Some(rate_per_second as f64),
            duration_ms: SECONDS * 1_000,
        }],
        in_flight_max: 1_000,
    });
    for block in &mut record.blocks {
        let is_saturated = saturated[usize::from(block.arm == "after")];
        block.level = level;
        block.open = Some(open_block(block, rate_per_second, is_saturated));
    }
}

fn open_block(block: &Block, rate_per_second: u64, is_saturated: bool) -> OpenBlock {
    let arrivals = rate_per_second * SECONDS;
    let behind = |seconds: f64| {
        let share = (100 - SERVED_PERCENT) as f64 / 100.0;
        (rate_per_second as f64 * share * seconds) as u64 + u64::from(block.pair)
    };
    let (third, fourth, ended) = if is_saturated {
        (behind(5.0), behind(7.5), arrivals * SERVED_PERCENT / 100)
    } else {
        (BACKLOG, BACKLOG, arrivals - BACKLOG)
    };
    OpenBlock {
        arrivals,
        begun: arrivals,
        ended_in_time: ended,
        duration_ms: SECONDS * 1_000,
        in_flight_max: 1_000,
        in_flight_most: fourth + 10,
        queued_at_end: 0,
        backlog_least_third_quarter: third,
        backlog_least_fourth_quarter: fourth,
        arrivals_fourth_quarter: arrivals / 4,
    }
}
