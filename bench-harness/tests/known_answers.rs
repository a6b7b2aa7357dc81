//! The engine against a server that knows how long it took: percentiles and counts must agree.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use unstall_bench_harness::engine::{
    Amount, BlockMeasurement, BlockSpec, Progress, Stop, Target, Warmup, run_block,
};
use unstall_results::histogram::LatencyHistogram;
use unstall_scenarios::{Inputs, Plan};
use unstall_testbed::ExactDelay;

/// A busy machine may wake us late; it can't disturb the same percentile in each of this
/// many blocks without the engine being at fault.
const TRIES: u32 = 20;

/// One at a time: two measurements on the same cores disturb each other.
static ALONE: Mutex<()> = Mutex::new(());

fn run(route: &str, url: &str, level: u32, requests: u64) -> BlockMeasurement {
    let text = format!(
        "name = \"test\"\ndescribe = \"test\"\n\
         [[request]]\nname = \"it\"\nmethod = \"GET\"\npath = \"{route}\"\n"
    );
    let plan = Plan::parse(&text, Path::new("test.toml"), &Inputs::default());
    let spec = BlockSpec {
        level,
        amount: Amount::PerEndpoint(requests),
        // The server's truth must hold the measured requests only.
        warmup: Warmup {
            rounds_per_user: 0,
            lasting_at_least: Duration::ZERO,
        },
        ..BlockSpec::default()
    };
    run_block(
        &Arc::new(plan.expect("the scenario is right")),
        &Target::parse(url).expect("a URL"),
        &spec,
        &Stop::new(),
        &Arc::new(Progress::new()),
    )
    .expect("the block can be measured")
}

/// Whether a measured percentile lies within 2 % or 0.3 ms of the server's own; else both.
fn agreement(measured: &LatencyHistogram, truth_ns: &[u64], q: f64) -> Result<(), String> {
    let mut truth = LatencyHistogram::new();
    for &ns in truth_ns {
        truth.record(Duration::from_nanos(ns));
    }
    let (ours, theirs) = (measured.quantile_us(q), truth.quantile_us(q));
    let (Some(ours), Some(theirs)) = (ours, theirs) else {
        return Err(format!("measured {ours:?}, true {theirs:?}"));
    };
    if ours.abs_diff(theirs) <= (theirs / 50).max(300) {
        return Ok(());
    }
    Err(format!(
        "p{}: measured {ours} µs, true {theirs} µs",
        q * 100.0
    ))
}

/// Measures until each percentile has agreed with the truth, of `response` and `service`
/// alike; counts must be exact in every block.
fn agrees(route: &str, level: u32, requests: u64) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let server = ExactDelay::start().expect("a server starts");
    let mut open = vec![0.50, 0.95, 0.99];
    let mut last = Vec::new();
    for _ in 0..TRIES {
        server.reset_truth();
        let block = run(route, &server.url(), level, requests);
        let samples = &block.endpoints["it"];
        let truth = server.truth(route).receive_to_send_ns;
        assert_eq!(truth.len() as u64, requests, "requests that arrived");
        let counts = (block.offered, block.sent, block.completed);
        assert_eq!(counts, (requests, requests, requests));
        assert_eq!(samples.response.count(), requests);
        assert_eq!(samples.service.count(), requests);
        assert!(block.errors.is_empty() && block.local_faults.is_empty());
        last.clear();
        open.retain(|&q| {
            let wrong = agreement(&samples.service, &truth, q)
                .and_then(|()| agreement(&samples.response, &truth, q))
                .err();
            last.extend(wrong.clone());
            wrong.is_some()
        });
        if open.is_empty() {
            return;
        }
    }
    panic!("{route}: no block of {TRIES} agrees with the server; the last: {last:?}");
}

#[test]
fn a_delay_of_1_ms_is_measured_as_such() {
    agrees("/delay/1", 2, 400);
}

#[test]
fn a_delay_of_5_ms_is_measured_as_such() {
    agrees("/delay/5", 3, 400);
}

#[test]
fn a_delay_of_20_ms_is_measured_as_such() {
    agrees("/delay/20", 4, 400);
}

#[test]
fn one_slow_request_in_50_is_seen_in_the_p99_and_only_there() {
    agrees("/one-in/50/200", 2, 400);
}
