//! The ledger: one row per step, with what to do about it.

use std::fmt::Write as _;

use unstall_results::comparison::{Comparison, Metric};
use unstall_results::ledger::{Compared, Ledger, Row, Step};

use super::{answer, permalink, table};
use crate::{Report, escape, ranking, vocabulary};

/// Writes the ledger when at least two measurements were compared.
pub(super) fn write(out: &mut String, report: &Report<'_>) -> std::fmt::Result {
    let compared: Vec<(usize, &Comparison)> = report
        .entries
        .iter()
        .enumerate()
        .filter_map(|(index, entry)| Some((index, entry.comparison?)))
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
        "Each step against the state before it. p95 is that of the endpoint that regressed, or else of the step’s own that gained least; blocked time \
         is the whole service’s, per 1\u{202F}000 requests.",
        &columns,
    )?;
    let measured = compared
        .iter()
        .map(|(_, comparison)| Compared::from(*comparison));
    let ledger = Ledger::of(measured, []);
    for ((index, _), (step, row)) in compared.iter().zip(ledger.rows()) {
        table::row(out, &columns, &cells(*index, step, row))?;
    }
    table::close(out)?;
    writeln!(out, "</section>")
}

fn cells(index: usize, step: &Step, row: &Row) -> Vec<String> {
    let or_dash = |text: &str| match text {
        "" => "–".to_owned(),
        text => format!("<bdi>{}</bdi>", escape::markup(text)),
    };
    let branch = match step.branch.as_str() {
        "" => "–".to_owned(),
        branch => format!("<code>{}</code>", escape::markup(branch)),
    };
    let endpoint = row.endpoint.as_ref().map_or_else(String::new, |endpoint| {
        format!("<small><bdi>{}</bdi></small>", escape::markup(endpoint))
    });
    let p95 = ranking::before_after(Metric::ResponseP95, row.p95_ms);
    vec![
        format!(
            "<a href=\"#{}\"><bdi>{}</bdi></a>",
            permalink::measurement(index),
            escape::markup(&step.id)
        ),
        or_dash(&step.title),
        branch,
        or_dash(&step.risk),
        format!(
            "<span class=\"w\"><strong>{}</strong> {}</span>",
            vocabulary::decision(row.decision),
            answer::pill(row.verdict)
        ),
        format!("{p95}{endpoint}"),
        ranking::before_after(Metric::BlockedMsPer1000, row.blocked_ms_per_1000),
    ]
}
