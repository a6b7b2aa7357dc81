//! The resolved scenario: what the engine drives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::redaction::Redaction;

pub use answer::{Decoder, Expect, JsonTest, Quotes, Stream};
pub use request::{
    Alternative, Body, Extract, ExtractFrom, FormContent, FormPart, JsonBody, JsonPart, Request,
    Think, Which,
};
pub use variable::{Feeder, Part, Pick, Random, RandomKind, Template, Value, Var};

mod answer;
mod request;
mod variable;

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
    /// SHA-256 of the file's bytes and of the files that it names, hex.
    pub sha256: String,
    /// How every user's client behaves.
    pub client: ClientBehaviour,
    /// Further services: name → base URL, variables filled in. The one without a name is the
    /// target of the command line.
    pub hosts: BTreeMap<String, String>,
    /// Values of variables that are known before the first request.
    pub vars: BTreeMap<String, Var>,
    /// Requests before the load, not measured.
    pub setup: Vec<Setup>,
    /// The measured requests, in the order in which each user calls them.
    pub requests: Vec<Request>,
    /// The bystander's route.
    pub probe: Option<Probe>,
    /// Who holds streams open beside the load.
    pub background: Option<Background>,
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

    /// How many requests one iteration sends: of neighbours with a weight it sends one.
    pub fn requests_per_iteration(&self) -> usize {
        let requests = self.requests.iter().enumerate();
        let sent = requests.filter(|(index, request)| {
            let alternative = request.alternative.as_ref();
            alternative.is_none_or(|alternative| alternative.first == *index)
        });
        sent.count()
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

/// How a user's client behaves around its requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientBehaviour {
    /// Which HTTP it speaks.
    pub http: HttpVersion,
    /// How long it keeps a connection.
    pub reuse: Reuse,
    /// Redirects followed for one request; 0: a redirect is an answer like any other. One more
    /// than this is an error.
    pub redirects_max: u32,
    /// Whether each user keeps a jar of cookies.
    pub cookies: bool,
    /// Whether compressed answers are asked for.
    pub compression: bool,
}

/// Which HTTP a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpVersion {
    /// What both sides agree on by ALPN over TLS; HTTP/1.1 without TLS.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2; without TLS by prior knowledge.
    Http2,
}

/// How long a client keeps a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reuse {
    /// As long as its user lives.
    #[default]
    User,
    /// A new one for each iteration.
    Iteration,
    /// A new one for each request.
    Never,
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

/// Users who hold streams open beside the load, and are in no count of it.
#[derive(Debug, Clone)]
pub struct Background {
    /// How many, at least 1.
    pub users: u32,
    /// What each of them sends, again and again: a plan without setup, probe and load of its own.
    pub plan: Arc<Plan>,
}

/// The scenario's own default load: closed, unless the file has an open one only.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// Concurrency levels of the closed model; empty when the file has an open load only.
    pub concurrency: Vec<u32>,
    /// Requests per endpoint, level and block, where the file says how many are enough.
    pub requests: Option<u64>,
    /// The open model, when the file has one.
    pub open: Option<OpenLoad>,
}

impl Load {
    /// Whether the load is open where nobody says otherwise.
    pub fn is_open(&self) -> bool {
        self.concurrency.is_empty() && self.open.is_some()
    }
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
    /// Arrivals per second; each is one pass through the requests.
    pub rate: f64,
    /// How long.
    pub duration: Duration,
}
