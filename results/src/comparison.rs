//! What a comparison says: values that reports render and exit codes follow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::level::Level;
use crate::policy::{Consequence, Margin};
use crate::record::StepIdentity;
use crate::saturation::Saturation;
use crate::service_counters::ServiceCounter;
use crate::slo::SloFinding;

/// The overall answer, in order of precedence.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every judged cell is within its harm limit, and every objective is met.
    Pass,
    /// Not enough evidence either way.
    Inconclusive,
    /// At least one judged cell is significantly worse, or an objective of the policy is missed.
    Regression,
    /// A fault of our own: the numbers must not be used.
    Invalid,
}

impl Verdict {
    /// Whether more pairs would be for nothing: passed, regressed, or spoiled by faults that stay. A
    /// session that was planned with looks ends there.
    pub fn is_settled(self) -> bool {
        self != Self::Inconclusive
    }
}

/// What to do with a migration step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Passed, and every criterion of the step holds, or asks for a fall where nothing could fall.
    Keep,
    /// Regressed.
    Revert,
    /// Inconclusive or invalid, passed with a criterion unmet or without an answer, or nothing got
    /// worse and an objective is missed.
    Undecided,
}

/// What is compared.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Median response time, ms.
    ResponseP50,
    /// 95th percentile of the response time, ms.
    ResponseP95,
    /// 99th percentile of the response time, ms.
    ResponseP99,
    /// Median time to the first meaningful item, ms.
    TtftP50,
    /// 95th percentile of the same, ms.
    TtftP95,
    /// Failed requests, percent of those sent.
    ErrorRate,
    /// Blocked loop time, ms per 1 000 requests.
    #[serde(rename = "blocked_ms_per_1000")]
    BlockedMsPer1000,
    /// Threads of the process.
    Threads,
    /// CPU of the service's process group, µs per request.
    CpuUsPerRequest,
    /// Completed requests per second of wall time.
    Throughput,
    /// Highest resident set, MiB.
    RssMib,
    /// 90th percentile of what the bystander probe waited, ms.
    ProbeP90,
}

/// Cells that are judged together, so that one false alarm is one in the family.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Response and first-item percentiles.
    Latency,
    /// Error rates.
    Errors,
    /// Blocked time and threads.
    Loop,
    /// Shown with an interval, never judged unless a policy says so.
    Advisory,
}

/// One comparison: a record with two arms, or two records.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Label of the record.
    pub label: String,
    /// Scenario that was driven.
    pub scenario: String,
    /// The migration step, if one was measured.
    pub step: Option<StepIdentity>,
    /// The overall answer.
    pub verdict: Verdict,
    /// What the policy makes of it; `None` of a pass.
    pub consequence: Option<Consequence>,
    /// The same for a step's ledger.
    pub decision: Decision,
    /// One sentence in milliseconds, plain text: what a reader takes away.
    pub headline: String,
    /// What to do now, one sentence.
    pub next_action: String,
    /// Why the verdict is what it is, worst first, plain text.
    pub reasons: Vec<String>,
    /// What this design could not have seen, plain text.
    pub blind_spots: Vec<String>,
    /// Design: pairs compared.
    pub pairs: u32,
    /// Significance level of every test and bound; with [`Self::looks`] that of the look.
    pub alpha: f64,
    /// Where it stands among the looks that were planned; `None` where one was, after all pairs.
    pub looks: Option<Looks>,
    /// Of an inconclusive one that more pairs would probably settle: how many a new measurement
    /// takes.
    pub pairs_needed: Option<u32>,
    /// How long that would take, by what the blocks of this one took, with what came between
    /// them and with those that had to be redone.
    pub minutes_needed: Option<f64>,
    /// Index into [`Self::cells`] of the cell that needs most pairs.
    pub neediest_cell: Option<usize>,
    /// False when arms come from different sessions: advisory then.
    pub paired: bool,
    /// Faults of our own that spoil the numbers, and warnings that do not.
    pub validity: Validity,
    /// Of an open load: which version could not keep up, at which rates; only those where one
    /// couldn't.
    pub saturation: Vec<Saturation>,
    /// Every endpoint × level × metric.
    pub cells: Vec<Cell>,
    /// Index into [`Self::cells`] of the worst judged cell.
    pub worst_cell: Option<usize>,
    /// The step's criteria, each with what was found.
    pub criteria: Vec<Criterion>,
    /// The policy's objectives, each on each endpoint and level that it is about.
    pub slos: Vec<SloFinding>,
    /// What the service counted of itself, where its monitor tells that in every block.
    pub counters: Vec<ServiceCounter>,
    /// The start of the migration against the version after the step, where it was measured beside
    /// them.
    pub from_start: Option<Box<Comparison>>,
}

impl Comparison {
    /// True where the policy lets a verdict that is no pass end with exit code 0.
    pub fn is_only_warned(&self) -> bool {
        self.consequence == Some(Consequence::Warn)
    }
}

/// Several looks at one comparison, planned before its first block.
#[derive(Debug, Clone, PartialEq)]
pub struct Looks {
    /// After how many pairs each is, ascending.
    pub planned: Vec<u32>,
    /// The significance level of each; they add up to that of the policy.
    pub alphas: Vec<f64>,
    /// Index of the look that the comparison stands at; `None` before the first, where nothing is
    /// judged. Pairs beyond it are left out until the next one.
    pub reached: Option<usize>,
}

/// Whether the numbers may be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validity {
    /// Each makes the comparison [`Verdict::Invalid`]; with what to do.
    pub faults: Vec<String>,
    /// Each is shown and changes nothing.
    pub warnings: Vec<String>,
}

/// One success criterion of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Criterion {
    /// Its name in the plan: `p95`, `errors`, `blocked`, `threads`, `faults`.
    pub name: String,
    /// What the plan expects: `better-or-flat`, `none-new`, `down`, `down-or-flat`.
    pub expected: String,
    /// `Some(true)` met, `Some(false)` not met, `None` can't tell.
    pub met: Option<bool>,
    /// The evidence, one phrase.
    pub found: String,
}

/// One endpoint × level × metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Endpoint, or `None` for the whole service.
    pub endpoint: Option<String>,
    /// Concurrency or offered rate.
    pub level: Level,
    /// What is compared.
    pub metric: Metric,
    /// With which other cells.
    pub family: Family,
    /// Whether it counts for the verdict.
    pub judged: bool,
    /// What is a regression and what is harm here, by the policy.
    pub margin: Margin,
    /// The first arm.
    pub before: Estimate,
    /// The second arm.
    pub after: Estimate,
    /// The difference, where there are pairs to take it from.
    pub change: Option<Change>,
    /// What follows.
    pub outcome: Outcome,
    /// Anything a reader must know about this cell, plain text.
    pub note: Option<String>,
}

impl Cell {
    /// How much of its harm limit its bound takes: 1 is at the limit, more is beyond, less than 0
    /// is better than before. One scale for ratios and differences; 0 where nothing was compared.
    pub fn limit_used(&self) -> f64 {
        let limit = self.margin.harm;
        let Some(change) = &self.change else {
            return 0.0;
        };
        let used = match change.scale {
            Scale::Ratio if self.metric.larger_is_better() => {
                -change.lower_bound.ln() / limit.ln_1p()
            }
            Scale::Ratio => change.upper_bound.ln() / limit.ln_1p(),
            Scale::Difference => change.upper_bound / limit,
        };
        // No change and no limit.
        if used.is_nan() { 0.0 } else { used }
    }
}

/// A value of one arm.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Estimate {
    /// Over all blocks of the arm; `None` when nothing was measured.
    pub value: Option<f64>,
    /// Lower end of its 95 % interval, where one exists.
    pub low: Option<f64>,
    /// Upper end of its 95 % interval, where one exists.
    pub high: Option<f64>,
    /// True when the value is only a lower bound (timeouts reach into this percentile).
    pub at_least: bool,
    /// Observations behind it.
    pub n: u64,
    /// One value per block, in pair order.
    pub per_block: Vec<f64>,
}

/// A paired difference.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// `ratio` (after ÷ before) or `difference` (after − before, in the metric's unit).
    pub scale: Scale,
    /// Hodges–Lehmann estimate.
    pub estimate: f64,
    /// Lower end of the signed-rank interval.
    pub low: f64,
    /// Upper end of the same.
    pub high: f64,
    /// What that interval covers at least, 0 to 1: 1 − α, or less where the pairs are too few
    /// for that.
    pub confidence: f64,
    /// One-sided upper bound at α that decides a pass.
    pub upper_bound: f64,
    /// One-sided lower bound at α.
    pub lower_bound: f64,
    /// Adjusted p of "worse than the regression margin"; 1 where no test was made
    /// because the arms come from different sessions.
    pub p_regression: f64,
    /// Adjusted p of "better than the improvement margin"; 1 where no test was made.
    pub p_improvement: f64,
    /// The smallest worsening that this design would have found 8 times in 10, on the
    /// same scale: a ratio (1.12 for 12 % more) or a difference. Approximate.
    pub minimum_detectable: Option<f64>,
}

/// Which arithmetic a change is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// after ÷ before.
    Ratio,
    /// after − before.
    Difference,
}

/// What follows from one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Significantly worse than the margin, and more than the floor.
    Regression,
    /// Significantly better than the margin.
    Improvement,
    /// Within the harm limit.
    WithinLimit,
    /// Can't tell.
    Inconclusive {
        /// Pairs that would probably settle it.
        pairs_needed: Option<u32>,
    },
    /// Too few requests for this percentile.
    Insufficient {
        /// Requests per endpoint and block that it takes; 0 where another tool measured and didn't
        /// state it, so that no number of them would help.
        requests_needed: u64,
    },
    /// Too few requests per block to compare, and shown only: what all blocks of an arm say
    /// together stands with its interval in [`Cell::before`] and [`Cell::after`].
    Pooled,
    /// Not compared, because a version was saturated: its latency tells the length of the run.
    Saturated,
    /// Not measured in either arm; or not in both, where the metric is only shown.
    NotMeasured,
}

impl Metric {
    /// The unit of its values in documents.
    pub fn unit(self) -> &'static str {
        match self {
            Self::ResponseP50
            | Self::ResponseP95
            | Self::ResponseP99
            | Self::TtftP50
            | Self::TtftP95
            | Self::ProbeP90 => "ms",
            Self::ErrorRate => "percent",
            Self::BlockedMsPer1000 => "ms per 1000 requests",
            Self::Threads => "threads",
            Self::CpuUsPerRequest => "us per request",
            Self::Throughput => "requests per second",
            Self::RssMib => "MiB",
        }
    }
}

impl Family {
    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Errors => "errors",
            Self::Loop => "loop",
            Self::Advisory => "advisory",
        }
    }
}

impl Outcome {
    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Regression => "regression",
            Self::Improvement => "improvement",
            Self::WithinLimit => "within_limit",
            Self::Inconclusive { .. } => "inconclusive",
            Self::Insufficient { .. } => "insufficient",
            Self::Pooled => "pooled",
            Self::Saturated => "saturated",
            Self::NotMeasured => "not_measured",
        }
    }

    /// Pairs that would probably settle it, where it is inconclusive and that is known.
    pub fn pairs_needed(self) -> Option<u32> {
        match self {
            Self::Inconclusive { pairs_needed } => pairs_needed,
            _ => None,
        }
    }

    /// Requests per endpoint and block that it takes, where there were too few.
    pub fn requests_needed(self) -> Option<u64> {
        match self {
            Self::Insufficient { requests_needed } => Some(requests_needed),
            _ => None,
        }
    }
}
