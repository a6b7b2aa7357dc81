//! Ends that come early: by time, by one stop, by two.

use std::sync::Arc;
use std::time::{Duration, Instant};

use unstall_bench_harness::engine::{
    BlockMeasurement, BlockSpec, Ended, EngineError, Phase, Progress, Stop, run_block,
};
use unstall_results::record::ErrorKind;
use unstall_testbed::{Behaviour, FaultyServer};

use crate::support::{cold, get, lasting, parse, plan, run, target};

/// Runs a block and calls `stop` as soon as the server has seen `requests`.
fn stopped(path: &str, spec: &BlockSpec, requests: u64, stops: u32) -> BlockMeasurement {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let stop = Stop::new();
    let progress = Arc::new(Progress::new());
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while server.requests() < requests {
                std::thread::sleep(Duration::from_millis(5));
            }
            for _ in 0..stops {
                stop.request();
            }
        });
        let block = run_block(&get(path), &target(&server.url()), spec, &stop, &progress)
            .expect("the block can be measured");
        assert_eq!(progress.look().phase, Phase::Done);
        block
    })
}

#[test]
fn one_stop_lets_answers_arrive() {
    let block = stopped("/slow/200", &cold(4, 100_000), 4, 1);
    assert_eq!(block.ended, Ended::Stopped);
    assert!(block.completed >= 4, "what was out came back");
    assert_eq!(block.offered, block.completed);
    assert_eq!(block.endpoints["it"].in_flight.count(), 0);
}

#[test]
fn what_does_not_arrive_within_the_grace_is_censored() {
    let spec = BlockSpec {
        grace: Duration::from_millis(100),
        ..cold(4, 100_000)
    };
    let block = stopped("/hang", &spec, 4, 1);
    assert_eq!(block.ended, Ended::Stopped);
    assert_eq!((block.offered, block.sent, block.completed), (4, 4, 0));
    let samples = &block.endpoints["it"];
    assert_eq!(samples.in_flight.count(), 4);
    assert!(
        samples
            .in_flight
            .quantile_us(0.0)
            .is_some_and(|age_us| age_us >= 100_000)
    );
    assert_eq!(samples.failed.count(), 0);
    assert!(
        block.wall >= spec.grace,
        "waiting in vain is part of the block: {:?}",
        block.wall
    );
}

#[test]
fn two_stops_wait_for_nothing() {
    let spec = BlockSpec {
        grace: Duration::from_secs(600),
        ..cold(4, 100_000)
    };
    let block = stopped("/hang", &spec, 4, 2);
    assert_eq!(block.endpoints["it"].in_flight.count(), 4);
}

#[test]
fn a_stop_during_warm_up_measures_nothing_and_ends() {
    let mut spec = cold(3, 100);
    spec.warmup.lasting_at_least = Duration::from_secs(600);
    let block = stopped("/ok", &spec, 20, 1);
    assert_eq!(block.ended, Ended::Stopped);
    assert_eq!(block.offered, 0);
}

#[test]
fn a_stop_during_setup_waits_for_no_answer() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let setup = "[[setup]]\nmethod = \"GET\"\npath = \"/hang\"\ntimeout = \"1h\"\n";
    let plan = plan(&[("it", "GET", "/ok")], setup);
    let stop = Stop::new();
    let error = std::thread::scope(|threads| {
        threads.spawn(|| {
            while server.requests() < 1 {
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.request();
        });
        let target = target(&server.url());
        run_block(&plan, &target, &cold(2, 10), &stop, &Arc::default())
            .expect_err("there is nothing to measure")
    });
    assert!(matches!(error, EngineError::Stopped), "{error}");
}

#[test]
fn time_ends_a_block_with_the_grace_and_not_later() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let spec = BlockSpec {
        grace: Duration::from_millis(200),
        ..lasting(3, Duration::from_millis(300))
    };
    let begun = Instant::now();
    let block = run(&get("/slow/20000"), &server.url(), &spec);
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "it waited for the answers"
    );
    assert_eq!(block.ended, Ended::Complete);
    assert_eq!((block.offered, block.completed), (3, 0));
    assert_eq!(block.endpoints["it"].in_flight.count(), 3);

    let block = run(&get("/ok"), &server.url(), &spec);
    assert!(block.completed > 3);
    assert_eq!(block.completed, block.offered);
}

#[test]
fn requests_that_are_never_sent_do_not_keep_a_block_from_ending() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let scenario = parse(
        "name = \"test\"\ndescribe = \"test\"\nvars = { bad = \"one\\ntwo\" }\n\
         [[request]]\nname = \"it\"\nmethod = \"GET\"\npath = \"/ok\"\n\
         headers = { x-bad = \"${bad}\" }\n",
    );
    let spec = lasting(2, Duration::from_millis(300));
    let block = run(&scenario, &server.url(), &spec);
    assert_eq!((block.sent, block.completed), (0, 0));
    assert_eq!(block.errors[&ErrorKind::CheckFailed], block.offered);
    // Twice 1, 2, 4 … 100 ms of pauses, and not as many as a core can count.
    assert!(block.offered < 100, "{}", block.offered);
}
