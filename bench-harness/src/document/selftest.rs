//! The self-test as `--json` prints it.

use schemars::JsonSchema;
use serde::Serialize;

use super::VerdictName;
use crate::selftest::Findings;
use crate::selftest::cell::{Cell, Recall, State};

/// What `selftest monitor` found.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SelftestDocument {
    /// Whether every bar that could be judged is met.
    all_met: bool,
    /// One way of observing one program each.
    columns: Vec<ColumnDocument>,
}

/// One way of observing one program.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ColumnDocument {
    /// The program that held the canaries, for example `Rust, Tokio`.
    program: String,
    /// Who looked, for example `counters`.
    observer: String,
    /// 1 counters, 2 watcher, 3 proof.
    tier: u8,
    /// Blocking that had to be found.
    expected: u64,
    /// What of it was found.
    found: u64,
    /// What was taken for blocking and wasn't.
    false_alarms: u64,
    /// Requests in which nothing blocked.
    clean_calls: u64,
    /// Canary by canary.
    canaries: Vec<CanaryDocument>,
}

/// One canary under one observer.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct CanaryDocument {
    /// Its name.
    canary: String,
    /// Requests served, each with one call.
    calls: u64,
    /// Calls that had to be found.
    expected: u64,
    /// What was found.
    found: u64,
    /// What was taken for blocking and wasn't.
    false_alarms: u64,
    /// How it was named, where the observer names.
    named: Option<String>,
    /// Whether the bar is met.
    state: StateName,
    /// Why, where it isn't met, judged or run.
    reason: Option<String>,
}

/// Whether a bar is met.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StateName {
    /// It is.
    Met,
    /// It isn't.
    Missed,
    /// There is none here.
    NotJudged,
    /// The canary couldn't be planted or observed on this machine.
    NotRun,
}

impl SelftestDocument {
    /// Of what was found.
    pub(crate) fn new(findings: &Findings) -> Self {
        let mut columns: Vec<ColumnDocument> = Vec::new();
        for cells in findings
            .cells
            .chunk_by(|one, next| one.column == next.column)
        {
            let recall = Recall::of(cells);
            columns.extend(cells.first().map(|first| ColumnDocument {
                program: first.column.program.title().to_owned(),
                observer: first.column.title().to_owned(),
                tier: first.column.tier(),
                expected: recall.expected,
                found: recall.found,
                false_alarms: recall.false_alarms,
                clean_calls: recall.clean_calls,
                canaries: cells.iter().map(CanaryDocument::new).collect(),
            }));
        }
        Self {
            all_met: findings.complaints().is_empty(),
            columns,
        }
    }

    /// Of everything.
    pub(crate) fn verdict(&self) -> VerdictName {
        if self.all_met {
            VerdictName::Pass
        } else {
            VerdictName::Unmet
        }
    }
}

impl CanaryDocument {
    fn new(cell: &Cell) -> Self {
        let (state, reason) = match &cell.state {
            State::Met => (StateName::Met, None),
            State::Missed(reason) => (StateName::Missed, Some(reason)),
            State::NotJudged(reason) => (StateName::NotJudged, Some(reason)),
            State::NotRun(reason) => (StateName::NotRun, Some(reason)),
        };
        Self {
            canary: cell.canary.name().to_owned(),
            calls: cell.calls,
            expected: cell.expected,
            found: cell.found,
            false_alarms: cell.false_alarms,
            named: cell.named.clone(),
            state,
            reason: reason.cloned(),
        }
    }
}
