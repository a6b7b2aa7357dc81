//! What a right answer looks like, whole or as a stream.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::redaction::Redaction;

/// What a right answer looks like.
#[derive(Debug, Clone)]
pub struct Expect {
    /// Accepted statuses.
    pub status: Vec<u16>,
    /// Header → glob with `*`.
    pub headers: BTreeMap<String, String>,
    /// JSON pointer → test.
    pub json: BTreeMap<String, JsonTest>,
    /// The same for each item of a stream.
    pub each: BTreeMap<String, JsonTest>,
    /// What messages must not quote.
    pub redaction: Redaction,
    /// Whether messages may quote the answer.
    pub quotes: Quotes,
}

/// Whether messages may quote an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quotes {
    /// Yes, without the plan's secrets.
    Always,
    /// Only where the user's own secrets, which came with this run, are known and taken out too.
    WithScope,
    /// No: it holds a secret to extract.
    Never,
}

/// A test of one JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum JsonTest {
    /// Present, whatever it is.
    Any,
    /// Of this JSON type: `string`, `number`, `integer`, `boolean`, `array`, `object`, `null`.
    Type(String),
    /// A non-empty string or array.
    NonEmpty,
    /// Equal to this value.
    Equals(serde_json::Value),
    /// Missing, null, or passing this test: `"string?"` in a file.
    Optional(Box<JsonTest>),
}

/// How a streamed body is read.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// `sse`, `ndjson`, `json-objects` or `chunks`.
    pub decoder: Decoder,
    /// The first item that passes it ends time-to-first-token.
    pub meaningful: Option<(String, JsonTest)>,
    /// Fewer items than this is an error of kind `truncated`.
    pub items_min: u64,
    /// The last item must pass it, else the stream is `truncated`.
    pub last: Option<(String, JsonTest)>,
    /// A final item of exactly this text (as `[DONE]`): no JSON, not counted, and
    /// without it the stream is `truncated`.
    pub end_marker: Option<String>,
    /// Hang up after this many items, and not before the first meaningful one: such a stream is
    /// a success as soon as it is left, and never has to be complete.
    pub leave_after: Option<u64>,
    /// Longest silence within the body; more is an error of kind `timeout`.
    pub idle_timeout: Duration,
}

/// How items are cut from a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoder {
    /// Server-sent events.
    Sse,
    /// One JSON document per line.
    Ndjson,
    /// JSON objects one after the other.
    JsonObjects,
    /// The body's pieces as they come: an HTTP chunk, or the part of it that one read brings.
    Chunks,
}
