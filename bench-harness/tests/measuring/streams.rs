//! Streams through the public door, against a server that streams rightly in unusual shapes
//! and wrongly in every way: each stream counted once, by kind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use unstall_bench_harness::engine::{BlockMeasurement, BlockSpec};
use unstall_results::histogram::LatencyHistogram;
use unstall_results::record::{EndpointSamples, ErrorKind};
use unstall_scenarios::Plan;
use unstall_testbed::{Behaviour, FaultyServer, StreamFormat};

use crate::support::{cold, lasting, parse, run};

const STREAMS: u64 = 8;
const ITEMS: u64 = 5;

fn server() -> FaultyServer {
    FaultyServer::start(Behaviour::Paths).expect("a server starts")
}

/// One request of `/stream/{what}/{format}` with all tests that its format allows.
fn plan(what: &str, format: StreamFormat) -> Arc<Plan> {
    // The server pauses, too, but never for long.
    let idle_timeout = if what == "silent" { "300ms" } else { "5s" };
    let name = format.name();
    let (meaningful, each, content_type) = match format {
        StreamFormat::Chunks => ("", "", "text/plain"),
        StreamFormat::Ndjson => (MEANINGFUL, EACH, "application/x-ndjson"),
        StreamFormat::Sse | StreamFormat::JsonObjects => (MEANINGFUL, EACH, "text/event-stream"),
    };
    let marker = match format {
        StreamFormat::Sse => "end_marker = \"[DONE]\"",
        _ => "",
    };
    parse(&format!(
        "name = \"test\"\n[[request]]\nname = \"it\"\nmethod = \"POST\"\n\
         path = \"/stream/{what}/{name}\"\ntimeout = \"20s\"\n\
         [request.stream]\ndecoder = \"{name}\"\nidle_timeout = \"{idle_timeout}\"\n{meaningful}\n\
         [request.stream.complete]\nitems_min = {ITEMS}\n{marker}\n\
         [request.expect]\nheaders = {{ content-type = \"{content_type}*\" }}\n{each}\n"
    ))
}

const MEANINGFUL: &str = "meaningful = { json = \"/message\", is = \"non-empty\" }";
const EACH: &str = "each = { json = { \"/message\" = \"string\" } }";

fn measure(what: &str, format: StreamFormat) -> BlockMeasurement {
    run(&plan(what, format), &server().url(), &cold(4, STREAMS))
}

type Times = fn(&EndpointSamples) -> &Option<LatencyHistogram>;

fn count(samples: &EndpointSamples, of: Times) -> u64 {
    of(samples).as_ref().expect("a stream's endpoint").count()
}

/// What holds of every block of complete streams.
fn assert_complete(block: &BlockMeasurement, items: u64, what: &str) {
    assert_eq!(
        block.errors,
        BTreeMap::new(),
        "{what}: {:?}",
        block.examples
    );
    assert_eq!(block.completed, block.offered, "{what}");
    let samples = &block.endpoints["it"];
    let streams = block.completed;
    assert_eq!(samples.items, streams * items, "{what}");
    assert_eq!(count(samples, |s| &s.ttft), streams, "{what}");
    assert_eq!(count(samples, |s| &s.ttft_sent), streams, "{what}");
    assert!(count(samples, |s| &s.gap_longest) <= streams, "{what}");
    // Each item but a stream's first came in one read with the one before, or has a gap, or
    // had one in which this side stalled.
    let behind = count(samples, |s| &s.gap) + samples.items_coalesced + samples.gaps_stalled;
    assert_eq!(behind, samples.items - streams, "{what}");
}

/// What holds of every block of failed streams.
fn assert_failed(block: &BlockMeasurement, kind: ErrorKind, what: &str) {
    let expected = BTreeMap::from([(kind, STREAMS)]);
    assert_eq!(block.errors, expected, "{what}: {:?}", block.examples);
    assert_eq!((block.offered, block.completed), (STREAMS, 0), "{what}");
    let samples = &block.endpoints["it"];
    assert_eq!(samples.failed.count(), STREAMS, "{what}");
    assert_eq!(samples.response.count(), 0, "{what}: no latency");
    let all: [Times; 4] = [
        |s| &s.ttft,
        |s| &s.ttft_sent,
        |s| &s.gap,
        |s| &s.gap_longest,
    ];
    for of in all {
        assert_eq!(count(samples, of), 0, "{what}: no time of a failed stream");
    }
    let counts = (samples.items, samples.items_coalesced, samples.gaps_stalled);
    assert_eq!(counts, (0, 0, 0), "{what}");
}

#[test]
fn right_streams_are_successes_however_they_are_cut() {
    for format in StreamFormat::ALL {
        for what in ["complete", "one-write", "bytes", "chat"] {
            if (what, format) == ("bytes", StreamFormat::Chunks) {
                // There each byte is an item.
                continue;
            }
            let place = format!("{what} {}", format.name());
            assert_complete(&measure(what, format), ITEMS, &place);
        }
    }
    // JSON ends where it ends, and a last line needs no line feed.
    for format in [StreamFormat::Ndjson, StreamFormat::JsonObjects] {
        assert_complete(&measure("unterminated", format), ITEMS, "unterminated");
    }
}

#[test]
fn items_of_one_read_share_its_time() {
    let block = measure("one-write", StreamFormat::JsonObjects);
    let samples = &block.endpoints["it"];
    // The head may come in a read of its own, but the five items are in one write.
    assert!(samples.items_coalesced > 0);
    let gaps = count(samples, |s| &s.gap) + samples.gaps_stalled;
    assert_eq!(gaps + samples.items_coalesced, STREAMS * (ITEMS - 1));
}

/// What isn't a complete stream is counted by kind, and never as a success.
#[test]
fn case_15_each_fault_of_a_stream_has_its_kind() {
    use StreamFormat::{JsonObjects, Ndjson, Sse};
    let json = [Sse, Ndjson, JsonObjects];
    for (what, formats, kind) in [
        ("short", &StreamFormat::ALL[..], ErrorKind::Truncated),
        ("empty", &StreamFormat::ALL[..], ErrorKind::Truncated),
        ("cut", &StreamFormat::ALL[..], ErrorKind::Truncated),
        ("reset", &StreamFormat::ALL[..], ErrorKind::Truncated),
        ("half-item", &json[..], ErrorKind::Truncated),
        ("meaningless", &json[..], ErrorKind::Truncated),
        ("unterminated", &[Sse][..], ErrorKind::Truncated),
        ("early-close", &StreamFormat::ALL[..], ErrorKind::Reset),
        ("garbage", &json[..], ErrorKind::Decode),
        ("after-the-end", &[Sse][..], ErrorKind::Decode),
        ("endless", &json[..], ErrorKind::Decode),
        ("wrong-item", &json[..], ErrorKind::CheckFailed),
        ("wrong-type", &StreamFormat::ALL[..], ErrorKind::CheckFailed),
        ("silent", &StreamFormat::ALL[..], ErrorKind::Timeout),
    ] {
        for format in formats {
            let place = format!("{what} {}", format.name());
            assert_failed(&measure(what, *format), kind, &place);
        }
    }
}

#[test]
fn an_error_status_is_one_and_its_body_is_no_stream() {
    let text = "name = \"test\"\n[[request]]\nname = \"it\"\nmethod = \"GET\"\npath = \"/503\"\n\
                stream = { decoder = \"json-objects\" }\nexpect = { status = 200 }\n";
    let server = server();
    let block = run(&parse(text), &server.url(), &cold(4, STREAMS));
    assert_failed(&block, ErrorKind::Status, "503");
    assert!(
        block.examples[0].message.contains("as asked"),
        "{:?}",
        block.examples
    );
    assert_eq!(server.connections(), 4, "the connection is fine");
}

/// A chunk is no token, the first one has only a role, reasoning comes before content. What is
/// meaningful is the scenario's to say.
#[test]
fn case_16_time_to_first_token_ends_with_the_first_meaningful_item() {
    let block = measure("chat", StreamFormat::Sse);
    assert_complete(&block, ITEMS, "chat");
    let ttft = block.endpoints["it"].ttft.as_ref().expect("a stream");
    // Role, reasoning, words: the third of the items that come 30 ms apart.
    let first_us = ttft.value_at_rank(1).expect("streams were measured");
    assert!(
        first_us >= 90_000,
        "{first_us} µs: too early for the third item"
    );

    let any = parse(
        "name = \"test\"\n[[request]]\nname = \"it\"\nmethod = \"POST\"\n\
         path = \"/stream/chat/sse\"\nstream = { decoder = \"sse\" }\n",
    );
    let block = run(&any, &server().url(), &cold(1, 3));
    let first = block.endpoints["it"].ttft.as_ref().expect("a stream");
    let response = &block.endpoints["it"].response;
    let (first, whole) = (first.max_us(), response.value_at_rank(1));
    assert!(first < whole, "any item will do: {first:?} of {whole:?}");
    // Without an end marker in the scenario, [DONE] is an item.
    assert_eq!(block.endpoints["it"].items, 3 * (ITEMS + 1));
}

/// Truncated, not a success.
#[test]
fn case_16_streams_cut_short_among_good_ones_are_counted_exactly() {
    let server = server();
    let request = |name: &str, path: &str| {
        format!(
            "[[request]]\nname = \"{name}\"\nmethod = \"GET\"\npath = \"{path}\"\n\
             stream = {{ decoder = \"json-objects\", complete = {{ items_min = 1 }} }}\n"
        )
    };
    let text = format!(
        "name = \"test\"\n{}{}",
        request("some cut", "/every/4/stream/cut/json-objects"),
        request("plain", "/stream/complete/json-objects"),
    );
    let spec = BlockSpec {
        threads: Some(2),
        ..cold(10, 200)
    };
    let block = run(&parse(&text), &server.url(), &spec);
    assert_eq!(block.errors, BTreeMap::from([(ErrorKind::Truncated, 50)]));
    assert_eq!(block.endpoints["some cut"].completed, 150);
    assert_eq!(count(&block.endpoints["some cut"], |s| &s.ttft), 150);
    assert_eq!(block.endpoints["plain"].items, 200 * ITEMS);
}

#[test]
fn a_stream_that_is_still_running_at_the_end_is_censored_and_its_connection_dropped() {
    let spec = BlockSpec {
        grace: Duration::from_millis(50),
        ..lasting(3, Duration::from_millis(100))
    };
    let server = server();
    let block = run(&plan("silent", StreamFormat::Sse), &server.url(), &spec);
    let samples = &block.endpoints["it"];
    assert_eq!((block.completed, samples.in_flight.count()), (0, 3));
    let first_items = |samples| count(samples, |s| &s.ttft) + count(samples, |s| &s.ttft_in_flight);
    assert_eq!(first_items(samples), 3, "each is one or the other");
    let block = run(
        &plan("complete", StreamFormat::Sse),
        &server.url(),
        &cold(3, 6),
    );
    assert_complete(&block, ITEMS, "afterwards");
}

/// An open stream is not one whose first item never came.
#[test]
fn the_first_item_of_a_stream_still_running_at_the_end_is_measured() {
    let spec = BlockSpec {
        grace: Duration::from_millis(100),
        ..lasting(3, Duration::from_secs(1))
    };
    let request = |path: &str| {
        parse(&format!(
            "name = \"test\"\n[[request]]\nname = \"it\"\nmethod = \"POST\"\n\
             path = \"{path}\"\ntimeout = \"20s\"\n\
             [request.stream]\ndecoder = \"sse\"\n{MEANINGFUL}\n"
        ))
    };
    let server = server();
    // Two items at once, then nothing more for as long as the block lasts.
    let block = run(&request("/stream/silent/sse"), &server.url(), &spec);
    let samples = &block.endpoints["it"];
    assert_eq!((block.completed, samples.in_flight.count()), (0, 3));
    assert_eq!(count(samples, |s| &s.ttft), 3);
    assert_eq!(count(samples, |s| &s.ttft_sent), 3);
    assert_eq!(count(samples, |s| &s.ttft_in_flight), 0);
    let (first, age) = (samples.ttft.as_ref(), samples.in_flight.quantile_us(0.0));
    let slowest_us = first.and_then(LatencyHistogram::max_us);
    assert!(slowest_us < age, "{slowest_us:?} µs of {age:?}");
    let block = run(&request("/hang"), &server.url(), &spec);
    let samples = &block.endpoints["it"];
    assert_eq!((block.completed, samples.in_flight.count()), (0, 3));
    assert_eq!(count(samples, |s| &s.ttft), 0);
    assert_eq!(count(samples, |s| &s.ttft_in_flight), 3);
}

#[test]
fn a_plain_answer_beside_a_stream_has_no_stream_times() {
    let text = "name = \"test\"\n\
                [[request]]\nname = \"stream\"\nmethod = \"GET\"\npath = \"/stream/complete/sse\"\n\
                stream = { decoder = \"sse\" }\n\
                [[request]]\nname = \"plain\"\nmethod = \"GET\"\npath = \"/ok\"\n";
    let server = server();
    let block = run(&parse(text), &server.url(), &cold(2, 6));
    assert_eq!(block.completed, 12);
    assert_eq!(
        server.connections(),
        2,
        "a stream's end frees its connection"
    );
    let plain = &block.endpoints["plain"];
    assert!(plain.ttft.is_none() && plain.gap.is_none() && plain.items == 0);
}

/// A user who goes away in the middle, as the scenario wants it: no failure, and the next
/// request has a connection of its own.
#[test]
fn a_stream_may_be_left_before_its_end() {
    let text = |leave_after: u32| {
        format!(
            "name = \"test\"\n\
             [[request]]\nname = \"left\"\nmethod = \"POST\"\npath = \"/stream/silent/json-objects\"\n\
             timeout = \"20s\"\n[request.stream]\ndecoder = \"json-objects\"\n{MEANINGFUL}\n\
             leave_after = {leave_after}\nidle_timeout = \"300ms\"\n\
             [[request]]\nname = \"next\"\nmethod = \"GET\"\npath = \"/ok\"\n"
        )
    };
    let server = server();
    let block = run(&parse(&text(2)), &server.url(), &cold(2, 6));
    assert_eq!(block.errors, BTreeMap::new(), "{:?}", block.examples);
    let left = &block.endpoints["left"];
    assert_eq!((left.completed, left.items), (6, 12));
    assert_eq!(count(left, |s| &s.ttft), 6);
    // The first `left` of a user opens one, and each `next`, whose connection `left` uses up.
    assert_eq!(server.connections(), 2 + 6);
    // Silent before the third.
    let block = run(&parse(&text(3)), &server.url(), &cold(2, 6));
    assert_eq!(block.errors, BTreeMap::from([(ErrorKind::Timeout, 6)]));
}

#[test]
fn a_stream_that_ends_before_it_may_be_left_is_truncated() {
    let text = "name = \"test\"\n[[request]]\nname = \"it\"\nmethod = \"POST\"\n\
                path = \"/stream/short/sse\"\nstream = { decoder = \"sse\", leave_after = 4 }\n";
    let block = run(&parse(text), &server().url(), &cold(2, STREAMS));
    assert_failed(&block, ErrorKind::Truncated, "short");
    let message = &block.examples[0].message;
    assert!(message.contains("3 items, expected 4"), "{message}");
}
