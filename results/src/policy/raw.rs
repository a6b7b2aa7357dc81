//! The policy file as it is written: serde reads it, schemars makes its JSON Schema from it.
//! What it means is `resolve`'s work.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use toml::Spanned;

use crate::comparison::Metric;

/// How two versions are judged. Whatever the file doesn't say keeps its default.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
#[schemars(title = "Unstall policy")]
pub(super) struct RawPolicy {
    /// Significance level of every test and bound [0.05].
    #[schemars(with = "Option<f64>", extend("minimum" = 0.001, "maximum" = 0.5))]
    pub(super) alpha: Option<Spanned<f64>>,
    /// What an inconclusive comparison means [fail].
    pub(super) inconclusive: Option<RawConsequence>,
    /// What an invalid measurement means [fail].
    pub(super) invalid: Option<RawConsequence>,
    /// What two records of different sessions are [advise].
    pub(super) unpaired: Option<RawUnpaired>,
    /// Metrics that count for the verdict where no rule says otherwise [all but CPU, throughput,
    /// memory and the bystander probe].
    #[schemars(with = "Option<Vec<MetricName>>", length(min = 1), extend("uniqueItems" = true))]
    pub(super) judge: Option<Spanned<Vec<Spanned<Metric>>>>,
    /// Margins of a metric, for every endpoint.
    #[serde(default)]
    #[schemars(with = "BTreeMap<MetricName, RawMargin>")]
    pub(super) metrics: BTreeMap<Metric, Spanned<RawMargin>>,
    /// Margins of some endpoints and metrics. Of several rules that say something of a cell, the
    /// last one has its way.
    #[serde(default)]
    #[schemars(with = "Vec<RawRule>")]
    pub(super) rule: Vec<Spanned<RawRule>>,
    /// What must hold of the after version, whatever the before version does.
    #[serde(default)]
    #[schemars(with = "Vec<RawSlo>")]
    pub(super) slo: Vec<Spanned<RawSlo>>,
}

/// What follows from a verdict that is neither pass nor regression.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawConsequence {
    /// The exit code says so: 4 for inconclusive, 3 for invalid.
    Fail,
    /// Every output says so, and the exit code is 0.
    Warn,
}

/// What two records of different sessions are.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawUnpaired {
    /// Advice: their difference is shown, and the comparison is inconclusive.
    Advise,
    /// Evidence: their difference is judged, without a test.
    Judge,
}

/// Margins of a metric.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
#[schemars(extend("minProperties" = 1))]
pub(super) struct RawMargin {
    /// Worse by more than this is a regression: percent; points for `error_rate`.
    #[schemars(with = "Option<f64>", range(min = 0))]
    pub(super) margin: Option<Spanned<f64>>,
    /// A pass excludes more than this: percent; points for `error_rate`. Above `margin`.
    #[schemars(with = "Option<f64>", range(min = 0))]
    pub(super) limit: Option<Spanned<f64>>,
    /// A smaller absolute change is no harm: in the metric's unit.
    #[schemars(with = "Option<f64>", range(min = 0))]
    pub(super) floor: Option<Spanned<f64>>,
}

/// Margins of some endpoints and metrics. `*` in a glob is any run of characters, `?` is one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
#[schemars(extend(
    "allOf" = [
        {"anyOf": [{"required": ["endpoint"]}, {"required": ["metric"]}]},
        {"anyOf": [{"required": ["margin"]}, {"required": ["limit"]}, {"required": ["floor"]}, {"required": ["judged"]}]},
    ]
))]
pub(super) struct RawRule {
    /// Glob over `METHOD /path` and over the endpoint's name in the scenario [every endpoint and
    /// the whole service].
    #[schemars(with = "Option<String>", length(min = 1))]
    pub(super) endpoint: Option<Spanned<String>>,
    /// Glob over the names of metrics [all].
    #[schemars(with = "Option<String>", length(min = 1))]
    pub(super) metric: Option<Spanned<String>>,
    /// Worse by more than this is a regression: percent; points for `error_rate`.
    #[schemars(with = "Option<f64>", range(min = 0))]
    pub(super) margin: Option<Spanned<f64>>,
    /// A pass excludes more than this: percent; points for `error_rate`. Above `margin`.
    #[schemars(with = "Option<f64>", range(min = 0))]
    pub(super) limit: Option<Spanned<f64>>,
    /// A smaller absolute change is no harm: in the metric's unit.
    #[schemars(with = "Option<f64>", range(min = 0))]
    pub(super) floor: Option<Spanned<f64>>,
    /// Whether it counts for the verdict [as `judge` says].
    pub(super) judged: Option<bool>,
}

/// What must hold of the after version.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct RawSlo {
    /// Glob over `METHOD /path` and over the endpoint's name in the scenario [times of each
    /// judged endpoint, errors of all requests together].
    #[schemars(with = "Option<String>", length(min = 1))]
    pub(super) endpoint: Option<Spanned<String>>,
    /// Objectives as `unstall capacity --slo` takes them, like `p95<200ms,errors<0.1%`.
    #[schemars(with = "String", length(min = 1), regex(pattern = "<"))]
    pub(super) slo: Spanned<String>,
    /// Users at once, or arrivals per second of an open load [every level].
    #[schemars(with = "Option<f64>", extend("exclusiveMinimum" = 0))]
    pub(super) level: Option<Spanned<f64>>,
}

/// Names of metrics, for the schema.
struct MetricName;

impl JsonSchema for MetricName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "MetricName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": Metric::ALL.map(Metric::name) })
    }
}

/// The JSON Schema of policy files.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(RawPolicy).to_value()
}
