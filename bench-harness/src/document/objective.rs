//! What a policy says of a cell and of a version, in the document of `--json`.

use schemars::JsonSchema;
use serde::Serialize;
use unstall_results::policy::Margin;
use unstall_results::slo::{SloFinding, SloOutcome};

use super::finite;
use super::measurement::users;

/// What is a regression and what is harm.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct MarginDocument {
    /// Worse by more than this is a regression: a share of a ratio (0.05 for 5 %), the metric's
    /// unit of a difference.
    margin: Option<f64>,
    /// A pass excludes more than this, in the same terms.
    limit: Option<f64>,
    /// A smaller absolute change is no harm: in the metric's unit.
    floor: Option<f64>,
}

impl From<&Margin> for MarginDocument {
    fn from(margin: &Margin) -> Self {
        Self {
            margin: finite(margin.regression),
            limit: finite(margin.harm),
            floor: finite(margin.floor),
        }
    }
}

/// One objective on one endpoint at one level, judged on the second version.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct SloDocument {
    /// As the policy writes it, without the endpoint: `p95<200ms`.
    objective: String,
    /// Endpoint, `null` for all requests together.
    endpoint: Option<String>,
    /// Users at once; `null` of an open load.
    level: Option<u32>,
    /// Arrivals per second that an open load offered; `null` of a closed one.
    arrivals_per_second: Option<f64>,
    /// Unit of all values: `ms` or `percent`.
    unit: &'static str,
    /// Of a percentile the median over blocks, of errors the share of all requests, of `max` the
    /// longest; `null` when nothing was measured.
    value: Option<f64>,
    /// Lower end of its interval, one-sided at alpha.
    low: Option<f64>,
    /// Upper end of the same.
    high: Option<f64>,
    /// True when the value is only a lower bound.
    at_least: bool,
    /// What the value must stay below.
    limit: f64,
    /// The same value of the first version, by which nothing is judged.
    before: Option<f64>,
    /// Blocks of the second version.
    blocks: u64,
    /// Those of them that kept the limit by themselves.
    blocks_within: u64,
    /// Requests behind it.
    requests: u64,
    /// `met`, `missed` or `cant_tell`.
    outcome: &'static str,
    /// Pairs that would probably settle it.
    pairs_needed: Option<u32>,
    /// Requests per endpoint and block that it takes, where they are too few.
    requests_needed: Option<u64>,
    /// What must be known about it.
    note: Option<String>,
}

impl From<&SloFinding> for SloDocument {
    fn from(slo: &SloFinding) -> Self {
        let (outcome, pairs_needed, requests_needed) = match slo.outcome {
            SloOutcome::Met => ("met", None, None),
            SloOutcome::Missed => ("missed", None, None),
            SloOutcome::CantTell {
                pairs_needed,
                requests_needed,
            } => ("cant_tell", pairs_needed, requests_needed),
        };
        Self {
            objective: slo.objective.clone(),
            endpoint: slo.endpoint.clone(),
            level: users(slo.level),
            arrivals_per_second: slo.level.rate_per_second(),
            unit: if slo.is_share { "percent" } else { "ms" },
            value: slo.value.and_then(finite),
            low: slo.low.and_then(finite),
            high: slo.high.and_then(finite),
            at_least: slo.at_least,
            limit: slo.limit,
            before: slo.before.and_then(finite),
            blocks: slo.blocks,
            blocks_within: slo.blocks_within,
            requests: slo.requests,
            outcome,
            pairs_needed,
            requests_needed,
            note: slo.note.clone(),
        }
    }
}
