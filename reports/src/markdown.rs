//! The report as Markdown, for a step summary or a comment in a code review.
//!
//! Both have size limits (a GitHub comment takes 65 536 characters), so rows are
//! written worst first and the rest is counted.

use std::fmt::Write as _;

use unstall_results::comparison::{Cell, Comparison, Metric};

use crate::ranking::Group;
use crate::{Entry, Report, escape, numbers, observed, ranking, vocabulary};

/// Rows per table before "and N more": keeps a report of a dozen steps below the
/// limit of a comment.
const ROWS_MAX: usize = 25;

/// Renders the report as GitHub-flavoured Markdown, ending in a newline.
pub fn render(report: &Report<'_>) -> String {
    let mut out = String::new();
    write_report(&mut out, report).expect("writing to a String cannot fail");
    out
}

fn write_report(out: &mut String, report: &Report<'_>) -> std::fmt::Result {
    writeln!(out, "# {}\n", escape::markdown(&report.title))?;
    let compared = report.entries.iter().filter(|e| e.comparison.is_some());
    if compared.count() > 1 {
        if let Some(verdict) = report.verdict() {
            writeln!(
                out,
                "**{} {}**: {}\n",
                vocabulary::verdict_sign(verdict),
                vocabulary::verdict(verdict),
                vocabulary::verdict_meaning(verdict)
            )?;
        }
        ledger(out, report)?;
    }
    for entry in &report.entries {
        match entry.comparison {
            Some(comparison) => compared_entry(out, entry, comparison)?,
            None => single_entry(out, entry)?,
        }
    }
    writeln!(
        out,
        "<sub>Generated {} by {}</sub>",
        escape::markdown(&report.generated_utc),
        escape::markdown_code(&report.command)
    )
}

fn ledger(out: &mut String, report: &Report<'_>) -> std::fmt::Result {
    writeln!(
        out,
        "| step | title | branch | risk | decision | worst p95 | blocked per 1 000 requests |\n|---|---|---|---|---|---|---|"
    )?;
    for entry in &report.entries {
        let Some(comparison) = entry.comparison else {
            continue;
        };
        let (id, title, branch, risk) = match &comparison.step {
            Some(step) => (
                escape::markdown(&step.id),
                escape::markdown(&step.title),
                escape::markdown_code(&step.branch),
                escape::markdown(&step.risk),
            ),
            None => (
                escape::markdown(&comparison.label),
                escape::markdown(&comparison.scenario),
                "–".to_owned(),
                "–".to_owned(),
            ),
        };
        writeln!(
            out,
            "| {id} | {title} | {branch} | {risk} | {} **{}** | {} | {} |",
            vocabulary::verdict_sign(comparison.verdict),
            vocabulary::decision(comparison.decision),
            ranking::ledger_value(comparison, Metric::ResponseP95),
            ranking::ledger_value(comparison, Metric::BlockedMsPer1000),
        )?;
    }
    writeln!(out)
}

fn compared_entry(
    out: &mut String,
    entry: &Entry<'_>,
    comparison: &Comparison,
) -> std::fmt::Result {
    let title = comparison
        .step
        .as_ref()
        .map_or(String::new(), |step| format!(": {}", step.title));
    writeln!(
        out,
        "## {} {}: {}{}\n",
        vocabulary::verdict_sign(comparison.verdict),
        vocabulary::verdict(comparison.verdict),
        escape::markdown(&entry.short_name()),
        escape::markdown(&title),
    )?;
    writeln!(out, "{}\n", escape::markdown(&comparison.headline))?;
    for fault in &comparison.validity.faults {
        writeln!(out, "- **Fault:** {}", escape::markdown(fault))?;
    }
    for warning in &comparison.validity.warnings {
        writeln!(out, "- **Warning:** {}", escape::markdown(warning))?;
    }
    for reason in &comparison.reasons {
        writeln!(out, "- {}", escape::markdown(reason))?;
    }
    writeln!(
        out,
        "- **Next:** {}\n",
        escape::markdown(&comparison.next_action)
    )?;
    cells(out, comparison, Group::Judged)?;
    let advisory = ranking::cells(comparison, Group::Advisory).len();
    if advisory > 0 {
        writeln!(
            out,
            "<details><summary>{}</summary>\n",
            Group::Advisory.title()
        )?;
        cells(out, comparison, Group::Advisory)?;
        writeln!(out, "</details>\n")?;
    }
    if !comparison.criteria.is_empty() {
        writeln!(out, "| criterion | expected | | found |\n|---|---|---|---|")?;
        for criterion in &comparison.criteria {
            let (sign, word) = vocabulary::criterion(criterion.met);
            writeln!(
                out,
                "| {} | {} | {sign} {word} | {} |",
                escape::markdown(&criterion.name),
                escape::markdown(&criterion.expected),
                escape::markdown(&criterion.found)
            )?;
        }
        writeln!(out)?;
    }
    if !comparison.blind_spots.is_empty() {
        writeln!(out, "What this run could not see:\n")?;
        for spot in &comparison.blind_spots {
            writeln!(out, "- {}", escape::markdown(spot))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn cells(out: &mut String, comparison: &Comparison, group: Group) -> std::fmt::Result {
    let cells = ranking::cells(comparison, group);
    if cells.is_empty() {
        return Ok(());
    }
    let several_levels = ranking::several_levels(comparison);
    writeln!(
        out,
        "| | endpoint | metric | before → after | change | 95 % interval | |\n|---|---|---|---:|---:|---:|---|"
    )?;
    for cell in cells.iter().take(ROWS_MAX) {
        cell_row(out, cell, several_levels)?;
    }
    if cells.len() > ROWS_MAX {
        writeln!(
            out,
            "\n… and {} more, none worse than these.",
            cells.len() - ROWS_MAX
        )?;
    }
    writeln!(out)
}

fn cell_row(out: &mut String, cell: &Cell, several_levels: bool) -> std::fmt::Result {
    let (sign, words) = vocabulary::outcome(cell);
    let endpoint = match &cell.endpoint {
        Some(name) => escape::markdown_code(name),
        None => vocabulary::cell_endpoint(cell).to_owned(),
    };
    let level = if several_levels {
        format!(", c = {}", cell.level)
    } else {
        String::new()
    };
    let (change, interval) = match &cell.change {
        Some(change) => (
            numbers::change(cell.metric, change),
            numbers::interval(cell.metric, change),
        ),
        None => ("–".to_owned(), "–".to_owned()),
    };
    let note = match vocabulary::note(cell) {
        Some(note) => format!(" ({})", escape::markdown(note)),
        None => String::new(),
    };
    writeln!(
        out,
        "| {sign} | {endpoint}{level} | {} | {} | {change} | {interval} | {words}{note} |",
        vocabulary::metric(cell.metric),
        numbers::before_after(cell.metric, &cell.before, &cell.after),
    )
}

fn single_entry(out: &mut String, entry: &Entry<'_>) -> std::fmt::Result {
    let record = entry.record;
    writeln!(out, "## {}\n", escape::markdown(&record.label))?;
    writeln!(
        out,
        "| endpoint | c | requests | errors | p50 | p95 | p99 |\n|---|---:|---:|---:|---:|---:|---:|"
    )?;
    for arm in observed::arms(record) {
        for level in observed::levels(record) {
            for endpoint in observed::endpoints(record).into_iter().take(ROWS_MAX) {
                let samples = observed::samples(record, arm, level, endpoint);
                writeln!(
                    out,
                    "| {} | {level} | {} | {} | {} | {} | {} |",
                    escape::markdown_code(endpoint),
                    numbers::count(samples.completed + samples.failed()),
                    numbers::count(samples.failed()),
                    samples.quantile_text(0.5),
                    samples.quantile_text(0.95),
                    samples.quantile_text(0.99),
                )?;
            }
        }
    }
    writeln!(out)
}
