//! Services that are slow, silent or gone: a block ends when it has to, with what there is, and
//! sends nothing twice.

use std::time::{Duration, Instant};

use unstall_bench_harness::engine::{BlockSpec, Ended};
use unstall_results::record::ErrorKind::{self, Reset, Timeout};
use unstall_testbed::{Behaviour, right_answer};

use super::case::{Case, Check, Group, Tried};
use super::exchange::{Exchange, counted_once, left_open};
use super::load::{ENDPOINT, OVERHEAD_MS, cold, kinds, lasting, measure, scenario, start};

const GROUP: Group = Group::Times;

pub(super) fn cases() -> Vec<Case> {
    let own = |name, stands_for, trial| Case::own(GROUP, name, stands_for, trial);
    let mut cases = slow();
    cases.extend([
        own("deadline", "hatoo/oha#603, hatoo/oha#835", deadline),
        own("stalled-for-ever", "Hyperfoil/Hyperfoil#637", stalled),
        own("dies", "Hyperfoil/Hyperfoil#626", dies),
        own(
            "closed-while-idle",
            "giltene/wrk2#33, wg/wrk#289",
            closed_while_idle,
        ),
    ]);
    cases
}

fn slow() -> Vec<Case> {
    let bytes = right_answer().len() as u64;
    let timeout = |path: &str| Exchange::wrong(path, &[Timeout]);
    let slowloris = "slowloris: RFC 9112 §9.5";
    vec![
        Exchange::right("/slowly/2")
            .counts(4, 4, &[])
            .body_bytes(15)
            .response_us_min(2_000 * bytes)
            .case(GROUP, "slowly-in-time", slowloris),
        timeout("/slowly/20").case(GROUP, "slowly-too-late", slowloris),
        Exchange::right("/slow/200")
            .counts(4, 8, &[])
            .body_bytes(15)
            .response_us_min(200_000)
            .case(GROUP, "slow-in-time", "hatoo/oha#603"),
        timeout("/slow/2000").case(GROUP, "slow-too-late", "hatoo/oha#603"),
        timeout("/slow-body/5000").case(GROUP, "slow-body-too-late", "hatoo/oha#835"),
        timeout("/hang").case(GROUP, "hang", "Hyperfoil/Hyperfoil#637"),
        timeout("/hang-in-body").case(GROUP, "hang-in-body", "Hyperfoil/Hyperfoil#637"),
    ]
}

/// Answers that would come long after the end: the block ends with the grace, and what is out is
/// censored at its age.
fn deadline() -> Tried {
    const USERS: u32 = 3;
    let spec = lasting(
        USERS,
        Duration::from_millis(500),
        Duration::from_millis(200),
    );
    let server = start(Behaviour::Paths)?;
    let scenario = scenario("GET", "/slow/30000", "timeout = \"60s\"");
    let begun = Instant::now();
    let block = measure(&scenario, &server.url(), &spec)?;
    let took_ms = begun.elapsed().as_millis();
    let in_flight = &block.endpoints[ENDPOINT].in_flight;
    let youngest_us = in_flight.quantile_us(0.0).unwrap_or(0);
    let mut checks = vec![
        Check::same("offered", u64::from(USERS), block.offered),
        Check::same("in flight at the end", u64::from(USERS), in_flight.count()),
        Check::same("completed", 0, block.completed),
        Check::same("errors", "none".to_owned(), kinds(&block.errors)),
        // From the barrier, which all of them were intended at.
        Check::at_least("youngest in flight, µs", 700_000, youngest_us),
        Check::unless_busy("the block, ms", 700 + OVERHEAD_MS, took_ms),
    ];
    checks.extend(counted_once(&block, &spec));
    Ok(checks)
}

/// A service that accepts and says nothing, under far more requests than it will ever answer.
fn stalled() -> Tried {
    const USERS: u32 = 5;
    let spec = BlockSpec {
        patience: Duration::from_millis(500),
        ..cold(USERS, 1_000_000)
    };
    let server = start(Behaviour::Silent)?;
    let scenario = scenario("GET", "/ok", "timeout = \"150ms\"");
    let begun = Instant::now();
    let block = measure(&scenario, &server.url(), &spec)?;
    let took_ms = begun.elapsed().as_millis();
    let failed = |kind: ErrorKind| block.errors.get(&kind).copied().unwrap_or(0);
    let mut checks = vec![
        Check::holds(
            "given up",
            block.ended == Ended::ServiceGone,
            format!("{:?}", block.ended),
        ),
        Check::same("completed", 0, block.completed),
        Check::at_least("timeouts", 20, failed(Timeout)),
        Check::same("kinds of errors", 1, block.errors.len()),
        Check::unless_busy("the block, ms", OVERHEAD_MS, took_ms),
        Check::same(
            "connections left open",
            0,
            left_open(|| server.connections_open().0),
        ),
    ];
    checks.extend(counted_once(&block, &spec));
    Ok(checks)
}

/// A service that dies under load: what it has answered stays, the rest is named, and the block
/// ends.
fn dies() -> Tried {
    const ANSWERS: u64 = 50;
    let spec = BlockSpec {
        patience: Duration::from_millis(300),
        ..cold(5, 1_000_000)
    };
    let server = start(Behaviour::DiesAfter(ANSWERS))?;
    let block = measure(&scenario("GET", "/ok", ""), &server.url(), &spec)?;
    let mut checks = vec![
        Check::holds(
            "given up",
            block.ended == Ended::ServiceGone,
            format!("{:?}", block.ended),
        ),
        Check::same("completed", ANSWERS, block.completed),
        Check::at_least(
            "connections refused",
            15,
            block.errors.get(&ErrorKind::Connect).copied().unwrap_or(0),
        ),
        // Most is refused, and a user that is refused waits a little longer each time.
        Check::at_most("offered", 10_000, block.offered),
    ];
    checks.extend(counted_once(&block, &spec));
    Ok(checks)
}

/// A service that closes each connection after its answer, without having said so, while the user
/// thinks: no request is multiplied, and no closed connection is kept.
fn closed_while_idle() -> Tried {
    const USERS: u32 = 4;
    const REQUESTS: u64 = 40;
    let spec = cold(USERS, REQUESTS);
    let server = start(Behaviour::Paths)?;
    let scenario = scenario("GET", "/close-after", "think = \"30ms\"");
    let block = measure(&scenario, &server.url(), &spec)?;
    // Who is sent in the very moment of the end, on a busy machine, is lost and not repeated.
    let lost = block.errors.get(&Reset).copied().unwrap_or(0);
    let (_, open_max) = server.connections_open();
    let mut checks = vec![
        Check::same("completed or lost", REQUESTS, block.completed + lost),
        Check::same("offered", REQUESTS, block.offered),
        Check::same("requests at the server", block.completed, server.requests()),
        Check::same("connections", block.completed, server.connections()),
        Check::at_most("connections at once", u64::from(2 * USERS), open_max),
        Check::same(
            "connections left open",
            0,
            left_open(|| server.connections_open().0),
        ),
    ];
    checks.extend(counted_once(&block, &spec));
    Ok(checks)
}
