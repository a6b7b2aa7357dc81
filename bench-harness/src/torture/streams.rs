//! Answers that are read item by item: complete ones however they are cut, and broken ones, which
//! are never a success.

use unstall_results::record::ErrorKind::{self, CheckFailed, Decode, Reset, Timeout, Truncated};
use unstall_testbed::StreamFormat::{self, Chunks, JsonObjects, Ndjson, Sse};

use super::case::{Case, Group};
use super::exchange::{Exchange, USERS};

const GROUP: Group = Group::Streams;
const ITEMS: u64 = 5;
/// Items that come in pieces.
const SPLIT: &str = "mpetazzoni/sse.js#36";
/// A stream that ends early and is called complete.
const TRUNCATED: &str = "TriliumNext/Trilium#11124";
/// The same within an item.
const UNFINISHED: &str = "launchdarkly/okhttp-eventsource#81";
const ENDLESS: &str = "neonmoe/minreq#55";
const WRONG_ITEM: &str = "vllm-project/aibrix#2653";

/// Name, what is streamed, in which form.
const COMPLETE: [(&str, &str, StreamFormat); 10] = [
    ("sse", "complete", Sse),
    ("sse-bytes", "bytes", Sse),
    ("sse-one-write", "one-write", Sse),
    ("sse-chat", "chat", Sse),
    ("ndjson", "complete", Ndjson),
    ("ndjson-bytes", "bytes", Ndjson),
    ("ndjson-unterminated", "unterminated", Ndjson),
    ("json-objects", "complete", JsonObjects),
    ("json-objects-bytes", "bytes", JsonObjects),
    ("chunks", "complete", Chunks),
];
/// Besides, what kind of error that is.
const BROKEN: [(&str, &str, StreamFormat, ErrorKind); 16] = [
    ("sse-short", "short", Sse, Truncated),
    ("sse-empty", "empty", Sse, Truncated),
    ("sse-cut", "cut", Sse, Truncated),
    ("sse-reset", "reset", Sse, Truncated),
    ("sse-unterminated", "unterminated", Sse, Truncated),
    ("sse-half-item", "half-item", Sse, Truncated),
    ("sse-meaningless", "meaningless", Sse, Truncated),
    ("sse-early-close", "early-close", Sse, Reset),
    ("sse-garbage", "garbage", Sse, Decode),
    ("sse-after-the-end", "after-the-end", Sse, Decode),
    ("sse-endless-event", "endless", Sse, Decode),
    ("sse-wrong-item", "wrong-item", Sse, CheckFailed),
    ("sse-wrong-type", "wrong-type", Sse, CheckFailed),
    ("sse-silent", "silent", Sse, Timeout),
    ("ndjson-half-item", "half-item", Ndjson, Truncated),
    (
        "json-objects-half-item",
        "half-item",
        JsonObjects,
        Truncated,
    ),
];

pub(super) fn cases() -> Vec<Case> {
    let complete = COMPLETE.map(|(name, what, format)| {
        Exchange::right(format!("/stream/{what}/{}", format.name()))
            .method("POST")
            .more(request(what, format))
            .any_body()
            .items(ITEMS)
            .connections(u64::from(USERS))
            .case(GROUP, name, SPLIT)
    });
    let broken = BROKEN.map(|(name, what, format, kind)| {
        let stands_for = match kind {
            Truncated if what.starts_with("un") || what.starts_with("half") => UNFINISHED,
            Decode if what == "endless" => ENDLESS,
            Decode | CheckFailed => WRONG_ITEM,
            _ => TRUNCATED,
        };
        Exchange::wrong(format!("/stream/{what}/{}", format.name()), &[kind])
            .method("POST")
            .more(request(what, format))
            .any_connections()
            .any_time()
            .case(GROUP, name, stands_for)
    });
    complete.into_iter().chain(broken).chain(cut()).collect()
}

/// Without chunks, nothing but the stream itself tells its end: closed after any of its bytes.
fn cut() -> Vec<Case> {
    let cut = |name, format: StreamFormat, complete| {
        let bytes = format.complete_body().len() as u64;
        let truncated = bytes + 1 - complete;
        Exchange::right(format!("/stream-cut/${{iteration}}/{}", format.name()))
            .more(request("cut", format))
            .any_body()
            .counts(1, complete, &[(Truncated, truncated)])
            .connections(bytes + 1)
            .items(ITEMS)
            .case(GROUP, name, UNFINISHED)
    };
    vec![
        // The blank line behind the end marker makes it one.
        cut("sse-cut-anywhere", Sse, 1),
        // A last line needs no line feed.
        cut("ndjson-cut-anywhere", Ndjson, 2),
        cut("json-objects-cut-anywhere", JsonObjects, 1),
    ]
}

/// A request with all tests that its format allows.
fn request(what: &str, format: StreamFormat) -> String {
    // The server pauses, too, but never for long.
    let idle_timeout = if what == "silent" { "300ms" } else { "15s" };
    let meaningful = "meaningful = { json = \"/message\", is = \"non-empty\" }";
    let each = "each = { json = { \"/message\" = \"string\" } }";
    let (meaningful, each, content_type) = match format {
        Chunks => ("", "", "text/plain"),
        Ndjson => (meaningful, each, "application/x-ndjson"),
        Sse | JsonObjects => (meaningful, each, "text/event-stream"),
    };
    let marker = if format == Sse {
        "end_marker = \"[DONE]\""
    } else {
        ""
    };
    format!(
        "timeout = \"20s\"\n\
         [request.stream]\ndecoder = \"{}\"\nidle_timeout = \"{idle_timeout}\"\n{meaningful}\n\
         [request.stream.complete]\nitems_min = {ITEMS}\n{marker}\n\
         [request.expect]\nheaders = {{ content-type = \"{content_type}*\" }}\n{each}",
        format.name()
    )
}
