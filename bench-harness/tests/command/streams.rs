//! Scenarios of streams, and those that say how many requests are enough and what isn't
//! judged, through the command.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use unstall_results::record::{ErrorKind, RunRecord};
use unstall_results::store;
use unstall_testbed::{Behaviour, ExactStream, FaultyServer, StreamClock, StreamFormat};

use crate::program::call;

fn read(folder: &Path, name: &str) -> RunRecord {
    store::read(&folder.join(name)).expect("a readable record")
}

fn write(folder: &Path, text: &str) {
    std::fs::write(folder.join("mine.toml"), text).expect("the folder can be written");
}

fn server(first_ms: u64) -> ExactStream {
    let clock = StreamClock {
        first: Duration::from_millis(first_ms),
        gap: Duration::from_millis(5),
        items: 4,
        stall: None,
    };
    ExactStream::start(StreamFormat::JsonObjects, clock).expect("a server")
}

const STREAM: &str = "name = \"mine\"\n[[request]]\nname = \"POST message\"\nmethod = \"POST\"\n\
    path = \"/message\"\nstream = { decoder = \"json-objects\", complete = { items_min = 4 } }\n\
    expect = { each = { json = { \"/message\" = \"non-empty\" } } }\n";

/// The value of one arm of a cell, in milliseconds.
fn value(document: &Value, metric: &str, arm: &str) -> Option<f64> {
    let cells = document["comparisons"][0]["cells"].as_array()?;
    let cell = cells.iter().find(|cell| cell["metric"] == metric)?;
    cell[arm]["value"].as_f64()
}

#[test]
fn two_versions_are_compared_by_their_first_items() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), STREAM);
    let (before, after) = (server(20), server(60));
    let call = call(
        folder.path(),
        [
            "ab",
            "mine.toml",
            "--before",
            &before.url(),
            "--after",
            &after.url(),
            "--pairs",
            "5",
            "-c",
            "4",
            "--requests",
            "40",
            "--warmup",
            "1",
            "--out",
            "r.json",
            "--json",
        ],
    );
    let document = call.document();
    for metric in ["ttft_p50", "response_p50"] {
        for (arm, least_ms) in [("before", 20.0), ("after", 60.0)] {
            let found = value(&document, metric, arm);
            assert!(
                found >= Some(least_ms),
                "{metric} {arm}: {found:?} in {document:#}"
            );
        }
    }
    let record = read(folder.path(), "r.json");
    for block in &record.blocks {
        let samples = &block.endpoints["POST message"];
        assert_eq!((samples.completed, samples.items), (40, 160));
        assert_eq!(samples.ttft.as_ref().map(|ttft| ttft.count()), Some(40));
    }
    let compared = crate::program::call(folder.path(), ["compare", "r.json"]);
    assert!(compared.stdout.contains("first item p50"), "{compared:#?}");
}

#[test]
fn a_run_of_streams_is_recorded_with_their_times() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), STREAM);
    let server = server(10);
    let url = server.url();
    let run = [
        "run",
        "mine.toml",
        "--target",
        &url,
        "-c",
        "5",
        "--requests",
        "20",
        "--warmup",
        "0",
        "--out",
        "r.json",
    ];
    call(folder.path(), run).assert_code(0);
    let block = &read(folder.path(), "r.json").blocks[0];
    let samples = &block.endpoints["POST message"];
    assert_eq!((samples.completed, samples.items), (20, 80));
    let first = samples.ttft_sent.as_ref().expect("a stream");
    assert!(first.value_at_rank(1) >= Some(10_000), "before it was sent");
    let gaps = samples.gap.as_ref().expect("a stream").count();
    assert_eq!(gaps + samples.items_coalesced + samples.gaps_stalled, 60);
}

#[test]
fn a_stream_cut_short_is_told_with_what_was_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    write(
        folder.path(),
        &STREAM.replace("/message\"\nstream", "/stream/short/json-objects\"\nstream"),
    );
    let server = FaultyServer::start(Behaviour::Paths).expect("a server");
    let url = server.url();
    let run = [
        "run",
        "mine.toml",
        "--target",
        &url,
        "-c",
        "2",
        "--requests",
        "6",
        "--warmup",
        "0",
        "--out",
        "r.json",
    ];
    let call = call(folder.path(), run);
    call.assert_code(3)
        .assert_stderr(&["the stream isn't complete: it had 3 items, expected 4 at least"]);
    let errors = &read(folder.path(), "r.json").blocks[0].errors;
    assert_eq!(errors.get(&ErrorKind::Truncated), Some(&6));
}

#[test]
fn a_scenario_says_how_many_requests_are_enough_and_what_is_not_judged() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "name = \"mine\"\n[[request]]\nname = \"it\"\nmethod = \"GET\"\npath = \"/ok\"\n\
                judge = false\n[load]\nclosed = { concurrency = [2], requests = 6 }\n";
    write(folder.path(), text);
    let server = FaultyServer::start(Behaviour::Paths).expect("a server");
    let url = server.url();
    let run = [
        "run",
        "mine.toml",
        "--target",
        &url,
        "--warmup",
        "0",
        "--out",
        "r.json",
    ];
    call(folder.path(), run).assert_code(0);
    let record = read(folder.path(), "r.json");
    assert_eq!(record.load.requests_per_endpoint, 6);
    assert_eq!(record.blocks[0].offered, 6);
    assert!(!record.scenario.endpoints[0].judged);

    let ab = [
        "ab",
        "mine.toml",
        "--before",
        &url,
        "--after",
        &url,
        "--pairs",
        "5",
        "-c",
        "2",
        "--warmup",
        "0",
        "--out",
        "ab.json",
    ];
    call(folder.path(), ab);
    let record = read(folder.path(), "ab.json");
    assert_eq!(record.load.requests_per_endpoint, 6);
    assert!(record.blocks.iter().all(|block| block.offered == 6));

    let more = [
        "run",
        "mine.toml",
        "--target",
        &url,
        "--requests",
        "8",
        "--warmup",
        "0",
        "--out",
        "more.json",
    ];
    call(folder.path(), more).assert_code(0);
    assert_eq!(
        read(folder.path(), "more.json").blocks[0].offered,
        8,
        "the command line wins"
    );
}
