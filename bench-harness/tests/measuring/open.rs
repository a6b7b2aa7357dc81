//! The open model: arrivals at their own times, honest about what waited, whatever the service does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use unstall_bench_harness::block::{BlockPlace, Service, measure};
use unstall_bench_harness::engine::{
    BlockMeasurement, BlockSpec, Ended, LoadModel, OpenLoad, Progress, Stop, Warmup, run_block,
};
use unstall_results::record::{ErrorKind, OpenBlock};
use unstall_results::saturation::is_saturated;
use unstall_scenarios::scope::Scope;
use unstall_testbed::{Behaviour, ExactDelay, FaultyServer};

use crate::support::{get, open, parse, plan, run, target};

fn counts(block: &BlockMeasurement) -> &OpenBlock {
    block.open.as_ref().expect("an open load")
}

fn in_flight(block: &BlockMeasurement) -> u64 {
    let samples = block.endpoints.values();
    samples.map(|samples| samples.in_flight.count()).sum()
}

/// wrk2#147: a low rate isn't overshot, and the block lasts as long as it was asked to.
#[test]
fn one_arrival_per_second_is_one_per_second() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let mut spec = open(OpenLoad::constant(1.0, Duration::from_secs(2)));
    spec.threads = Some(8);
    let block = run(&get("/ok"), &server.url(), &spec);
    assert_eq!(
        (block.offered, block.completed, server.requests()),
        (2, 2, 2)
    );
    assert_eq!(block.ended, Ended::Complete);
    assert!(block.wall >= Duration::from_secs(2), "{:?}", block.wall);
    let counts = counts(&block);
    assert_eq!(
        (counts.arrivals, counts.begun, counts.ended_in_time),
        (2, 2, 2)
    );
    assert_eq!((counts.duration_ms, counts.in_flight_max), (2_000, 1_000));
}

#[test]
fn every_arrival_is_one_pass_through_the_scenario() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let scenario = plan(&[("first", "GET", "/ok"), ("second", "GET", "/ok")], "");
    for arrivals in [
        OpenLoad::constant(100.0, Duration::from_millis(500)),
        OpenLoad::poisson(100.0, Duration::from_millis(500)),
    ] {
        let mut spec = open(arrivals);
        spec.threads = Some(3);
        let block = run(&scenario, &server.url(), &spec);
        assert_eq!(counts(&block).arrivals, 50);
        assert_eq!((block.offered, block.completed), (100, 100));
        for name in ["first", "second"] {
            assert_eq!(block.endpoints[name].completed, 50);
        }
        let offered: u64 = block.series.iter().map(|second| second.offered).sum();
        assert_eq!(offered, 100);
        assert_eq!(block.generator_lag.count(), 100);
    }
}

/// Arrivals come whatever the answers do: with answers of 300 ms and one every 10 ms, some thirty
/// are on their way at once, and as many connections.
#[test]
fn a_slow_service_does_not_hold_back_arrivals() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let spec = open(OpenLoad::constant(100.0, Duration::from_millis(500)));
    let block = run(&get("/slow/300"), &server.url(), &spec);
    assert_eq!((block.offered, block.completed), (50, 50));
    let counts = counts(&block);
    // When the thirtieth arrives, no answer can have come, however late this side is.
    assert!(counts.in_flight_most >= 29, "{counts:?}");
    assert_eq!(counts.queued_at_end, 0);
    assert_eq!(block.endpoints["it"].queue.count(), 50);
}

/// A free connection is used again before another one is opened.
#[test]
fn few_connections_serve_a_fast_service() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let spec = open(OpenLoad::constant(20.0, Duration::from_secs(1)));
    let block = run(&get("/ok"), &server.url(), &spec);
    assert_eq!(block.completed, 20);
    // As many as were ever busy at the same time, which on a busy machine may be some.
    assert!(server.connections() <= counts(&block).in_flight_most);
}

/// Beyond the cap an arrival waits, keeps its time, and its wait is the service's.
#[test]
fn who_waits_for_a_user_keeps_the_moment_at_which_it_was_due() {
    let server = ExactDelay::start().expect("a server starts");
    let mut spec = open(OpenLoad {
        in_flight_max: 1,
        ..OpenLoad::constant(50.0, Duration::from_millis(200))
    });
    spec.grace = Duration::from_secs(5);
    // 10 arrivals, one every 20 ms, to one user of 50 ms: the last waits for nine others.
    let block = run(&get("/delay/50"), &server.url(), &spec);
    assert_eq!((block.offered, block.completed), (10, 10));
    let counts = counts(&block);
    assert_eq!((counts.in_flight_most, counts.queued_at_end), (1, 0));
    let samples = &block.endpoints["it"];
    let longest_us = samples.response.max_us().expect("answers");
    // 10 × 50 ms after the first arrival, of which 9 × 20 ms were before its own.
    assert!(longest_us >= 320_000, "{longest_us}");
    let queue_us = samples.queue.max_us().expect("answers");
    assert!(queue_us >= 270_000, "{queue_us}");
    assert!(samples.service.max_us() < samples.response.max_us());
    assert_eq!(block.generator_lag.count(), 10);
    // The wait is not our lateness.
    assert!(block.generator_lag.max_us() < Some(queue_us));
}

/// wrk2#138, Hyperfoil#637 and #626: a rate far above what can be done ends on time, with
/// throughput over wall time, and everything that came is accounted for.
#[test]
fn a_rate_far_above_capacity_ends_with_every_arrival_accounted_for() {
    let server = ExactDelay::start().expect("a server starts");
    let mut spec = open(OpenLoad {
        in_flight_max: 4,
        ..OpenLoad::constant(20_000.0, Duration::from_secs(1))
    });
    spec.grace = Duration::from_millis(100);
    let begun = Instant::now();
    let block = run(&get("/delay/20"), &server.url(), &spec);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    let counts = counts(&block);
    assert_eq!((counts.arrivals, block.offered), (20_000, 20_000));
    assert_eq!(block.completed + in_flight(&block), 20_000);
    assert_eq!(counts.begun + counts.queued_at_end, 20_000);
    // 4 users of 20 ms each can't have made more than 200 per second.
    let per_second = block.completed as f64 / block.wall.as_secs_f64();
    assert!(per_second <= 201.0, "{per_second}");
    assert!(block.wall >= Duration::from_secs(1));
    assert!(is_saturated(counts), "{counts:?}");
}

/// A stalled service: the block ends at its time and the grace, what is out is censored.
#[test]
fn a_service_that_stalls_does_not_hold_the_block() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let mut spec = open(OpenLoad::constant(200.0, Duration::from_millis(500)));
    spec.grace = Duration::from_millis(100);
    let begun = Instant::now();
    let block = run(&get("/slow/20000"), &server.url(), &spec);
    assert!(begun.elapsed() < Duration::from_secs(15));
    assert_eq!(
        (block.offered, block.completed, in_flight(&block)),
        (100, 0, 100)
    );
    assert_eq!(block.ended, Ended::Complete);
    assert!(is_saturated(counts(&block)));
}

/// Whoever never got a user is counted for the request that it would have sent, with that one's
/// timeout.
#[test]
fn who_never_got_a_user_is_counted_where_it_belongs() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let scenario = parse(
        "name = \"test\"\ndescribe = \"test\"\n\
         [[request]]\nname = \"rare\"\nweight = 1\nmethod = \"GET\"\npath = \"/hang\"\ntimeout = \"60s\"\n\
         [[request]]\nname = \"often\"\nweight = 9\nmethod = \"GET\"\npath = \"/hang\"\ntimeout = \"60s\"\n\
         [[request]]\nname = \"last\"\nmethod = \"GET\"\npath = \"/ok\"\n",
    );
    let mut spec = open(OpenLoad {
        in_flight_max: 2,
        ..OpenLoad::constant(400.0, Duration::from_millis(500))
    });
    spec.grace = Duration::from_millis(50);
    spec.threads = Some(2);
    let block = run(&scenario, &server.url(), &spec);
    let mut scope = Scope::new(Arc::clone(&scenario), 0, 2, spec.seed);
    let rare = (0..200).filter(|arrival| {
        scope.begin_arrival(*arrival);
        scope.takes(0)
    });
    let rare = rare.count() as u64;
    assert!((1..=60).contains(&rare), "{rare}");
    let in_flight = |name: &str| block.endpoints[name].in_flight.count();
    assert_eq!(
        (in_flight("rare"), in_flight("often"), in_flight("last")),
        (rare, 200 - rare, 0)
    );
    assert_eq!(counts(&block).queued_at_end, 198);
}

/// A thread's arrivals are served by its own users: where others are free meanwhile, the wait is
/// the generator's, and spoils the block.
#[test]
fn arrivals_that_wait_while_users_are_free_elsewhere_spoil_the_block() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let load = OpenLoad {
        in_flight_max: 2,
        ..OpenLoad::constant(20.0, Duration::from_secs(1))
    };
    // Every other arrival, and so all those of one thread, meets a slow answer.
    let plan = get("/every/2/slow/400");
    let missed = |threads| {
        let spec = BlockSpec {
            threads: Some(threads),
            grace: Duration::from_secs(10),
            ..open(load.clone())
        };
        let place = BlockPlace {
            arm: "run".to_owned(),
            pair: 0,
            position: 0,
        };
        let (stop, progress) = (Stop::new(), Arc::new(Progress::new()));
        let target = target(&server.url());
        let service = Service::Running(&target);
        let measured = measure(&plan, service, &place, &spec, &stop, &progress);
        let validity = measured.expect("the block can be measured").block.validity;
        let is_missed = |why: &String| why.contains("free at another");
        (validity.ok, validity.reasons.iter().any(is_missed))
    };
    assert_eq!(missed(2), (false, true));
    assert!(!missed(1).1);
}

/// What waited for longer than its timeout has failed, and is never sent.
#[test]
fn who_waits_longer_than_the_timeout_has_failed() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let scenario = plan(&[("it", "GET", "/slow/400")], "timeout = \"250ms\"");
    let mut spec = open(OpenLoad {
        in_flight_max: 1,
        // All of them at once: what the first one's timeout leaves behind has had its own.
        ..OpenLoad::constant(1e6, Duration::from_micros(10))
    });
    spec.grace = Duration::from_secs(5);
    let block = run(&scenario, &server.url(), &spec);
    assert_eq!(block.offered, 10);
    let failed = &block.endpoints["it"].failed;
    assert_eq!(failed.count(), 10);
    assert_eq!(block.errors[&ErrorKind::Timeout], 10);
    assert_eq!((block.sent, server.requests()), (1, 1));
}

#[test]
fn a_stop_ends_the_arrivals_and_keeps_what_came() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let spec = open(OpenLoad::constant(100.0, Duration::from_secs(60)));
    let stop = Stop::new();
    let block = std::thread::scope(|threads| {
        threads.spawn(|| {
            while server.requests() < 20 {
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.request();
        });
        let progress = Arc::new(Progress::new());
        run_block(&get("/ok"), &target(&server.url()), &spec, &stop, &progress)
            .expect("the block can be measured")
    });
    assert_eq!(block.ended, Ended::Stopped);
    assert!(block.completed >= 20);
    assert!(counts(&block).arrivals < 6_000);
    assert_eq!(counts(&block).arrivals, block.offered);
    // Only what was due until then is in the length of the schedule.
    assert!(counts(&block).duration_ms < 60_000);
}

#[test]
fn a_dead_service_is_given_up() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let url = server.url();
    drop(server);
    let spec = BlockSpec {
        patience: Duration::from_millis(300),
        ..open(OpenLoad::constant(100.0, Duration::from_secs(60)))
    };
    let begun = Instant::now();
    let block = run(&get("/ok"), &url, &spec);
    assert_eq!(block.ended, Ended::ServiceGone);
    assert_eq!((block.sent, block.completed), (0, 0));
    assert!(begun.elapsed() < Duration::from_secs(30));
}

/// Warm-up and setup are not measured, and every user is set up before the barrier.
#[test]
fn setup_and_warm_up_come_before_the_barrier() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    let scenario = parse(
        "name = \"test\"\ndescribe = \"test\"\n\
         [[setup]]\nper = \"user\"\nmethod = \"GET\"\npath = \"/ok\"\n\
         [[request]]\nname = \"it\"\nmethod = \"GET\"\npath = \"/ok\"\n",
    );
    let load = OpenLoad {
        in_flight_max: 7,
        ..OpenLoad::constant(100.0, Duration::from_millis(200))
    };
    let spec = BlockSpec {
        warmup: Warmup {
            rounds_per_user: 5,
            lasting_at_least: Duration::from_millis(100),
        },
        ..BlockSpec::open(load)
    };
    let block = run(&scenario, &server.url(), &spec);
    assert_eq!((block.offered, block.completed), (20, 20));
    // 7 sign in, 10 arrive in 100 ms of warm-up, 20 are measured.
    assert_eq!(server.requests(), 7 + 10 + 20);
    assert_eq!(counts(&block).arrivals, 20);
}

/// Which rows are sent doesn't depend on which user was free.
#[test]
fn arrivals_choose_the_rows_of_a_feeder() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows: String = (0..1_000).map(|row| format!("/ok?{row}\n")).collect();
    std::fs::write(folder.path().join("rows.csv"), format!("row\n{rows}")).expect("written");
    let file = folder.path().join("test.toml");
    let text = "name = \"test\"\ndescribe = \"test\"\n\
                [vars]\nrow = { file = \"rows.csv\", column = \"row\" }\n\
                [[request]]\nname = \"it\"\nmethod = \"GET\"\npath = \"/ok\"\n\
                query = { row = \"${row}\", iteration = \"${iteration}\" }\n";
    let plan = unstall_scenarios::Plan::parse(text, &file, &unstall_scenarios::Inputs::default())
        .expect("a scenario");
    let plan = Arc::new(plan);
    let asked = |in_flight_max: u32| {
        let mut scope = Scope::new(Arc::clone(&plan), in_flight_max - 1, in_flight_max, 1);
        let paths = (0..5).map(|index| {
            scope.begin_arrival(index);
            let rendered = plan.requests[0].render(&scope).expect("rendered");
            rendered.path_and_query
        });
        paths.collect::<Vec<_>>()
    };
    assert_eq!(asked(1), asked(100));
    assert!(asked(1)[3].contains('3'), "{:?}", asked(1));
}

#[test]
fn what_can_not_be_offered_is_refused_before_anything_is_sent() {
    let server = FaultyServer::start(Behaviour::Paths).expect("a server starts");
    for load in [
        OpenLoad::constant(0.0, Duration::from_secs(1)),
        OpenLoad::constant(0.1, Duration::from_secs(1)),
        OpenLoad {
            stages: Vec::new(),
            ..OpenLoad::constant(1.0, Duration::from_secs(1))
        },
        OpenLoad {
            in_flight_max: 0,
            ..OpenLoad::constant(1.0, Duration::from_secs(1))
        },
    ] {
        let spec = BlockSpec {
            load: LoadModel::Open(load),
            ..BlockSpec::default()
        };
        let refused = crate::support::try_run(&get("/ok"), &server.url(), &spec);
        refused.expect_err("nothing to offer");
    }
    assert_eq!(server.requests(), 0);
}
