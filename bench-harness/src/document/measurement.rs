//! One version's measurement in the document of `--json`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// One record of one version.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct RunDocument {
    /// Label of the record.
    pub(crate) label: String,
    /// Scenario that was driven.
    pub(crate) scenario: String,
    /// True when it was stopped before its plan was done.
    pub(crate) interrupted: bool,
    /// Faults of our own that spoil the numbers.
    pub(crate) faults: Vec<String>,
    /// Every endpoint and level.
    pub(crate) endpoints: Vec<EndpointDocument>,
}

/// One endpoint at one level.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct EndpointDocument {
    /// Its name in the scenario.
    pub(crate) endpoint: String,
    /// Users at once.
    pub(crate) level: u32,
    /// Checked, successful answers.
    pub(crate) completed: u64,
    /// Failures by kind.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Completed requests per second of wall time.
    pub(crate) requests_per_second: Option<f64>,
    /// Response time: median.
    pub(crate) p50_ms: PercentileDocument,
    /// Response time: 95th percentile.
    pub(crate) p95_ms: PercentileDocument,
    /// Response time: 99th percentile.
    pub(crate) p99_ms: PercentileDocument,
    /// Response time: maximum.
    pub(crate) max_ms: Option<f64>,
}

/// A percentile with its distribution-free interval.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct PercentileDocument {
    /// `null` when there are too few answers to tell.
    pub(crate) value: Option<f64>,
    /// Lower end of the 95 % interval, where one exists.
    pub(crate) low: Option<f64>,
    /// Upper end of the same.
    pub(crate) high: Option<f64>,
    /// True when the value is only a lower bound: failures reach into this percentile.
    pub(crate) at_least: bool,
}
