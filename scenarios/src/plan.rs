//! The resolved scenario: what the engine drives.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::redaction::Redaction;

/// Names that every scope knows: the user's index from 0, and how often the user
/// has begun the request list, from 0.
pub const BUILT_IN_VARIABLES: [&str; 2] = ["user", "iteration"];

/// A scenario, checked and ready to drive.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// One sentence.
    pub describe: String,
    /// SHA-256 of the file's bytes, hex.
    pub sha256: String,
    /// Values of variables that are known before the first request.
    pub vars: BTreeMap<String, Var>,
    /// Requests before the load, not measured.
    pub setup: Vec<Setup>,
    /// The measured requests, in the order in which each user calls them.
    pub requests: Vec<Request>,
    /// The bystander's route.
    pub probe: Option<Probe>,
    /// The default load.
    pub load: Load,
    /// The secrets of this plan, to be taken out of whatever is printed or recorded.
    pub redaction: Redaction,
}

impl Plan {
    /// The text without this plan's secrets. Values that answers bring
    /// (`extract … secret = true`) are known to [`Scope::redact`](crate::scope::Scope::redact) only.
    pub fn redact<'t>(&self, text: &'t str) -> std::borrow::Cow<'t, str> {
        self.redaction.apply(text)
    }

    /// Whether any request reads its answer as a stream.
    pub fn has_stream(&self) -> bool {
        self.requests.iter().any(|request| request.stream.is_some())
    }

    /// Whether every user makes requests of its own before the load.
    pub fn sets_up_users(&self) -> bool {
        self.setup.iter().any(|setup| setup.per == Per::User)
    }

    /// The endpoints' names, in order.
    pub fn endpoints(&self) -> impl Iterator<Item = &str> {
        self.requests.iter().map(|request| request.name.as_str())
    }
}

/// A variable's value.
#[derive(Debug, Clone)]
pub enum Var {
    /// The same for every request.
    Value(Value),
    /// A default that uses built-in variables, as `"u-${user}"`.
    Template(Template),
    /// One row per user and iteration, from a CSV or JSONL file.
    Feeder(Feeder),
    /// Optional and not given: headers that need it are left out.
    Absent,
}

/// A value and whether it may be shown.
#[derive(Clone)]
pub struct Value {
    /// The value; strings keep their type as `"${n}"` alone does.
    pub value: serde_json::Value,
    /// Never printed or recorded.
    pub secret: bool,
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.secret {
            f.write_str("Value(secret)")
        } else {
            write!(f, "Value({})", self.value)
        }
    }
}

/// Rows of a file.
#[derive(Clone)]
pub struct Feeder {
    /// The column's values.
    pub values: Vec<String>,
    /// How a row is chosen. Feeders of one file with one pick stay on one row.
    pub pick: Pick,
}

/// Without the rows, which may be secrets.
impl std::fmt::Debug for Feeder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Feeder({} rows, {:?})", self.values.len(), self.pick)
    }
}

/// How a feeder's row is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// In order, over all users.
    RoundRobin,
    /// Seeded random.
    Random,
    /// Row = user, wrapped.
    PerUser,
}

/// A text with `${variables}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Literal and variable parts, in order.
    pub parts: Vec<Part>,
}

/// One part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// As it stands.
    Literal(String),
    /// A variable's name.
    Variable(String),
}

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its name: the endpoint in the record.
    pub name: String,
    /// HTTP method.
    pub method: String,
    /// Path, starting with `/`.
    pub path: Template,
    /// Query parameters, in the file's order, not yet percent-encoded.
    pub query: Vec<(String, Template)>,
    /// Headers, defaults merged in, names lower-case.
    pub headers: Vec<(String, Template)>,
    /// What is sent.
    pub body: Body,
    /// The functional check.
    pub expect: Expect,
    /// Variables taken from the answer: name → JSON pointer.
    pub extract: BTreeMap<String, String>,
    /// Those of `extract` that are secret.
    pub extract_secret: BTreeSet<String>,
    /// How the body is read as a stream, if it is one.
    pub stream: Option<Stream>,
    /// Pause before the next request.
    pub think: Duration,
    /// Longer is an error.
    pub timeout: Duration,
    /// False when its times are shown and not judged.
    pub judged: bool,
}

/// A request's body.
#[derive(Debug, Clone)]
pub enum Body {
    /// None.
    Empty,
    /// JSON, with templates in its strings.
    Json(JsonBody),
    /// URL-encoded form.
    Form(Vec<(String, Template)>),
    /// Multipart form.
    Multipart(Vec<(String, Template)>),
    /// Anything, with its content type.
    Raw {
        /// Content type.
        content_type: String,
        /// The text.
        text: Template,
    },
}

/// A JSON document, serialised around its variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonBody {
    /// Text and variables, in order.
    pub parts: Vec<JsonPart>,
}

/// One part of a JSON document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonPart {
    /// As it stands, already JSON.
    Text(String),
    /// A variable that is a whole value and keeps its type.
    Value(String),
    /// A variable inside a string.
    Inside(String),
}

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
    /// Whether messages may quote the answer: not when it holds a secret to extract.
    pub quotes_answer: bool,
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

/// A request before the load.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Once, or once per user.
    pub per: Per,
    /// Skipped when this variable has a value.
    pub unless: Option<String>,
    /// The request.
    pub request: Request,
}

/// How often a setup request runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// Once.
    Run,
    /// Once per user.
    User,
}

/// The bystander probe.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// Route.
    pub path: String,
    /// Requests per second.
    pub rate: f64,
}

/// The scenario's own default load.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// Concurrency levels of the closed model; empty when the load is open.
    pub concurrency: Vec<u32>,
    /// Requests per endpoint, level and block, where the file says how many are enough.
    pub requests: Option<u64>,
    /// The open model, when the file asks for it instead.
    pub open: Option<OpenLoad>,
}

/// Load that comes at its own times, whatever the answers do.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenLoad {
    /// How the sends are spread.
    pub arrivals: Arrivals,
    /// Rates, one after the other.
    pub stages: Vec<Stage>,
}

/// How the sends of an open load are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Exponential gaps, as independent clients make them.
    Poisson,
    /// Equal gaps.
    Constant,
}

/// One stretch of an open load.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Sends per second.
    pub rate: f64,
    /// How long.
    pub duration: Duration,
}
