//! A comparison in the document of `--json`: per cell the values of both versions, with
//! their intervals, and what follows.

use schemars::JsonSchema;
use serde::Serialize;
use unstall_results::comparison::{
    Cell, Change, Comparison, Criterion, Decision, Estimate, Looks, Scale,
};
use unstall_results::policy::Consequence;
use unstall_results::record::RunRecord;
use unstall_results::saturation::Saturation;
use unstall_results::service_counters::ServiceCounter;

use super::beside::{self, AnswersDocument, BystanderDocument, ConnectingDocument, StreamDocument};
use super::measurement::users;
use super::objective::{MarginDocument, SloDocument};
use super::{VerdictName, finite};

/// One comparison.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ComparisonDocument {
    /// Label of the record.
    label: String,
    /// Scenario that was driven.
    scenario: String,
    /// The migration step, if one was measured.
    step: Option<StepDocument>,
    /// The judgement.
    verdict: VerdictName,
    /// `keep`, `revert` or `undecided`.
    decision: String,
    /// One sentence in milliseconds.
    headline: String,
    /// What to do now.
    next_action: String,
    /// Why the verdict is what it is, worst first.
    reasons: Vec<String>,
    /// What this design could not have seen.
    blind_spots: Vec<String>,
    /// Pairs compared.
    pairs: u32,
    /// Significance level of every test and bound; with `looks` that of the look.
    alpha: f64,
    /// Where it stands among the looks that were planned; `null` where one was, after all pairs.
    looks: Option<LooksDocument>,
    /// Pairs of a new measurement that would probably settle an inconclusive one.
    pairs_needed: Option<u32>,
    /// How long that would take.
    minutes_needed: Option<f64>,
    /// Index in `cells` of the one that needs most pairs.
    neediest_cell: Option<usize>,
    /// False when the versions were measured in different sessions: advisory then.
    paired: bool,
    /// Faults of our own that spoil the numbers.
    faults: Vec<String>,
    /// What should be known and changes nothing.
    warnings: Vec<String>,
    /// Offered rates with which a version could not keep up; empty without any.
    saturation: Vec<SaturationDocument>,
    /// Every endpoint, level and metric.
    cells: Vec<CellDocument>,
    /// Index in `cells` of the worst judged one.
    worst_cell: Option<usize>,
    /// The step's criteria.
    criteria: Vec<CriterionDocument>,
    /// What the policy makes of a verdict that is no pass: `fail` or `warn`; `null` of a pass.
    /// Since 1.4.
    consequence: Option<&'static str>,
    /// The policy's objectives, on each endpoint and at each level. Since 1.4.
    slos: Vec<SloDocument>,
    /// What the service counted of itself, such as faults, in all blocks that were used; empty where its
    /// monitor doesn't tell. Since 1.5.
    counters: Vec<CounterDocument>,
    /// What the bystander probe waited, by version and level; empty without one.
    bystanders: Vec<BystanderDocument>,
    /// Streams by endpoint, level and version; empty without any.
    streams: Vec<StreamDocument>,
    /// Connections that requests opened while it was measured, by endpoint and level; empty where
    /// users kept those of their warm-up.
    connections: Vec<ConnectingDocument>,
    /// Sizes of answers and redirects by endpoint; only endpoints with either.
    answers: Vec<AnswersDocument>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct StepDocument {
    /// For example `2a`.
    id: String,
    /// What the step did.
    title: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct CounterDocument {
    /// As the service calls it.
    name: String,
    /// Counted in the first version.
    before: u64,
    /// Counted in the second one.
    after: u64,
}

impl From<&ServiceCounter> for CounterDocument {
    fn from(counter: &ServiceCounter) -> Self {
        Self {
            name: counter.name.clone(),
            before: counter.before,
            after: counter.after,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct LooksDocument {
    /// After how many pairs each is.
    planned: Vec<u32>,
    /// The significance level of each; they add up to the policy's.
    alphas: Vec<f64>,
    /// The look that it stands at, from 1; 0 before the first, where nothing is judged.
    number: usize,
}

impl From<&Looks> for LooksDocument {
    fn from(looks: &Looks) -> Self {
        Self {
            planned: looks.planned.clone(),
            alphas: looks.alphas.clone(),
            number: looks.number(),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct SaturationDocument {
    /// Arrivals per second that were offered.
    offered_per_second: Option<f64>,
    /// Whether the first version could not keep up.
    before: bool,
    /// Whether the second one could not.
    after: bool,
    /// Arrivals per second that the first version served.
    before_per_second: Option<f64>,
    /// The same of the second one.
    after_per_second: Option<f64>,
    /// The same in a sentence.
    sentence: String,
}

impl From<&Saturation> for SaturationDocument {
    fn from(saturation: &Saturation) -> Self {
        Self {
            offered_per_second: finite(saturation.offered_per_second),
            before: saturation.before,
            after: saturation.after,
            before_per_second: finite(saturation.before_per_second),
            after_per_second: finite(saturation.after_per_second),
            sentence: saturation.sentence(),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct CriterionDocument {
    /// `p95`, `errors`, `blocked` or `threads`.
    name: String,
    /// What the plan expects.
    expected: String,
    /// Whether it is met; `null` when the measurement can't tell.
    met: Option<bool>,
    /// The evidence.
    found: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct CellDocument {
    /// Endpoint, `null` for the whole service.
    endpoint: Option<String>,
    /// Users at once; `null` of an open load.
    level: Option<u32>,
    /// Arrivals per second that an open load offered; `null` of a closed one.
    arrivals_per_second: Option<f64>,
    /// What is compared; the unit ends the name or is given in `unit`.
    metric: String,
    /// Unit of `before` and `after`.
    unit: &'static str,
    /// Cells that are judged together: `latency`, `errors`, `loop` or `advisory`.
    family: String,
    /// Whether it counts for the verdict.
    judged: bool,
    /// What is a regression and what is harm here, by the policy. Since 1.4.
    margin: MarginDocument,
    /// The first version.
    before: EstimateDocument,
    /// The second version.
    after: EstimateDocument,
    /// The difference, where there is one to tell.
    change: Option<ChangeDocument>,
    /// `regression`, `improvement`, `within_limit`, `inconclusive`, `insufficient`, `pooled`
    /// (too few requests per block to compare, and only shown), `saturated` (not compared,
    /// because a version could not keep up with the arrivals) or `not_measured`.
    outcome: &'static str,
    /// Pairs that would probably settle an inconclusive cell.
    pairs_needed: Option<u32>,
    /// Requests per endpoint and block that an insufficient cell takes.
    requests_needed: Option<u64>,
    /// What must be known about this cell.
    note: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct EstimateDocument {
    /// `null` when nothing was measured.
    value: Option<f64>,
    /// Lower end of the 95 % interval, where one exists.
    low: Option<f64>,
    /// Upper end of the same.
    high: Option<f64>,
    /// True when the value is only a lower bound.
    at_least: bool,
    /// Observations behind it.
    n: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ChangeDocument {
    /// `ratio` (after ÷ before) or `difference` (after − before).
    scale: &'static str,
    /// The best guess.
    estimate: Option<f64>,
    /// Lower end of its interval.
    low: Option<f64>,
    /// Upper end of the same.
    high: Option<f64>,
    /// One-sided upper bound that decides a pass.
    upper_bound: Option<f64>,
    /// One-sided lower bound.
    lower_bound: Option<f64>,
    /// Adjusted p of "worse than the regression margin".
    p_regression: Option<f64>,
    /// Adjusted p of "better than the improvement margin".
    p_improvement: Option<f64>,
    /// The smallest worsening that this design would have found 8 times in 10.
    minimum_detectable: Option<f64>,
}

impl ComparisonDocument {
    /// A comparison with what was seen beside its cells.
    pub(crate) fn new(record: &RunRecord, comparison: &Comparison) -> Self {
        Self {
            label: comparison.label.clone(),
            scenario: comparison.scenario.clone(),
            step: comparison.step.as_ref().map(|step| StepDocument {
                id: step.id.clone(),
                title: step.title.clone(),
            }),
            verdict: comparison.verdict.into(),
            decision: match comparison.decision {
                Decision::Keep => "keep",
                Decision::Revert => "revert",
                Decision::Undecided => "undecided",
            }
            .to_owned(),
            headline: comparison.headline.clone(),
            next_action: comparison.next_action.clone(),
            reasons: comparison.reasons.clone(),
            blind_spots: comparison.blind_spots.clone(),
            pairs: comparison.pairs,
            alpha: comparison.alpha,
            looks: comparison.looks.as_ref().map(LooksDocument::from),
            pairs_needed: comparison.pairs_needed,
            minutes_needed: comparison.minutes_needed.and_then(finite),
            neediest_cell: comparison.neediest_cell,
            paired: comparison.paired,
            faults: comparison.validity.faults.clone(),
            warnings: comparison.validity.warnings.clone(),
            saturation: comparison
                .saturation
                .iter()
                .map(SaturationDocument::from)
                .collect(),
            cells: comparison.cells.iter().map(CellDocument::from).collect(),
            worst_cell: comparison.worst_cell,
            criteria: comparison
                .criteria
                .iter()
                .map(CriterionDocument::from)
                .collect(),
            consequence: comparison.consequence.map(|of| match of {
                Consequence::Fail => "fail",
                Consequence::Warn => "warn",
            }),
            slos: comparison.slos.iter().map(SloDocument::from).collect(),
            counters: comparison
                .counters
                .iter()
                .map(CounterDocument::from)
                .collect(),
            bystanders: beside::bystanders(record),
            streams: beside::streams(record),
            connections: beside::connections(record),
            answers: beside::answers_of(record),
        }
    }
}

impl From<&Criterion> for CriterionDocument {
    fn from(criterion: &Criterion) -> Self {
        Self {
            name: criterion.name.clone(),
            expected: criterion.expected.clone(),
            met: criterion.met,
            found: criterion.found.clone(),
        }
    }
}

impl From<&Cell> for CellDocument {
    fn from(cell: &Cell) -> Self {
        Self {
            endpoint: cell.endpoint.clone(),
            level: users(cell.level),
            arrivals_per_second: cell.level.rate_per_second(),
            metric: cell.metric.name().to_owned(),
            unit: cell.metric.unit(),
            family: cell.family.name().to_owned(),
            judged: cell.judged,
            margin: MarginDocument::from(&cell.margin),
            before: EstimateDocument::from(&cell.before),
            after: EstimateDocument::from(&cell.after),
            change: cell.change.as_ref().map(ChangeDocument::from),
            outcome: cell.outcome.name(),
            pairs_needed: cell.outcome.pairs_needed(),
            requests_needed: cell.outcome.requests_needed(),
            note: cell.note.clone(),
        }
    }
}

impl From<&Estimate> for EstimateDocument {
    fn from(estimate: &Estimate) -> Self {
        Self {
            value: estimate.value.and_then(finite),
            low: estimate.low.and_then(finite),
            high: estimate.high.and_then(finite),
            at_least: estimate.at_least,
            n: estimate.n,
        }
    }
}

impl From<&Change> for ChangeDocument {
    fn from(change: &Change) -> Self {
        Self {
            scale: match change.scale {
                Scale::Ratio => "ratio",
                Scale::Difference => "difference",
            },
            estimate: finite(change.estimate),
            low: finite(change.low),
            high: finite(change.high),
            upper_bound: finite(change.upper_bound),
            lower_bound: finite(change.lower_bound),
            p_regression: finite(change.p_regression),
            p_improvement: finite(change.p_improvement),
            minimum_detectable: change.minimum_detectable.and_then(finite),
        }
    }
}
