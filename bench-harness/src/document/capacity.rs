//! A search for capacity in the document of `--json`.

use schemars::JsonSchema;
use serde::Serialize;
use unstall_results::capacity::{
    ArmFinding, CONFIDENCE, Capacity, Ceiling, Finding, Goal, Ratio, SeenTrial, TrialEnd,
    goal_ratio,
};
use unstall_results::record::RunRecord;
use unstall_results::slo::Reading;

use super::{VerdictName, finite};

/// One search: how much one or two versions can take.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct CapacityDocument {
    /// Label of the record.
    label: String,
    /// Scenario that was driven.
    scenario: String,
    /// True when it was stopped before it was done.
    interrupted: bool,
    /// What had to hold.
    objective: String,
    /// The answer, the main number first.
    headline: String,
    /// What to do now.
    next_action: String,
    /// What must be known besides.
    notes: Vec<String>,
    /// The judgement of two versions, `null` of one.
    verdict: Option<VerdictName>,
    /// What intervals hold with, as a share.
    confidence: f64,
    /// Each version, the old one first.
    versions: Vec<VersionDocument>,
    /// After ÷ before; `null` of one version, or where nothing bounds it.
    ratio: Option<RatioDocument>,
}

/// What was found of one version.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct VersionDocument {
    /// `run`, or `before` and `after`.
    arm: String,
    /// `found`, `at_least`, `below` or `unknown`.
    outcome: &'static str,
    /// Arrivals per second: the capacity, or the bound that `outcome` names.
    rate_per_second: Option<f64>,
    /// Lower end of its interval.
    low_per_second: Option<f64>,
    /// Upper end of its interval.
    high_per_second: Option<f64>,
    /// Whether the interval is as narrow as was asked for.
    precise: bool,
    /// Of `at_least`: `asked`, no more was asked for; `ended`, the search was over before; or
    /// `generator`, which could not offer more.
    because: Option<&'static str>,
    /// Its blocks in the order in which they ran.
    blocks: Vec<TrialDocument>,
}

/// One block.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct TrialDocument {
    /// Offered, arrivals per second.
    rate_per_second: f64,
    /// Ended within the schedule, arrivals per second.
    served_per_second: Option<f64>,
    /// `held`, `failed`, `spoilt` by a fault on this side, or `idle`: nothing was sent that the
    /// objective is about.
    outcome: &'static str,
    /// Whether arrivals piled up until the end.
    saturated: bool,
    /// Each objective on each endpoint.
    readings: Vec<ReadingDocument>,
}

/// One objective on one endpoint.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ReadingDocument {
    /// As it is written.
    objective: String,
    /// `null` for all requests together.
    endpoint: Option<String>,
    /// ms of a time, a share of errors; `null` where nothing was answered.
    value: Option<f64>,
    /// The value is only a bound: failures or unfinished requests reach into it.
    at_least: bool,
    /// What it must stay below, in the same unit.
    limit: f64,
    /// Whether it does.
    holds: bool,
}

/// The new version's capacity by the old one's.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RatioDocument {
    /// `null` where only a bound is known.
    estimate: Option<f64>,
    /// Lower end of its interval, `null` without one.
    low: Option<f64>,
    /// Upper end of its interval, `null` without one.
    high: Option<f64>,
    /// What the whole migration is to bring.
    goal: f64,
    /// Whether it does: `reached`, `missed` or `unclear`.
    goal_outcome: &'static str,
}

impl CapacityDocument {
    pub(crate) fn new(record: &RunRecord, finding: &Finding) -> Self {
        Self {
            label: record.label.clone(),
            scenario: record.scenario.name.clone(),
            interrupted: record.interrupted,
            objective: finding.slo.to_string(),
            headline: finding.headline.clone(),
            next_action: finding.next_action.clone(),
            notes: finding.notes.clone(),
            verdict: finding.verdict.map(VerdictName::from),
            confidence: CONFIDENCE,
            versions: finding.arms.iter().map(VersionDocument::from).collect(),
            ratio: (finding.ratio).map(|ratio| RatioDocument::of(ratio, finding.promised_percent)),
        }
    }
}

impl From<&ArmFinding> for VersionDocument {
    fn from(arm: &ArmFinding) -> Self {
        let (outcome, rate, low, high) = match arm.capacity {
            Capacity::Found {
                rate, low, high, ..
            } => ("found", Some(rate), Some(low), Some(high)),
            Capacity::AtLeast { rate, .. } => ("at_least", Some(rate), Some(rate), None),
            Capacity::Below { rate } => ("below", Some(rate), None, Some(rate)),
            Capacity::Unknown => ("unknown", None, None, None),
        };
        let is_precise = matches!(arm.capacity, Capacity::Found { is_precise, .. } if is_precise);
        Self {
            arm: arm.arm.clone(),
            outcome,
            rate_per_second: rate.and_then(finite),
            low_per_second: low.and_then(finite),
            high_per_second: high.and_then(finite),
            precise: is_precise,
            because: match arm.capacity {
                Capacity::AtLeast { because, .. } => Some(match because {
                    Ceiling::Asked => "asked",
                    Ceiling::Ended => "ended",
                    Ceiling::Generator => "generator",
                }),
                _ => None,
            },
            blocks: arm.trials.iter().map(TrialDocument::from).collect(),
        }
    }
}

impl From<&SeenTrial> for TrialDocument {
    fn from(trial: &SeenTrial) -> Self {
        Self {
            rate_per_second: trial.rate,
            served_per_second: trial.ended_per_second.and_then(finite),
            outcome: match trial.end {
                TrialEnd::Held => "held",
                TrialEnd::Failed => "failed",
                TrialEnd::Spoilt => "spoilt",
                TrialEnd::Idle => "idle",
            },
            saturated: trial.is_saturated,
            readings: trial.readings.iter().map(ReadingDocument::from).collect(),
        }
    }
}

impl From<&Reading> for ReadingDocument {
    fn from(reading: &Reading) -> Self {
        // Times are ms throughout the document.
        let scale = if reading.is_share { 1.0 } else { 1e-3 };
        Self {
            objective: reading.objective.clone(),
            endpoint: reading.endpoint.clone(),
            value: reading.value.map(|value| value * scale).and_then(finite),
            at_least: reading.at_least,
            limit: reading.limit * scale,
            holds: reading.holds,
        }
    }
}

impl RatioDocument {
    fn of(ratio: Ratio, promised_percent: [u32; 2]) -> Self {
        Self {
            estimate: ratio.estimate.and_then(finite),
            low: ratio.low.and_then(finite),
            high: ratio.high.and_then(finite),
            goal: goal_ratio(promised_percent),
            goal_outcome: match ratio.goal(promised_percent) {
                Goal::Reached => "reached",
                Goal::Missed => "missed",
                Goal::Unclear => "unclear",
            },
        }
    }
}
