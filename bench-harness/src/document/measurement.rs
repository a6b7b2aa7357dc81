//! One version's measurement in the document of `--json`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use unstall_results::level::Level;
use unstall_results::record::{ErrorKind, RunRecord};
use unstall_results::summary::{Percentile, Summary, summarise};

use super::beside::{self, AnswersDocument, BystanderDocument, ConnectingDocument, StreamDocument};
use super::comparison::EstimateDocument;
use super::finite;

/// One record whose versions were not compared.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RunDocument {
    /// Label of the record.
    label: String,
    /// Scenario that was driven.
    scenario: String,
    /// True when it was stopped before its plan was done.
    interrupted: bool,
    /// Why blocks may not be used, if any may not.
    faults: Vec<String>,
    /// Every level and endpoint; invalid blocks are left out.
    measured: Vec<MeasuredDocument>,
    /// What the bystander probe waited, by level; empty without one.
    bystanders: Vec<BystanderDocument>,
    /// Streams by endpoint and level; empty without any.
    streams: Vec<StreamDocument>,
    /// Connections that requests opened while it was measured, by endpoint and level; empty where
    /// users kept those of their warm-up.
    connections: Vec<ConnectingDocument>,
    /// Sizes of answers and redirects by endpoint; only endpoints with either.
    answers: Vec<AnswersDocument>,
}

/// One endpoint, or the whole service, at one level.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct MeasuredDocument {
    /// The version: `run`, or `before` and `after`.
    arm: String,
    /// Users at once; `null` of an open load.
    level: Option<u32>,
    /// Arrivals per second that an open load offered; `null` of a closed one.
    arrivals_per_second: Option<f64>,
    /// Its name in the scenario, `null` for the whole service.
    endpoint: Option<String>,
    /// Requests that ended well or badly.
    requests: u64,
    /// Checked, successful answers.
    completed: u64,
    /// Failures by kind; only kinds that occurred.
    errors: BTreeMap<String, u64>,
    /// Whether the service could not keep up with an open load's arrivals.
    saturated: bool,
    /// Completed requests per second of wall time.
    requests_per_second: Option<f64>,
    /// Response time; `null` for the whole service, whose requests are not alike.
    p50_ms: Option<EstimateDocument>,
    /// See `p50_ms`.
    p95_ms: Option<EstimateDocument>,
    /// See `p50_ms`.
    p99_ms: Option<EstimateDocument>,
    /// Longest successful answer.
    max_ms: Option<f64>,
    /// Blocked loop time, where the service's monitor counted it.
    blocked_ms_per_1000: Option<f64>,
    /// CPU of the service, where it was started here.
    cpu_us_per_request: Option<f64>,
    /// Threads of the service, where it was started here.
    threads: Option<f64>,
}

impl From<&RunRecord> for RunDocument {
    fn from(record: &RunRecord) -> Self {
        let invalid = record.blocks.iter().filter(|block| !block.validity.ok);
        Self {
            label: record.label.clone(),
            scenario: record.scenario.name.clone(),
            interrupted: record.interrupted,
            faults: invalid
                .flat_map(|block| block.validity.reasons.iter().cloned())
                .collect(),
            measured: summarise(record)
                .iter()
                .map(MeasuredDocument::from)
                .collect(),
            bystanders: beside::bystanders(record),
            streams: beside::streams(record),
            connections: beside::connections(record),
            answers: beside::answers_of(record),
        }
    }
}

impl From<&Summary> for MeasuredDocument {
    fn from(summary: &Summary) -> Self {
        Self {
            arm: summary.arm.clone(),
            level: users(summary.level),
            arrivals_per_second: summary.level.rate_per_second(),
            endpoint: summary.endpoint.clone(),
            requests: summary.requests,
            completed: summary.completed,
            errors: counts_by_name(&summary.errors),
            saturated: summary.is_saturated,
            requests_per_second: finite(summary.throughput_per_second),
            p50_ms: percentile(summary, 0.5),
            p95_ms: percentile(summary, 0.95),
            p99_ms: percentile(summary, 0.99),
            #[expect(clippy::cast_precision_loss, reason = "far below 2^53 µs")]
            max_ms: summary.response_us_max.map(|us| us as f64 / 1e3),
            blocked_ms_per_1000: summary.blocked_ms_per_1000.and_then(finite),
            cpu_us_per_request: summary.cpu_us_per_request.and_then(finite),
            threads: summary.threads.and_then(finite),
        }
    }
}

fn percentile(summary: &Summary, q: f64) -> Option<EstimateDocument> {
    let same = |percentile: &&Percentile| (percentile.q - q).abs() < 1e-9;
    let percentile = summary.percentiles.iter().find(same)?;
    Some(EstimateDocument::from(&percentile.estimate))
}

/// Users at once, of a closed load.
pub(super) fn users(level: Level) -> Option<u32> {
    match level {
        Level::Users(users) => Some(users),
        Level::MilliRate(_) | Level::Unknown => None,
    }
}

/// Failures by the names that a record uses.
pub(super) fn counts_by_name(errors: &BTreeMap<ErrorKind, u64>) -> BTreeMap<String, u64> {
    let errors = errors.iter();
    errors
        .map(|(kind, count)| (kind.as_str().to_owned(), *count))
        .collect()
}
