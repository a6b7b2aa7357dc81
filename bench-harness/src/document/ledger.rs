//! The ledger of a migration in the document of `--json`: what became of each step, with the numbers
//! of its table. Capacities are apart, in `capacities`.

use schemars::JsonSchema;
use serde::Serialize;
use unstall_results::comparison::Decision;
use unstall_results::ledger::{Course, Ledger, Row, Step};

use super::comparison::ChangeDocument;
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
    /// What became of the start's p95.
    p95_since_start: Option<ChangeDocument>,
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

impl LedgerDocument {
    /// `None` without a step of a plan: then there are comparisons, and no ledger.
    pub(crate) fn of(ledger: &Ledger) -> Option<Self> {
        let steps = ledger.steps.iter().filter(|step| step.is_planned);
        let steps: Vec<StepRowDocument> = steps.map(StepRowDocument::from).collect();
        (!steps.is_empty()).then(|| Self {
            summary: ledger.summary(),
            steps,
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
            p95_since_start: since
                .and_then(|since| since.p95.as_ref())
                .map(ChangeDocument::from),
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
