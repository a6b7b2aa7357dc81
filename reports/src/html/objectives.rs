//! The policy's objectives: a row for each endpoint and level, missed ones first.

use std::fmt::Write as _;

use unstall_results::comparison::{Comparison, Verdict};
use unstall_results::slo::{SloFinding, SloOutcome};

use super::table;
use crate::{escape, numbers, objectives};

/// More rows are cut, those that are met first.
const ROWS_MAX: usize = 200;

/// Writes them, if the policy has any.
pub(super) fn write(out: &mut String, comparison: &Comparison) -> std::fmt::Result {
    if comparison.slos.is_empty() {
        return Ok(());
    }
    let columns = [
        table::text("Endpoint"),
        table::text("Objective"),
        table::text("Level"),
        table::text("Outcome"),
        table::text("Found"),
    ];
    writeln!(out, "<h4>Objectives</h4>")?;
    table::open(out, objectives::MEANING, &columns)?;
    let found = objectives::worst_first(comparison);
    for slo in found.iter().take(ROWS_MAX) {
        let (sign, words) = objectives::outcome(slo, comparison.verdict);
        let class = class(slo, comparison.verdict);
        table::row(
            out,
            &columns,
            &[
                format!("<bdi>{}</bdi>", escape::markup(objectives::subject(slo))),
                format!("<code>{}</code>", escape::markup(&slo.objective)),
                numbers::level(slo.level).to_string(),
                format!(
                    "<span class=\"{class}\"><span aria-hidden=\"true\">{sign}</span> {words}</span>"
                ),
                escape::markup_prose(&objectives::found(slo)),
            ],
        )?;
    }
    table::close(out)?;
    table::more(
        out,
        found.len().saturating_sub(ROWS_MAX),
        " objectives, none worse than these",
    )
}

/// Numbers of an invalid measurement get no colour: it would be a judgement.
fn class(slo: &SloFinding, verdict: Verdict) -> &'static str {
    match slo.outcome {
        _ if verdict == Verdict::Invalid => "quiet",
        SloOutcome::Met => "good",
        SloOutcome::Missed => "bad",
        SloOutcome::CantTell { .. } => "unsure",
    }
}
