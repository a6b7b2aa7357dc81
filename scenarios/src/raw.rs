//! The scenario file as it is written: serde reads it, schemars makes its JSON Schema
//! from it. Meaning (variables, durations, pointers, order) is `resolve`'s work.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Json;

use choices::{FormField, RawBody, Repeated, ThinkText};
use values::{DurationText, Ordered, Scalar, StatusSchema, Statuses, Test, UsersSchema};

pub(crate) mod choices;
pub(crate) mod values;

/// What to send to a service, and what a right answer looks like.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
#[schemars(title = "Unstall scenario")]
pub(crate) struct Scenario {
    /// The scenario's name: lower-case letters, digits and `-`.
    pub(crate) name: String,
    /// One sentence for people.
    #[serde(default)]
    pub(crate) describe: String,
    /// Variables: `${name}` in any text below. `user` and `iteration` are built in.
    #[serde(default)]
    pub(crate) vars: BTreeMap<String, Variable>,
    /// How every user's client behaves.
    #[serde(default)]
    pub(crate) client: Client,
    /// Further services: name → base URL, in which variables known before the run may stand. The
    /// one without a name is the target of the command line.
    #[serde(default)]
    pub(crate) hosts: BTreeMap<String, String>,
    /// What every request has unless it says otherwise.
    #[serde(default)]
    pub(crate) defaults: Defaults,
    /// The bystander: one route called at a fixed rate beside the load.
    pub(crate) probe: Option<Probe>,
    /// Users who hold streams open beside the load, and are in no count of it.
    pub(crate) background: Option<Background>,
    /// Requests before the load, not measured.
    #[serde(default)]
    pub(crate) setup: Vec<Setup>,
    /// The measured requests; each user sends them in this order, again and again.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) request: Vec<Request>,
    /// The load of a run that isn't told otherwise.
    #[serde(default)]
    pub(crate) load: Load,
}

/// How every user's client behaves.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Client {
    /// Which HTTP is spoken [auto].
    pub(crate) http: Option<Http>,
    /// How long a connection is kept [user].
    pub(crate) reuse: Option<Reuse>,
    /// Redirects followed for one request; one more is an error [0: a redirect is an answer like
    /// any other].
    #[schemars(range(min = 0, max = 100))]
    pub(crate) redirects_max: Option<u32>,
    /// Whether each user keeps a jar of cookies [false].
    pub(crate) cookies: Option<bool>,
    /// Whether compressed answers are asked for and decoded [false].
    pub(crate) compression: Option<bool>,
}

/// Which HTTP is spoken.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
pub(crate) enum Http {
    /// What both sides agree on by ALPN over TLS; HTTP/1.1 without TLS.
    #[serde(rename = "auto")]
    Auto,
    /// HTTP/1.1.
    #[serde(rename = "1.1")]
    One,
    /// HTTP/2; without TLS by prior knowledge.
    #[serde(rename = "2")]
    Two,
}

/// How long a connection is kept.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reuse {
    /// As long as its user lives.
    User,
    /// A new one for each iteration.
    Iteration,
    /// A new one for each request.
    Never,
}

/// A variable: a literal, or a table that says where its value comes from.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum Variable {
    /// The value itself.
    Literal(Scalar),
    /// Where it comes from.
    Source(Source),
}

/// Where a variable's value comes from.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Source {
    /// An environment variable; an empty one counts as not set.
    pub(crate) env: Option<String>,
    /// The value when nothing else gives one; `${user}` and `${iteration}` may stand in it.
    pub(crate) default: Option<Scalar>,
    /// Whether it may stay without a value: headers, query parameters and form fields
    /// whose variables are all absent are left out.
    #[serde(default)]
    pub(crate) optional: bool,
    /// Never printed or recorded. Beside `env`, a default with built-in variables is not secret.
    #[serde(default)]
    pub(crate) secret: bool,
    /// A CSV file with a header line, or a JSONL file, beside the scenario.
    pub(crate) file: Option<String>,
    /// The file's column.
    pub(crate) column: Option<String>,
    /// How a row is chosen [round-robin].
    pub(crate) pick: Option<Pick>,
    /// Drawn anew for each iteration, by the run's seed.
    pub(crate) random: Option<RandomWord>,
    /// The smallest `int`.
    pub(crate) min: Option<i64>,
    /// The largest `int`.
    pub(crate) max: Option<i64>,
    /// The values of `choice`.
    #[schemars(length(min = 1))]
    pub(crate) of: Option<Vec<Scalar>>,
    /// The number of characters of `text`.
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) length: Option<u64>,
}

/// What a random variable draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RandomWord {
    /// A UUID of version 4.
    Uuid,
    /// A whole number from `min` to `max`.
    Int,
    /// One of the values of `of`.
    Choice,
    /// So many letters and digits as `length` says.
    Text,
}

/// How a row is chosen.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Pick {
    /// In order over all users and iterations.
    RoundRobin,
    /// Seeded random.
    Random,
    /// The user's own row.
    PerUser,
}

/// What every request has unless it says otherwise.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Defaults {
    /// Headers; a request's own win.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Scalar>")]
    pub(crate) headers: Ordered<Scalar>,
    /// Longer is an error [30s].
    pub(crate) timeout: Option<DurationText>,
}

/// The bystander.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Probe {
    /// The route, called with GET.
    pub(crate) path: String,
    /// Requests per second [50].
    pub(crate) rate: Option<f64>,
}

/// Users beside the load. They begin when the load's own users are warm, and the load begins when
/// each of them has its stream open, or none has come further for 2 s.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Background {
    /// How many: a number, or a variable that is one and known before the run; 0 is none.
    #[schemars(with = "UsersSchema")]
    pub(crate) users: Scalar,
    /// What each of them sends, in this order, again and again; at least one is a stream.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) request: Vec<Request>,
}

/// A request before the load.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Setup {
    /// Once per `run` or once per `user` [run].
    pub(crate) per: Option<Per>,
    /// Skipped when this variable has a value.
    pub(crate) unless: Option<String>,
    /// A name for messages [method and path].
    pub(crate) name: Option<String>,
    /// HTTP method, upper-case.
    pub(crate) method: String,
    /// A name of `[hosts]` [the target].
    pub(crate) host: Option<String>,
    /// Path from `/`, without query.
    pub(crate) path: String,
    /// Query parameters; a list repeats one.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Repeated<Scalar>>")]
    pub(crate) query: Ordered<Repeated<Scalar>>,
    /// Headers, beside the defaults.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Scalar>")]
    pub(crate) headers: Ordered<Scalar>,
    /// A JSON body.
    pub(crate) json: Option<Json>,
    /// A URL-encoded form; a list repeats a field.
    #[schemars(with = "Option<BTreeMap<String, Repeated<Scalar>>>")]
    pub(crate) form: Option<Ordered<Repeated<Scalar>>>,
    /// A multipart form of texts and files; a list repeats a part.
    #[schemars(with = "Option<BTreeMap<String, Repeated<FormField>>>")]
    pub(crate) multipart: Option<Ordered<Repeated<FormField>>>,
    /// Any other body, a text or `{ file = "…" }`; needs `content_type`.
    pub(crate) body: Option<RawBody>,
    /// The content type of `body`.
    pub(crate) content_type: Option<String>,
    /// The functional check.
    pub(crate) expect: Option<Expect>,
    /// Variables taken from the answer.
    #[serde(default)]
    pub(crate) extract: BTreeMap<String, Extract>,
    /// Longer is an error [the defaults'].
    pub(crate) timeout: Option<DurationText>,
}

/// How often a setup request runs.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Per {
    /// Once.
    Run,
    /// Once per user.
    User,
}

/// A measured request: one endpoint of the record.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Request {
    /// The endpoint's name in the record, unique, at most 100 characters.
    #[schemars(length(min = 1, max = 100))]
    pub(crate) name: String,
    /// Neighbouring requests with a weight are alternatives: each iteration sends one of them,
    /// as often as its weight has a part in their sum [sent in each iteration].
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub(crate) weight: Option<f64>,
    /// HTTP method, upper-case.
    pub(crate) method: String,
    /// A name of `[hosts]` [the target].
    pub(crate) host: Option<String>,
    /// Path from `/`, without query.
    pub(crate) path: String,
    /// Query parameters; a list repeats one.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Repeated<Scalar>>")]
    pub(crate) query: Ordered<Repeated<Scalar>>,
    /// Headers, beside the defaults.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Scalar>")]
    pub(crate) headers: Ordered<Scalar>,
    /// A JSON body.
    pub(crate) json: Option<Json>,
    /// A URL-encoded form; a list repeats a field.
    #[schemars(with = "Option<BTreeMap<String, Repeated<Scalar>>>")]
    pub(crate) form: Option<Ordered<Repeated<Scalar>>>,
    /// A multipart form of texts and files; a list repeats a part.
    #[schemars(with = "Option<BTreeMap<String, Repeated<FormField>>>")]
    pub(crate) multipart: Option<Ordered<Repeated<FormField>>>,
    /// Any other body, a text or `{ file = "…" }`; needs `content_type`.
    pub(crate) body: Option<RawBody>,
    /// The content type of `body`.
    pub(crate) content_type: Option<String>,
    /// The functional check [any 2xx].
    pub(crate) expect: Option<Expect>,
    /// Variables taken from the answer, for later requests of the same iteration.
    #[serde(default)]
    pub(crate) extract: BTreeMap<String, Extract>,
    /// How the answer is read, when it is a stream.
    pub(crate) stream: Option<Stream>,
    /// Pause before the next request [0ms].
    pub(crate) think: Option<ThinkText>,
    /// Longer is an error [the defaults'].
    pub(crate) timeout: Option<DurationText>,
    /// Whether a comparison judges its times [true]; errors are judged in any case.
    pub(crate) judge: Option<bool>,
}

/// What a right answer looks like.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Expect {
    /// The accepted status, or a list of them [any 2xx].
    #[schemars(with = "Option<StatusSchema>")]
    pub(crate) status: Option<Statuses>,
    /// Header → pattern in which `*` is any text.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// JSON pointer → test.
    #[serde(default)]
    pub(crate) json: BTreeMap<String, Test>,
    /// Tests of each item of a stream.
    pub(crate) each: Option<Each>,
}

/// Tests of each item of a stream.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Each {
    /// JSON pointer → test.
    pub(crate) json: BTreeMap<String, Test>,
}

/// Where a variable stands in an answer: one of `json`, `header` and `item`, or the whole body,
/// and with `regex` the part of that to take.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a table as `{ json = \"/pointer\" }`"
)]
pub(crate) struct Extract {
    /// JSON pointer into the body.
    pub(crate) json: Option<String>,
    /// A header.
    pub(crate) header: Option<String>,
    /// JSON pointer into an item of the stream.
    pub(crate) item: Option<String>,
    /// Which of the items that have it [first].
    pub(crate) which: Option<Which>,
    /// Takes its only group, or what it fits as a whole.
    pub(crate) regex: Option<String>,
    /// Never printed or recorded.
    #[serde(default)]
    pub(crate) secret: bool,
}

/// One of a stream's items.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Which {
    /// The first.
    First,
    /// The last.
    Last,
}

/// How an answer is read as a stream.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Stream {
    /// How items are cut from the body.
    pub(crate) decoder: Decoder,
    /// The first item that passes ends the time to first token [the first item].
    pub(crate) meaningful: Option<ItemTest>,
    /// Hang up after this many items, the first meaningful one at the earliest, as a user does
    /// who goes away [read to the end].
    #[schemars(range(min = 1))]
    pub(crate) leave_after: Option<u64>,
    /// What a whole stream has; less is an error of kind `truncated`.
    #[serde(default)]
    pub(crate) complete: Complete,
    /// The longest silence within the body [10s].
    pub(crate) idle_timeout: Option<DurationText>,
}

/// How items are cut from a body.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Decoder {
    /// Server-sent events.
    Sse,
    /// One JSON document per line.
    Ndjson,
    /// JSON objects one after the other.
    JsonObjects,
    /// The body's pieces as they come: an HTTP chunk, or the part of it that one read brings.
    Chunks,
}

/// A test of one value of an item: `is` or `equals`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a table as `{ json = \"/pointer\", is = \"non-empty\" }`"
)]
pub(crate) struct ItemTest {
    /// JSON pointer.
    pub(crate) json: String,
    /// What it must be, in a word.
    pub(crate) is: Option<String>,
    /// What it must equal.
    pub(crate) equals: Option<Json>,
}

/// What a whole stream has.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Complete {
    /// The least number of items [1].
    pub(crate) items_min: Option<u64>,
    /// A test of the last item.
    pub(crate) last: Option<ItemTest>,
    /// The text of a final item that isn't JSON, as `[DONE]`.
    pub(crate) end_marker: Option<String>,
}

/// The load of a run that isn't told otherwise: closed, or open where there is no closed one.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Load {
    /// Users who each wait for their answer.
    pub(crate) closed: Option<Closed>,
    /// Sends at their own times; beside a closed load they are for runs that ask for them.
    pub(crate) open: Option<Open>,
}

/// Users who each wait for their answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Closed {
    /// Numbers of users, one level after the other.
    #[schemars(length(min = 1), inner(range(min = 1, max = 10_000)))]
    pub(crate) concurrency: Vec<u32>,
    /// Requests per endpoint, level and block [400, and in `run` at least 3 per user].
    #[schemars(range(min = 1, max = 100_000_000))]
    pub(crate) requests: Option<u64>,
}

/// Sends at their own times.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Open {
    /// How the sends are spread [poisson].
    pub(crate) arrivals: Option<Arrivals>,
    /// Rates, one after the other.
    #[schemars(length(min = 1))]
    pub(crate) stages: Vec<Stage>,
}

/// How the sends of an open load are spread.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Arrivals {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Constant,
}

/// One stretch of an open load.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a table as `{ rate = 50, for = \"30s\" }`"
)]
pub(crate) struct Stage {
    /// Arrivals per second; each is one pass through the requests.
    pub(crate) rate: f64,
    /// How long.
    #[serde(rename = "for")]
    pub(crate) duration: DurationText,
}
