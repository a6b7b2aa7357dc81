//! A migration step's own criteria, judged on the step's own endpoints.

use crate::candidate::cell_name;
use crate::comparison::{Cell, Criterion, Metric, Outcome};
use crate::record::StepIdentity;
use crate::wording;

/// Each criterion of a step with what was found; `unusable` says
/// why the measurement may not be judged at all.
pub(crate) fn criteria(
    step: &StepIdentity,
    cells: &[Cell],
    unusable: Option<&str>,
) -> Vec<Criterion> {
    step.criteria
        .iter()
        .map(|(name, expected)| {
            let relevant = relevant(name, step, cells);
            let (met, found) = if let Some(why) = unusable {
                (None, format!("not judged: {why}"))
            } else if relevant.is_empty() {
                (None, "not measured".to_owned())
            } else {
                judge(expected, &relevant)
            };
            Criterion {
                name: name.clone(),
                expected: expected.clone(),
                met,
                found,
            }
        })
        .collect()
}

fn relevant<'a>(name: &str, step: &StepIdentity, cells: &'a [Cell]) -> Vec<&'a Cell> {
    let (metric, of_service) = match name {
        "p50" => (Metric::ResponseP50, false),
        "p95" => (Metric::ResponseP95, false),
        "p99" => (Metric::ResponseP99, false),
        "errors" => (Metric::ErrorRate, false),
        "blocked" => (Metric::BlockedMsPer1000, false),
        "threads" => (Metric::Threads, true),
        "cpu" => (Metric::CpuUsPerRequest, true),
        // The plan's reader refuses other names.
        _ => return Vec::new(),
    };
    cells
        .iter()
        .filter(|cell| cell.metric == metric)
        .filter(|cell| match &cell.endpoint {
            None => of_service,
            Some(endpoint) => !of_service && step.endpoints.contains(endpoint),
        })
        .filter(|cell| cell.outcome != Outcome::NotMeasured)
        .collect()
}

fn judge(expected: &str, cells: &[&Cell]) -> (Option<bool>, String) {
    let is = |outcome: fn(&Outcome) -> bool| move |cell: &&&Cell| outcome(&cell.outcome);
    let worse = cells
        .iter()
        .find(is(|outcome| *outcome == Outcome::Regression));
    if let Some(cell) = worse {
        return (Some(false), phrase(cell));
    }
    let unsettled = cells.iter().find(is(|outcome| {
        matches!(
            outcome,
            Outcome::Inconclusive { .. } | Outcome::Insufficient { .. }
        )
    }));
    if let Some(cell) = unsettled {
        return (None, phrase(cell));
    }
    let better = cells
        .iter()
        .find(is(|outcome| *outcome == Outcome::Improvement));
    match (expected, better) {
        ("better-or-flat" | "down-or-flat" | "none-new", Some(cell)) => (Some(true), phrase(cell)),
        ("better-or-flat" | "down-or-flat" | "none-new", None) => {
            let worst = cells.iter().copied().find(|cell| rose(cell));
            // `met` beside `2 → 3` would read as a mistake.
            let found = worst.map_or_else(
                || phrase(cells[0]),
                |cell| format!("{}: a rise within its limit", phrase(cell)),
            );
            (Some(true), found)
        }
        ("down" | "better", Some(cell)) => (Some(true), phrase(cell)),
        ("down" | "better", None) => {
            let nothing = cells
                .iter()
                .all(|cell| cell.before.value.unwrap_or(0.0) < 1.0);
            if nothing && expected == "down" {
                (
                    None,
                    format!("{}: nothing that could fall", phrase(cells[0])),
                )
            } else {
                (
                    Some(false),
                    format!("{}: no significant fall", phrase(cells[0])),
                )
            }
        }
        _ => (None, format!("unknown expectation {expected:?}")),
    }
}

/// Whether the number got larger, significant or not: smaller is better for every criterion.
fn rose(cell: &Cell) -> bool {
    let values = cell.before.value.zip(cell.after.value);
    values.is_some_and(|(before, after)| after > before)
}

/// `GET usage p95 41.2 → 6.1 ms`.
pub(crate) fn phrase(cell: &Cell) -> String {
    let name = cell_name(cell.endpoint.as_deref(), cell.metric);
    format!("{name} {}", values(cell))
}

/// `41.2 → 6.1 ms`, with bounds as bounds.
pub(crate) fn values(cell: &Cell) -> String {
    let shown = |estimate: &crate::comparison::Estimate| match estimate.value {
        Some(value) if estimate.at_least => format!("> {}", wording::number(value)),
        Some(value) => wording::number(value),
        None => "not measured".to_owned(),
    };
    format!(
        "{} → {}{}",
        shown(&cell.before),
        shown(&cell.after),
        wording::unit(cell.metric)
    )
}
