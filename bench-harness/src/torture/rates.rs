//! Arrivals at their own times: as many as the rate says, whatever the service does, and never more.

use std::time::{Duration, Instant};

use unstall_bench_harness::engine::{BlockMeasurement, BlockSpec, OpenLoad};
use unstall_testbed::Behaviour;

use super::case::{Case, Check, Group, Tried, Trouble};
use super::exchange::{counted_once, left_open};
use super::load::{OVERHEAD_MS, measure, open, scenario, start};

const GROUP: Group = Group::Rates;

pub(super) fn cases() -> Vec<Case> {
    let own = |name, stands_for, trial| Case::own(GROUP, name, stands_for, trial);
    vec![
        own("rate-beyond-capacity", "giltene/wrk2#138", beyond_capacity),
        own("rate-of-one", "giltene/wrk2#147", of_one),
        own("rate-at-a-stall", "Hyperfoil/Hyperfoil#637", at_a_stall),
        own(
            "rate-at-a-dead-service",
            "giltene/wrk2#33",
            at_a_dead_service,
        ),
    ]
}

/// Arrivals, and those of them that were neither begun nor are left.
fn arrivals(block: &BlockMeasurement) -> Result<(u64, u64, u64), Trouble> {
    let open = block.open.as_ref();
    let open = open.ok_or_else(|| Trouble::Broken("the block was not an open one".to_owned()))?;
    Ok((open.arrivals, open.begun, open.queued_at_end))
}

/// Ten times the rate that the service can serve: throughput is what was answered in the time that
/// it took, and nobody waits for those that never got a turn.
fn beyond_capacity() -> Tried {
    const RATE: f64 = 2_000.0;
    const SLOTS: u32 = 4;
    const ANSWER_MS: u128 = 20;
    let load = OpenLoad {
        in_flight_max: SLOTS,
        ..OpenLoad::constant(RATE, Duration::from_secs(1))
    };
    let spec = BlockSpec {
        grace: Duration::from_millis(200),
        ..open(load)
    };
    let server = start(Behaviour::Paths)?;
    let scenario = scenario("GET", "/slow/20", "timeout = \"30s\"");
    let begun = Instant::now();
    let block = measure(&scenario, &server.url(), &spec)?;
    let took_ms = begun.elapsed().as_millis();
    let (arrivals, served, queued) = arrivals(&block)?;
    // Each answer holds one of the slots for as long as the server says.
    let possible = (block.wall.as_millis() / ANSWER_MS + 1) * u128::from(SLOTS);
    let mut checks = vec![
        Check::same("arrivals", 2_000, arrivals),
        Check::same("served or waiting at the end", arrivals, served + queued),
        Check::at_most(
            "completed, by the server's pace",
            possible,
            u128::from(block.completed),
        ),
        Check::at_least("completed", 1, block.completed),
        Check::same("requests at the server", block.sent, server.requests()),
        Check::at_most("connections", u64::from(SLOTS), server.connections()),
        Check::at_least("the block, ms", 1_000, block.wall.as_millis()),
        Check::unless_busy("the block, ms", 1_200 + OVERHEAD_MS, took_ms),
    ];
    checks.extend(counted_once(&block, &spec));
    Ok(checks)
}

/// One arrival a second, from eight threads.
fn of_one() -> Tried {
    let spec = BlockSpec {
        threads: Some(8),
        ..open(OpenLoad::constant(1.0, Duration::from_secs(3)))
    };
    let server = start(Behaviour::Paths)?;
    let block = measure(&scenario("GET", "/ok", ""), &server.url(), &spec)?;
    let (arrivals, served, _) = arrivals(&block)?;
    let mut checks = vec![
        Check::same("arrivals", 3, arrivals),
        Check::same("served", 3, served),
        Check::same("completed", 3, block.completed),
        Check::same("requests at the server", 3, server.requests()),
    ];
    checks.extend(counted_once(&block, &spec));
    Ok(checks)
}

/// A huge rate at a service that says nothing: the block ends with its schedule and the grace, and
/// every arrival is in its counts.
fn at_a_stall() -> Tried {
    const RATE: f64 = 20_000.0;
    let load = OpenLoad {
        in_flight_max: 50,
        ..OpenLoad::constant(RATE, Duration::from_millis(500))
    };
    let spec = BlockSpec {
        grace: Duration::from_millis(200),
        patience: Duration::from_secs(60),
        ..open(load)
    };
    let server = start(Behaviour::Silent)?;
    let scenario = scenario("GET", "/ok", "timeout = \"30s\"");
    let begun = Instant::now();
    let block = measure(&scenario, &server.url(), &spec)?;
    let took_ms = begun.elapsed().as_millis();
    let (arrivals, served, queued) = arrivals(&block)?;
    let mut checks = vec![
        Check::same("arrivals", 10_000, arrivals),
        Check::same("served or waiting at the end", arrivals, served + queued),
        Check::same("served", 50, served),
        Check::same("completed", 0, block.completed),
        Check::unless_busy("the block, ms", 700 + OVERHEAD_MS, took_ms),
        Check::same(
            "connections left open",
            0,
            left_open(|| server.connections_open().0),
        ),
    ];
    checks.extend(counted_once(&block, &spec));
    Ok(checks)
}

/// Nobody listens: what is refused is an error each, once, and no arrival is tried again.
fn at_a_dead_service() -> Tried {
    let load = OpenLoad::constant(200.0, Duration::from_secs(1));
    let spec = BlockSpec {
        patience: Duration::from_secs(60),
        ..open(load)
    };
    let server = start(Behaviour::Refuse)?;
    let block = measure(&scenario("GET", "/ok", ""), &server.url(), &spec)?;
    let (arrivals, served, queued) = arrivals(&block)?;
    let refused = block.errors.values().sum::<u64>();
    let mut checks = vec![
        Check::same("arrivals", 200, arrivals),
        Check::same("served or waiting at the end", arrivals, served + queued),
        Check::same("refused", served, refused),
        Check::same("sent", 0, block.sent),
    ];
    checks.extend(counted_once(&block, &spec));
    Ok(checks)
}
