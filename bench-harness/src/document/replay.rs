//! A replay of a migration in the document of `--json`: step by step what became of it, and what is
//! known of the last state. The comparisons themselves are in `comparisons`.

use schemars::JsonSchema;
use serde::Serialize;

use super::proof::ProofDocument;
use super::{ComparisonDocument, VerdictName};

/// A migration, replayed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ReplayDocument {
    /// Name of the migration plan.
    pub(crate) plan: String,
    /// True of a short replay, which sees less.
    pub(crate) quick: bool,
    /// True when it was stopped before everything was measured; the same command goes on.
    pub(crate) interrupted: bool,
    /// Blocks of each version that a measurement was to have.
    pub(crate) triples: u32,
    /// How long this run took; what an earlier one had measured is not in it.
    pub(crate) minutes: f64,
    /// What serves the start of the migration.
    pub(crate) start_command: String,
    /// Why it is no pass, as far as `comparisons`, `capacities` and `notes` don't say so.
    pub(crate) reasons: Vec<String>,
    /// Every step that was asked for, in the plan's order.
    pub(crate) steps: Vec<ReplayedStepDocument>,
    /// Steps that regressed: named, and in no later version.
    pub(crate) left_out: Vec<String>,
    /// What is known of the state behind the plan's last step; `null` where nobody looked, because
    /// that step was not asked for or the replay was stopped before.
    pub(crate) last_state: Option<LastStateDocument>,
}

/// One step.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ReplayedStepDocument {
    /// For example `2a`.
    pub(crate) id: String,
    /// What the step does.
    pub(crate) title: String,
    /// Branch of its pull request.
    pub(crate) branch: String,
    /// `low`, `medium` or `high`.
    pub(crate) risk: &'static str,
    /// What gets better.
    pub(crate) impact: String,
    /// The worst of its measurements; `null` without any.
    pub(crate) verdict: Option<VerdictName>,
    /// `keep`, `revert` or `undecided`, over all its measurements.
    pub(crate) decision: &'static str,
    /// Whether later versions go without it.
    pub(crate) left_out: bool,
    /// What serves the version before it.
    pub(crate) before_command: Option<String>,
    /// What serves the version with it.
    pub(crate) after_command: Option<String>,
    /// One per scenario.
    pub(crate) measurements: Vec<ReplayedScenarioDocument>,
}

/// One scenario of a step.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ReplayedScenarioDocument {
    /// Its name in the plan.
    pub(crate) scenario: String,
    /// How its numbers came about.
    pub(crate) how: How,
    /// Why it was not measured.
    pub(crate) why: Option<String>,
    /// The record: `start`, `before` and `after` in triples of blocks, or only the latter two where
    /// the start is what was before the step.
    pub(crate) record: Option<String>,
    /// Index in `comparisons` of the step's two versions.
    pub(crate) comparison: Option<usize>,
    /// The start against the version with the step; `null` where the start is what was before it.
    pub(crate) from_start: Option<ComparisonDocument>,
}

/// How a measurement came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    /// By this run.
    Measured,
    /// An interrupted one was gone on with.
    GoneOn,
    /// By an earlier run.
    Kept,
    /// It was not: this version has no such scenario.
    NoScenario,
    /// It was not, and `why` says why.
    NotMeasured,
}

/// What is known of the state behind the last step.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct LastStateDocument {
    /// What serves it.
    pub(crate) command: String,
    /// Index in `capacities` of what the start and this state can take.
    pub(crate) capacity: Option<usize>,
    /// By how many percent the plan wants the capacity to grow, from and to.
    pub(crate) promised_percent: Option<[u32; 2]>,
    /// Whether its loop was blocked; `null` where its monitor told nothing.
    pub(crate) blocked: Option<BlockedDocument>,
    /// What is proven of each route; `null` where nothing was tried.
    pub(crate) proof: Option<ProofDocument>,
}

/// Polls in which the loop was blocked for 200 µs or more, in all blocks of the last state.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct BlockedDocument {
    /// Whether there was none but those that waited for a page from disk.
    pub(crate) free: bool,
    /// Requests that were looked at.
    pub(crate) requests: u64,
    /// Requests that failed.
    pub(crate) failures: u64,
    /// Polls that were looked at.
    pub(crate) polls: u64,
    /// Blocked time that belongs to no endpoint.
    pub(crate) unattributed_us: u64,
    /// Endpoints with any, the longest first.
    pub(crate) endpoints: Vec<BlockedEndpointDocument>,
}

/// One endpoint on which the loop was blocked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct BlockedEndpointDocument {
    /// Scenario that was driven.
    pub(crate) scenario: String,
    /// Its name there, or its route.
    pub(crate) endpoint: String,
    /// Its requests.
    pub(crate) requests: u64,
    /// Polls in which the loop was blocked for 200 µs or more.
    pub(crate) blocks: u64,
    /// The longest.
    pub(crate) longest_us: u64,
    /// In all polls: the thread gave up its core by itself.
    pub(crate) slept_us: u64,
    /// In all polls: the thread waited for a page from disk.
    pub(crate) fault_us: u64,
}
