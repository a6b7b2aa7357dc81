//! The policy's objectives as every format shows them: which first, and in which words.

use unstall_results::comparison::{Comparison, Verdict};
use unstall_results::slo::{SloFinding, SloOutcome};

use crate::vocabulary;

/// Missed ones first, then those that can't be told, each in the policy's order.
pub(crate) fn worst_first(comparison: &Comparison) -> Vec<&SloFinding> {
    let mut found: Vec<&SloFinding> = comparison.slos.iter().collect();
    found.sort_by_key(|slo| match slo.outcome {
        SloOutcome::Missed => 0,
        SloOutcome::CantTell { .. } => 1,
        SloOutcome::Met => 2,
    });
    found
}

/// A sign, and words: what is missing where it can't be told. Of an invalid measurement nothing
/// follows.
pub(crate) fn outcome(slo: &SloFinding, verdict: Verdict) -> (&'static str, String) {
    let (sign, words) = match slo.outcome {
        _ if verdict == Verdict::Invalid => ("⊘", "not judged: invalid".to_owned()),
        SloOutcome::Met => ("✓", "met".to_owned()),
        SloOutcome::Missed => ("✕", "missed".to_owned()),
        SloOutcome::CantTell {
            requests_needed: Some(requests),
            ..
        } => (
            "?",
            format!("can’t tell, needs {requests} requests per block"),
        ),
        SloOutcome::CantTell {
            pairs_needed: Some(pairs),
            ..
        } => ("?", format!("can’t tell, needs about {pairs} pairs")),
        SloOutcome::CantTell { .. } => ("?", "can’t tell".to_owned()),
    };
    (sign, words)
}

/// What was found, with what must be known of it.
pub(crate) fn found(slo: &SloFinding) -> String {
    match &slo.note {
        Some(note) => format!("{}. {note}", slo.evidence()),
        None => slo.evidence(),
    }
}

/// The endpoint, not yet escaped.
pub(crate) fn subject(slo: &SloFinding) -> &str {
    slo.endpoint.as_deref().unwrap_or(vocabulary::ALL_REQUESTS)
}

/// How the evidence decides, for a reader who sees an objective for the first time.
pub(crate) const MEANING: &str = "What the policy asks of the after version, whatever the before version does. A percentile \
     stands for its blocks: the median of theirs, with the interval that their order gives.";
