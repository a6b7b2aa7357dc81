//! The ledger: one row per step, with what to do about it.

use std::fmt::Write as _;

use unstall_results::comparison::{Comparison, Metric};

use super::{answer, table};
use crate::{Entry, Report, escape, ranking, vocabulary};

/// Writes the ledger when at least two measurements were compared.
pub(super) fn write(out: &mut String, report: &Report<'_>) -> std::fmt::Result {
    let compared: Vec<(usize, &Entry<'_>, &Comparison)> = report
        .entries
        .iter()
        .enumerate()
        .filter_map(|(index, entry)| Some((index, entry, entry.comparison?)))
        .collect();
    if compared.len() < 2 {
        return Ok(());
    }
    let columns = [
        table::text("Step"),
        table::text("Title"),
        table::text("PR branch"),
        table::text("Risk"),
        table::text("Decision"),
        table::number("p95 before → after"),
        table::number("Blocked before → after"),
    ];
    writeln!(
        out,
        "<section aria-labelledby=\"ledger\"><h2 id=\"ledger\">Ledger</h2>"
    )?;
    table::open_with_class(
        out,
        "ledger",
        "Each step against the state before it. p95 and blocked time per 1\u{202F}000 requests are \
         those of the step’s endpoint that stands worst.",
        &columns,
    )?;
    for (index, entry, comparison) in &compared {
        table::row(out, &columns, &cells(*index, entry, comparison))?;
    }
    table::close(out)?;
    writeln!(out, "</section>")
}

fn cells(index: usize, entry: &Entry<'_>, comparison: &Comparison) -> Vec<String> {
    let (name, title, branch, risk) = match &comparison.step {
        Some(step) => (
            escape::markup(&step.id),
            escape::markup(&step.title),
            format!("<code>{}</code>", escape::markup(&step.branch)),
            escape::markup(&step.risk),
        ),
        None => (
            escape::markup(&entry.record.label),
            escape::markup(&comparison.scenario),
            "–".to_owned(),
            "–".to_owned(),
        ),
    };
    vec![
        format!(
            "<a href=\"#{}\"><bdi>{name}</bdi></a>",
            super::anchor(index)
        ),
        format!("<bdi>{title}</bdi>"),
        branch,
        risk,
        format!(
            "<span class=\"w\"><strong>{}</strong> {}</span>",
            vocabulary::decision(comparison.decision),
            answer::pill(comparison.verdict)
        ),
        ranking::ledger_value(comparison, Metric::ResponseP95),
        ranking::ledger_value(comparison, Metric::BlockedMsPer1000),
    ]
}
