//! Streams held open beside the load: in no count of it, and told as they are.

use std::sync::Arc;
use std::time::{Duration, Instant};

use unstall_bench_harness::block::{BlockPlace, MeasuredBlock, Service, measure};
use unstall_bench_harness::engine::{Ended, Progress, Stop};
use unstall_results::record::{BackgroundSamples, ErrorKind};
use unstall_scenarios::Plan;
use unstall_testbed::{Behaviour, FaultyServer};

use crate::support::{self, cold, parse, run};

const REQUESTS: u64 = 20;
/// Two items, then silence.
const SILENT: &str = "/stream/silent/ndjson";

fn server() -> FaultyServer {
    FaultyServer::start(Behaviour::Paths).expect("a server starts")
}

/// Requests to `/ok` beside so many users of a stream.
fn beside(users: u32, path: &str, more: &str) -> Arc<Plan> {
    parse(&format!(
        "name = \"t\"\n{more}\n[background]\nusers = {users}\n[[background.request]]\nname = \"hold\"\n\
         method = \"GET\"\npath = \"{path}\"\nheaders = {{ authorization = \"${{word}}\" }}\n\
         timeout = \"1h\"\nstream = {{ decoder = \"ndjson\", idle_timeout = \"1h\" }}\n\
         [[request]]\nname = \"it\"\nmethod = \"GET\"\npath = \"/ok\"\n"
    ))
}

const WORD: &str = "[vars]\nword = \"w\"";

#[test]
fn held_streams_are_open_throughout_and_in_no_count_of_the_load() {
    let server = server();
    let block = run(&beside(5, SILENT, WORD), &server.url(), &cold(2, REQUESTS));
    let all_open = BackgroundSamples {
        users: 5,
        open_at_begin: 5,
        open_at_end: 5,
        ..BackgroundSamples::default()
    };
    assert_eq!(block.background, Some(all_open));
    assert_eq!((block.offered, block.completed), (REQUESTS, REQUESTS));
    assert_eq!(block.errors, [].into());
    assert_eq!(block.endpoints.keys().collect::<Vec<_>>(), ["it"]);
    let in_seconds: u64 = block.series.iter().map(|second| second.completed).sum();
    assert_eq!(in_seconds, REQUESTS);
    assert_eq!(server.counts(SILENT).requests, 5, "each is asked for once");
}

/// Whoever reads the service's counters behind the block finds the streams as they were.
#[test]
fn streams_are_held_until_the_measurement_lets_go() {
    let server = server();
    let mut block = run(&beside(5, SILENT, WORD), &server.url(), &cold(2, REQUESTS));
    let (open, _) = server.connections_open();
    assert!(open >= 5, "{open}");
    let again = block.clone();
    block.held = None;
    let (open, _) = server.connections_open();
    assert!(open >= 5, "a clone holds them, too: {open}");
    drop(again);
    // The server notices a moment later.
    let deadline = Instant::now() + Duration::from_secs(60);
    while server.connections_open().0 > 0 {
        assert!(Instant::now() < deadline, "streams are held for ever");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn streams_that_end_are_opened_again_and_counted() {
    let server = server();
    let path = "/stream/complete/ndjson";
    let block = run(&beside(3, path, WORD), &server.url(), &cold(1, REQUESTS));
    let seen = block.background.expect("there is one");
    assert!(seen.ended > 3, "{seen:?}");
    assert_eq!(seen.errors, [].into());
    assert_eq!((block.offered, block.completed), (REQUESTS, REQUESTS));
}

#[test]
fn what_setup_of_the_run_has_brought_is_seen() {
    let server = server();
    let setup =
        "[[setup]]\nmethod = \"GET\"\npath = \"/ok\"\nextract = { word = { json = \"/status\" } }";
    run(&beside(2, SILENT, setup), &server.url(), &cold(1, 1));
    let held = server.received().into_iter();
    let held = held.filter(|request| request.path == SILENT);
    let words: Vec<Option<String>> = held.map(|request| request.authorization).collect();
    assert_eq!(words, [Some("ok".to_owned()), Some("ok".to_owned())]);
}

/// Waits out the standstill, and measures what there is to measure.
#[test]
fn a_service_that_takes_no_stream_is_measured_and_its_failures_are_told() {
    let server = server();
    let measured = measured(&beside(4, "/503", WORD), &server);
    let block = measured.block;
    assert_eq!(measured.ended, Ended::Complete);
    let seen = block.background.expect("there is one");
    assert_eq!(
        (seen.users, seen.open_at_begin, seen.open_at_end),
        (4, 0, 0)
    );
    let failed = seen.errors.get(&ErrorKind::Status).copied();
    assert!(failed >= Some(4), "{seen:?}");
    // Who fails waits before it tries again: they are no load.
    assert!(failed < Some(4 * 40), "{seen:?}");
    assert_eq!((block.completed, block.errors), (REQUESTS, [].into()));
    let told = block.validity.reasons.join("\n");
    assert!(
        told.contains("4 streams were to be held open: 0 were when it began, 0 when it ended"),
        "{told}"
    );
    assert!(told.contains("failed (status)"), "{told}");
    // A busy machine may add warnings of its own.
    assert_eq!(
        about_streams(&measured.warnings),
        1,
        "{:?}",
        measured.warnings
    );
}

fn about_streams(said: &[String]) -> usize {
    said.iter().filter(|of| of.contains("streams")).count()
}

#[test]
fn a_background_that_is_whole_is_not_worth_a_word() {
    let server = server();
    let measured = measured(&beside(4, SILENT, WORD), &server);
    let reasons = &measured.block.validity.reasons;
    assert_eq!(about_streams(reasons), 0, "{reasons:?}");
    assert_eq!(
        about_streams(&measured.warnings),
        0,
        "{:?}",
        measured.warnings
    );
    assert!(measured.block.background.is_some());
}

fn measured(plan: &Arc<Plan>, server: &FaultyServer) -> MeasuredBlock {
    let place = BlockPlace {
        arm: "run".to_owned(),
        pair: 0,
        position: 0,
    };
    let target = support::target(&server.url());
    let measured = measure(
        plan,
        Service::Running(&target),
        &place,
        &cold(2, REQUESTS),
        &Stop::new(),
        &Arc::new(Progress::new()),
    );
    measured.expect("the block can be measured")
}
