//! The self-test of the load engine as `--json` prints it.

use schemars::JsonSchema;
use serde::Serialize;

use super::VerdictName;
use crate::torture::case::{Check, CheckState};
use crate::torture::{Finding, Findings, Verdict};

/// What `selftest http` found.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct TortureDocument {
    /// Whether every case that could be run is as it has to be.
    all_met: bool,
    /// Case by case.
    cases: Vec<CaseDocument>,
    /// `unmet` before `inconclusive` before `pass`.
    #[serde(skip)]
    verdict: Verdict,
}

/// One misbehaviour of a service, or one limit of this machine.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct CaseDocument {
    /// Its name.
    case: String,
    /// The public reports that it stands for (`owner/repository#number`), or the standard's section.
    stands_for: String,
    /// Whether it is as it has to be.
    state: CaseState,
    /// Why not, or why it wasn't run.
    reasons: Vec<String>,
    /// What was compared.
    checks: Vec<CheckDocument>,
    /// How long it took.
    took_ms: u64,
}

/// Whether a case is as it has to be.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CaseState {
    /// It is.
    Met,
    /// It isn't.
    Missed,
    /// It took longer than it should, as on a busy machine.
    Late,
    /// It can't be tried on this machine.
    NotRun,
}

/// One thing that was compared.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct CheckDocument {
    /// Of what.
    what: String,
    /// What it has to be.
    expected: String,
    /// What it was.
    seen: String,
    /// Whether that will do.
    met: bool,
}

impl TortureDocument {
    /// Of what was found.
    pub(crate) fn new(findings: &Findings) -> Self {
        let verdict = findings.verdict();
        Self {
            all_met: verdict == Verdict::Met,
            cases: findings.cases.iter().map(CaseDocument::new).collect(),
            verdict,
        }
    }

    /// Of everything.
    pub(crate) fn verdict(&self) -> VerdictName {
        match self.verdict {
            Verdict::Met => VerdictName::Pass,
            Verdict::Late | Verdict::NotRun => VerdictName::Inconclusive,
            Verdict::Missed => VerdictName::Unmet,
        }
    }
}

impl CaseDocument {
    fn new(finding: &Finding) -> Self {
        let checks = finding.tried.as_deref().unwrap_or_default();
        Self {
            case: finding.case.name.to_owned(),
            stands_for: finding.case.stands_for.to_owned(),
            state: match finding.verdict() {
                Verdict::Met => CaseState::Met,
                Verdict::Missed => CaseState::Missed,
                Verdict::Late => CaseState::Late,
                Verdict::NotRun => CaseState::NotRun,
            },
            reasons: finding.reasons(),
            checks: checks.iter().map(CheckDocument::new).collect(),
            took_ms: u64::try_from(finding.took.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl CheckDocument {
    fn new(check: &Check) -> Self {
        Self {
            what: check.what.clone(),
            expected: check.expected.clone(),
            seen: check.seen.clone(),
            met: check.state == CheckState::Met,
        }
    }
}
