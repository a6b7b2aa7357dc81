//! `unstall run` over HTTP/2: prior knowledge, answers of every shape, and faults by their kind.
//! A stream that fails costs its connection only where the service ends that, too.

use std::time::{Duration, Instant};

use unstall_results::record::ErrorKind;

use crate::program::{SMALL_RUN, SmallRun};
use crate::secure_server::{LARGE_BYTES, SecureServer};

const HTTP2: &str = "http = \"2\"";
/// A connection for each of three users, and one for each request.
const USERS: u64 = 3;
const ONE_EACH: u64 = SMALL_RUN;

struct Met {
    server: SecureServer,
    run: SmallRun,
}

impl Met {
    /// Besides, one connection is for seeing whether the service is there, and one in each block
    /// for its monitor.
    #[track_caller]
    fn assert_connections(&self, in_a_block: u64) {
        let blocks = self.run.blocks().len() as u64;
        let expected = 1 + blocks * (1 + in_a_block);
        assert_eq!(
            self.server.seen().connections,
            expected,
            "{:#?}",
            self.run.call
        );
    }
}

fn meet(request: &str) -> Met {
    let folder = tempfile::tempdir().expect("a folder");
    let server = SecureServer::plain("127.0.0.1:0");
    let target = format!("http://127.0.0.1:{}", server.port());
    let run = SmallRun::of(folder.path(), HTTP2, request, &target, &[]);
    // The record is read later.
    let _ = folder.keep();
    Met { server, run }
}

fn get(path: &str, status: u16) -> Met {
    meet(&format!(
        "method = \"GET\"\npath = \"{path}\"\nexpect = {{ status = {status} }}"
    ))
}

fn post(path: &str, body_bytes: usize, status: u16) -> Met {
    let body = "x".repeat(body_bytes);
    meet(&format!(
        "method = \"POST\"\npath = \"{path}\"\nbody = \"{body}\"\ncontent_type = \"text/plain\"\n\
         expect = {{ status = {status} }}"
    ))
}

#[test]
fn answers_of_every_shape_are_read_to_their_end_on_one_connection() {
    for (path, status, body_bytes) in [
        ("/it", 200, 15),
        ("/trailers", 200, 15),
        ("/early-hints", 200, 15),
        ("/204", 204, 0),
        ("/large", 200, LARGE_BYTES as u64),
    ] {
        let met = get(path, status);
        met.run.assert_good();
        let samples = met.run.record().blocks[0].endpoints["it"].clone();
        assert_eq!(samples.body_bytes, SMALL_RUN * body_bytes, "{path}");
        let seen = met.server.seen();
        met.assert_connections(USERS);
        assert!(seen.requests.iter().all(|asked| asked.is_http2));
    }
}

#[test]
fn bodies_larger_than_the_services_window_arrive_whole() {
    let met = post("/it", 200_000, 200);
    met.run.assert_good();
    let seen = met.server.seen();
    let load: Vec<usize> = seen
        .requests
        .iter()
        .filter(|asked| asked.method == "POST")
        .map(|asked| asked.body_bytes)
        .collect();
    assert_eq!(load.len() as u64, SMALL_RUN * met.run.blocks().len() as u64);
    assert!(load.iter().all(|length| *length == 200_000), "{load:?}");
    met.assert_connections(USERS);
}

#[test]
fn an_answer_before_the_whole_request_stands() {
    let met = post("/early", 200_000, 413);
    met.run.assert_good();
    met.assert_connections(USERS);
}

#[test]
fn a_stream_that_the_service_resets_leaves_the_connection_in_use() {
    for (path, kind, words) in [
        ("/reset", ErrorKind::Reset, "INTERNAL_ERROR"),
        ("/refused", ErrorKind::Reset, "REFUSED_STREAM"),
        ("/reset-in-body", ErrorKind::Reset, "INTERNAL_ERROR"),
        ("/http-1.1", ErrorKind::Protocol, "http = \"1.1\""),
    ] {
        let met = get(path, 200);
        met.run.assert_all(kind, &[words]);
        met.assert_connections(USERS);
    }
}

#[test]
fn a_connection_that_the_service_ends_is_replaced() {
    // In good order: no request is lost.
    let met = get("/goaway", 200);
    met.run.assert_good();
    met.assert_connections(ONE_EACH);
    let met = get("/goaway-error", 200);
    met.run
        .assert_all(ErrorKind::Reset, &["GOAWAY", "ENHANCE_YOUR_CALM"]);
    met.assert_connections(ONE_EACH);
    let met = get("/abrupt", 200);
    met.run.assert_all(ErrorKind::Reset, &["connection lost"]);
    met.assert_connections(ONE_EACH);
}

#[test]
fn a_stream_that_is_left_is_cancelled_and_its_connection_kept() {
    let met = meet(
        "method = \"GET\"\npath = \"/stream\"\n\
         stream = { decoder = \"sse\", leave_after = 3 }\nexpect = { status = 200 }",
    );
    met.run.assert_good();
    met.assert_connections(USERS);
    // Each is told at once, not with the user's next request: that of the last never comes.
    let left = SMALL_RUN as usize * met.run.blocks().len();
    let begun = Instant::now();
    while met.server.seen().resets.len() < left && begun.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(met.server.seen().resets, vec!["CANCEL"; left]);
}

#[test]
fn who_speaks_no_http_2_is_a_protocol_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = unstall_testbed::ExactDelay::start().expect("a server");
    let run = SmallRun::get(folder.path(), HTTP2, &server.url(), &[]);
    run.call.assert_code(3);
    let errors = run.blocks()[0].errors.clone();
    let known = [ErrorKind::Protocol, ErrorKind::Reset];
    assert!(errors.keys().all(|kind| known.contains(kind)), "{errors:?}");
    assert_eq!(errors.values().sum::<u64>(), SMALL_RUN);
}
