//! The engine against a server that does everything wrong: each request counted once, by kind.

use std::collections::BTreeMap;
use std::time::Duration;

use unstall_bench_harness::engine::{BlockSpec, Ended};
use unstall_results::record::ErrorKind;
use unstall_testbed::{Behaviour, FaultyServer};

use crate::support::{cold, parse, plan, run, try_run};

const JSON: &str = "timeout = \"300ms\"\n\
     expect = { status = 200, json = { \"/status\" = \"string\" } }";

fn server() -> FaultyServer {
    FaultyServer::start(Behaviour::Paths).expect("a server starts")
}

/// Every request of a path that is always wrong is an error of this one kind.
#[test]
fn each_fault_has_its_kind() {
    let server = server();
    for (path, kind) in [
        ("/500", ErrorKind::Status),
        ("/404", ErrorKind::Status),
        ("/wrong-shape", ErrorKind::CheckFailed),
        ("/not-json", ErrorKind::Decode),
        ("/rubbish", ErrorKind::Protocol),
        ("/half-head", ErrorKind::Reset),
        ("/close", ErrorKind::Reset),
        ("/reset", ErrorKind::Reset),
        ("/reset-in-body", ErrorKind::Reset),
        ("/truncated", ErrorKind::Reset),
        ("/truncated-chunked", ErrorKind::Reset),
        ("/hang", ErrorKind::Timeout),
        ("/hang-in-body", ErrorKind::Timeout),
        ("/slow/2000", ErrorKind::Timeout),
        ("/slow-body/5000", ErrorKind::Timeout),
    ] {
        let block = run(
            &plan(&[("it", "GET", path)], JSON),
            &server.url(),
            &cold(4, 8),
        );
        let expected = BTreeMap::from([(kind, 8)]);
        assert_eq!(block.errors, expected, "{path}: {:?}", block.examples);
        assert_eq!(
            (block.offered, block.sent, block.completed),
            (8, 8, 0),
            "{path}"
        );
        assert_eq!(block.ended, Ended::Complete, "{path}");
        let samples = &block.endpoints["it"];
        assert_eq!(samples.failed.count(), 8, "{path}");
        assert_eq!(
            samples.response.count(),
            0,
            "{path}: an error is no latency"
        );
        assert_eq!(block.examples.len(), 1, "{path}");
    }
}

/// What HTTP allows is no fault, whatever the method.
#[test]
fn unusual_answers_are_right_answers() {
    let server = server();
    for (method, path, status) in [
        ("GET", "/ok", 200),
        ("GET", "/continue", 200),
        ("GET", "/early-hints", 200),
        ("GET", "/204", 204),
        ("GET", "/304", 304),
        ("GET", "/204-chunked", 204),
        ("GET", "/304-length", 304),
        ("GET", "/chunked", 200),
        ("GET", "/until-close", 200),
        ("HEAD", "/ok", 200),
        ("HEAD", "/chunked", 200),
        ("HEAD", "/until-close", 200),
        ("POST", "/ok", 200),
        ("DELETE", "/continue", 200),
    ] {
        let expect = format!("timeout = \"2s\"\nexpect = {{ status = {status} }}");
        let block = run(
            &plan(&[("it", method, path)], &expect),
            &server.url(),
            &cold(4, 20),
        );
        assert_eq!(
            block.errors,
            BTreeMap::new(),
            "{method} {path}: {:?}",
            block.examples
        );
        assert_eq!((block.sent, block.completed), (20, 20), "{method} {path}");
    }
}

#[test]
fn faults_among_good_answers_are_counted_exactly() {
    let server = server();
    let paths = [
        ("resets", "GET", "/every/4/reset-in-body"),
        ("statuses", "GET", "/every/5/503"),
        ("fine", "GET", "/ok"),
    ];
    let block = run(&plan(&paths, JSON), &server.url(), &cold(20, 400));
    let expected = BTreeMap::from([(ErrorKind::Status, 80), (ErrorKind::Reset, 100)]);
    assert_eq!(block.errors, expected);
    assert_eq!((block.offered, block.completed), (1200, 1020));
    for (name, path, faults) in [
        ("resets", paths[0].2, 100),
        ("statuses", paths[1].2, 80),
        ("fine", paths[2].2, 0),
    ] {
        let seen = server.counts(path);
        assert_eq!((seen.requests, seen.faults), (400, faults), "{path}");
        assert_eq!(block.endpoints[name].completed, 400 - faults, "{name}");
    }
    let series =
        |of: fn(&unstall_results::record::Second) -> u64| block.series.iter().map(of).sum::<u64>();
    assert_eq!(block.offered, series(|second| second.offered));
    assert_eq!(block.sent, series(|second| second.sent));
    assert_eq!(block.completed, series(|second| second.completed));
    assert_eq!(180_u64, series(|second| second.errors));
}

#[test]
fn a_number_that_is_no_multiple_of_the_users_is_exact() {
    let server = server();
    let block = run(
        &plan(&[("it", "GET", "/ok")], JSON),
        &server.url(),
        &cold(7, 100),
    );
    assert_eq!(server.counts("/ok").requests, 100);
    assert_eq!(block.completed, 100);
    assert_eq!(server.connections(), 7, "a connection per user");
}

#[test]
fn two_threads_count_like_one() {
    let server = server();
    let spec = BlockSpec {
        threads: Some(2),
        ..cold(9, 200)
    };
    let block = run(
        &plan(&[("it", "GET", "/every/10/500")], JSON),
        &server.url(),
        &spec,
    );
    assert_eq!((block.offered, block.completed), (200, 180));
    assert_eq!(block.endpoints["it"].response.count(), 180);
    assert_eq!(
        block.series.iter().map(|second| second.errors).sum::<u64>(),
        20
    );
}

#[test]
fn a_service_that_dies_is_given_up() {
    let server = FaultyServer::start(Behaviour::DiesAfter(50)).expect("a server starts");
    let spec = BlockSpec {
        patience: Duration::from_millis(300),
        ..cold(5, 100_000)
    };
    let block = run(&plan(&[("it", "GET", "/ok")], JSON), &server.url(), &spec);
    assert_eq!(block.ended, Ended::ServiceGone);
    assert_eq!(block.completed, 50);
    assert!(
        block.errors[&ErrorKind::Connect] >= 15,
        "{:?}",
        block.errors
    );
    assert!(block.offered < 1_000, "it went on: {}", block.offered);
    let failed: u64 = block.errors.values().sum();
    assert_eq!(block.offered, block.completed + failed);
}

#[test]
fn a_refused_connection_is_offered_but_never_sent() {
    let server = FaultyServer::start(Behaviour::Refuse).expect("a server starts");
    let block = run(
        &plan(&[("it", "GET", "/ok")], JSON),
        &server.url(),
        &cold(4, 8),
    );
    assert_eq!(block.errors, BTreeMap::from([(ErrorKind::Connect, 8)]));
    assert_eq!((block.offered, block.sent), (8, 0));
}

#[test]
fn connections_that_die_at_once_are_the_services_fault() {
    for behaviour in [Behaviour::CloseOnAccept, Behaviour::ResetOnAccept] {
        let server = FaultyServer::start(behaviour).expect("a server starts");
        let block = run(
            &plan(&[("it", "GET", "/ok")], JSON),
            &server.url(),
            &cold(4, 8),
        );
        assert_eq!(
            block.errors,
            BTreeMap::from([(ErrorKind::Reset, 8)]),
            "{behaviour:?}"
        );
    }
    let server = FaultyServer::start(Behaviour::Silent).expect("a server starts");
    let block = run(
        &plan(&[("it", "GET", "/ok")], JSON),
        &server.url(),
        &cold(4, 8),
    );
    assert_eq!(block.errors, BTreeMap::from([(ErrorKind::Timeout, 8)]));
}

#[test]
fn a_failed_setup_ends_it_with_the_answers_text() {
    let server = server();
    for per in ["run", "user"] {
        let text = format!(
            "name = \"test\"\ndescribe = \"test\"\n\
             [[setup]]\nper = \"{per}\"\nmethod = \"POST\"\npath = \"/503\"\nexpect = {{ status = 200 }}\n\
             [[request]]\nname = \"it\"\nmethod = \"GET\"\npath = \"/ok\"\n"
        );
        let error = try_run(&parse(&text), &server.url(), &cold(3, 9)).expect_err("setup failed");
        let message = error.to_string();
        assert!(
            message.contains("503") && message.contains("it answered"),
            "{message}"
        );
        assert_eq!(server.counts("/ok").requests, 0, "nothing was measured");
    }
}
