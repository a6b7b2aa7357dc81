//! The ledger of a migration in the document of `--json`: what became of each step, with the numbers
//! of its table.

use schemars::JsonSchema;
use serde::Serialize;
use unstall_results::capacity::{Capacity, Goal};
use unstall_results::comparison::Decision;
use unstall_results::ledger::{CapacityRow, Course, Ledger, Row, Step};

use super::measurement::users;
use super::{VerdictName, finite};

/// What became of a migration.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct LedgerDocument {
    /// In a few words: `9 steps kept, 1 reverted (2d)`.
    summary: String,
    /// In the order in which they were measured.
    steps: Vec<StepRowDocument>,
    /// Two versions searched for their capacity: the start and the end, as a rule.
    capacities: Vec<CapacityRowDocument>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct StepRowDocument {
    /// For example `2a`.
    id: String,
    /// What the step did.
    title: String,
    /// Branch of its pull request.
    branch: String,
    /// `low`, `medium` or `high`.
    risk: String,
    /// What the plan expected.
    impact: String,
    /// The worst of its measurements.
    verdict: VerdictName,
    /// `keep`, `revert` or `undecided`.
    decision: &'static str,
    /// One per scenario.
    measurements: Vec<RowDocument>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RowDocument {
    /// What was driven.
    scenario: String,
    /// The comparison with the version before the step.
    verdict: VerdictName,
    /// The comparison with the start; `null` where the start is what was before the step.
    verdict_since_start: Option<VerdictName>,
    /// The endpoint of the p95: the worst that regressed, or else the step's own that gained least.
    endpoint: Option<String>,
    /// Users at once; `null` of an open load.
    level: Option<u32>,
    /// Its p95.
    p95_ms: Option<CourseDocument>,
    /// The p95 after the step ÷ at the start.
    p95_ratio_since_start: Option<RatioDocument>,
    /// Blocked time of the whole service.
    blocked_ms_per_1000: Option<CourseDocument>,
    /// Threads of the service.
    threads: Option<CourseDocument>,
    /// Criteria of the step that hold.
    criteria_met: u32,
    /// Criteria that don't.
    criteria_unmet: u32,
    /// Criteria without an answer.
    criteria_open: u32,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct CourseDocument {
    /// At the start of the migration; `null` where that is what was before the step.
    start: Option<f64>,
    /// Before the step.
    before: Option<f64>,
    /// After it.
    after: Option<f64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RatioDocument {
    /// The middle one; `null` where only a bound is known.
    estimate: Option<f64>,
    /// Lower end of its interval.
    low: Option<f64>,
    /// Upper end of it.
    high: Option<f64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct CapacityRowDocument {
    /// What was driven.
    scenario: String,
    /// What had to hold.
    objective: String,
    /// Arrivals per second of the first version; `null` where none was found.
    before_per_second: Option<f64>,
    /// The same of the second one.
    after_per_second: Option<f64>,
    /// The second one ÷ the first one.
    ratio: Option<RatioDocument>,
    /// Whether it is 1.3 or more, which the migration is to bring: `reached`, `missed`, or `unclear`
    /// where that lies within the interval.
    goal: Option<&'static str>,
    /// The search's judgement.
    verdict: Option<VerdictName>,
}

impl LedgerDocument {
    /// `None` without a step of a plan: then there are comparisons, and no ledger.
    pub(crate) fn of(ledger: &Ledger) -> Option<Self> {
        let steps = ledger.steps.iter().filter(|step| step.is_planned);
        let steps: Vec<StepRowDocument> = steps.map(StepRowDocument::from).collect();
        let capacities = ledger.capacities.iter().map(CapacityRowDocument::from);
        (!steps.is_empty()).then(|| Self {
            summary: ledger.summary(),
            steps,
            capacities: capacities.collect(),
        })
    }
}

impl From<&Step> for StepRowDocument {
    fn from(step: &Step) -> Self {
        Self {
            id: step.id.clone(),
            title: step.title.clone(),
            branch: step.branch.clone(),
            risk: step.risk.clone(),
            impact: step.impact.clone(),
            verdict: step.verdict.into(),
            decision: match step.decision {
                Decision::Keep => "keep",
                Decision::Revert => "revert",
                Decision::Undecided => "undecided",
            },
            measurements: step.rows.iter().map(RowDocument::from).collect(),
        }
    }
}

impl From<&Row> for RowDocument {
    fn from(row: &Row) -> Self {
        let since = row.since_start.as_ref();
        let (criteria_met, criteria_unmet, criteria_open) = row.criteria;
        Self {
            scenario: row.scenario.clone(),
            verdict: row.verdict.into(),
            verdict_since_start: since.map(|since| since.verdict.into()),
            endpoint: row.endpoint.clone(),
            level: row.level.and_then(users),
            p95_ms: row.p95_ms.map(CourseDocument::from),
            p95_ratio_since_start: since.and_then(|since| since.p95.as_ref()).map(|change| {
                RatioDocument {
                    estimate: finite(change.estimate),
                    low: finite(change.low),
                    high: finite(change.high),
                }
            }),
            blocked_ms_per_1000: row.blocked_ms_per_1000.map(CourseDocument::from),
            threads: row.threads.map(CourseDocument::from),
            criteria_met,
            criteria_unmet,
            criteria_open,
        }
    }
}

impl From<Course> for CourseDocument {
    fn from(course: Course) -> Self {
        Self {
            start: course.start.and_then(|of| finite(of.value)),
            before: finite(course.before.value),
            after: finite(course.after.value),
        }
    }
}

impl From<&CapacityRow> for CapacityRowDocument {
    fn from(row: &CapacityRow) -> Self {
        let rate = |of: Capacity| match of {
            Capacity::Found { rate, .. } => finite(rate),
            Capacity::AtLeast { .. } | Capacity::Below { .. } | Capacity::Unknown => None,
        };
        Self {
            scenario: row.scenario.clone(),
            objective: row.slo.clone(),
            before_per_second: rate(row.before),
            after_per_second: rate(row.after),
            ratio: row.ratio.map(|ratio| RatioDocument {
                estimate: ratio.estimate.and_then(finite),
                low: ratio.low.and_then(finite),
                high: ratio.high.and_then(finite),
            }),
            goal: row.goal.map(|goal| match goal {
                Goal::Reached => "reached",
                Goal::Missed => "missed",
                Goal::Unclear => "unclear",
            }),
            verdict: row.verdict.map(VerdictName::from),
        }
    }
}
