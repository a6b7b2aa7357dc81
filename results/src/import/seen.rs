//! What another tool saw, in its own terms: between the files that are read and the record.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::histogram::LatencyHistogram;
use crate::record::{ErrorKind, StatedPercentile};

/// Names beyond that many are counted together: one per id would be thousands.
pub(super) const ENDPOINTS_MAX: usize = 200;
/// What those are called.
pub(super) const OTHERS: &str = "other";

/// One run of a tool.
#[derive(Debug)]
pub(super) struct Seen {
    /// As [`crate::record::Imported::tool`] names it.
    pub(super) tool: &'static str,
    /// From when to when its times run, where that is known.
    pub(super) times: Option<&'static str>,
    /// When it began, where the file tells.
    pub(super) begun: Option<Timestamp>,
    /// How long requests were sent.
    pub(super) wall: Duration,
    pub(super) load: SeenLoad,
    /// The service, where the file tells.
    pub(super) url: Option<String>,
    pub(super) endpoints: Vec<SeenEndpoint>,
    /// How many requests its percentiles are of, where that is fewer than ended.
    pub(super) recorded: Option<u64>,
    /// What isn't known, one sentence each.
    pub(super) missing: Vec<String>,
}

/// How requests were sent, as far as the tool can only do it so.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum SeenLoad {
    /// So many users waited for their answers.
    Closed { users: u32 },
    /// Requests went out at a rate that the file doesn't tell, over so many connections.
    Open { connections: u32 },
    /// It may have been either.
    Unknown,
}

/// Requests of one kind.
#[derive(Debug)]
pub(super) struct SeenEndpoint {
    pub(super) name: String,
    /// HTTP method; `?` where it isn't known.
    pub(super) method: String,
    pub(super) path: String,
    pub(super) completed: u64,
    pub(super) errors: BTreeMap<ErrorKind, u64>,
    /// Those that ended when the run did, and of which nothing is known.
    pub(super) cut_off: u64,
    pub(super) times: SeenTimes,
    pub(super) body_bytes: u64,
}

/// What is known of the times.
#[derive(Debug)]
pub(super) enum SeenTimes {
    /// Each of them: as many as there were answers, and failures.
    All {
        answers: LatencyHistogram,
        failures: LatencyHistogram,
    },
    /// Some percentiles, ascending.
    Stated(Vec<StatedPercentile>),
}
