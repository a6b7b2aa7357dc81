//! The self-test of the gate as `--json` prints it.

use schemars::JsonSchema;
use serde::Serialize;

use super::VerdictName;
use crate::known_change::{Finding, Findings, State, case};

/// What `selftest gate` found.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct KnownChangeDocument {
    /// Whether the gate said what it had to say of every case that could be tried.
    all_met: bool,
    /// Pairs of blocks where a clock decides.
    pairs: u32,
    /// Seed of the order of blocks.
    seed: u64,
    /// Case by case.
    cases: Vec<CaseDocument>,
    /// `unmet` before `inconclusive` before `pass`.
    #[serde(skip)]
    verdict: VerdictName,
}

/// Two versions with a known difference.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct CaseDocument {
    /// Its name.
    case: String,
    /// What is different.
    what: String,
    /// What the gate has to say.
    expected: String,
    /// What it said, session by session.
    said: Vec<String>,
    /// Whether that will do.
    state: CaseState,
    /// Why not, or why it wasn't run.
    reason: Option<String>,
    /// How long it took.
    took_ms: u64,
}

/// Whether the gate said what it had to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CaseState {
    /// It did.
    Met,
    /// It said what it must not say.
    Missed,
    /// It said less, which noise allows.
    Unseen,
    /// It can't be tried on this machine.
    NotRun,
}

impl KnownChangeDocument {
    /// Of what was found.
    pub(crate) fn new(findings: &Findings) -> Self {
        let cases: Vec<CaseDocument> = findings.cases.iter().map(CaseDocument::new).collect();
        let any = |state: CaseState| cases.iter().any(|case| case.state == state);
        let verdict = if any(CaseState::Missed) {
            VerdictName::Unmet
        } else if any(CaseState::Unseen) {
            VerdictName::Inconclusive
        } else {
            VerdictName::Pass
        };
        Self {
            all_met: verdict == VerdictName::Pass,
            pairs: findings.settings.pairs,
            seed: findings.settings.seed,
            cases,
            verdict,
        }
    }

    /// Of everything.
    pub(crate) fn verdict(&self) -> VerdictName {
        self.verdict
    }
}

impl CaseDocument {
    fn new(finding: &Finding) -> Self {
        let (state, reason) = match &finding.state {
            State::Met => (CaseState::Met, None),
            State::Missed(why) => (CaseState::Missed, Some(why)),
            State::Unseen(why) => (CaseState::Unseen, Some(why)),
            State::NotRun(why) => (CaseState::NotRun, Some(why)),
        };
        Self {
            case: finding.case.name.to_owned(),
            what: finding.case.what.to_owned(),
            expected: case::words(finding.case.expected).to_owned(),
            said: finding.said.clone(),
            state,
            reason: reason.cloned(),
            took_ms: u64::try_from(finding.took.as_millis()).unwrap_or(u64::MAX),
        }
    }
}
