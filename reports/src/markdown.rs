//! The report as Markdown, for a step summary or a comment in a code review.
//!
//! Both have size limits (a GitHub comment takes 65 536 characters), so rows are
//! written worst first and the rest is counted.

use std::fmt::Write as _;

use unstall_results::capacity::Finding;
use unstall_results::comparison::{Cell, Comparison, Metric, Outcome};
use unstall_results::ledger;
use unstall_results::level::blindness;
use unstall_results::summary::{Summary, near_the_floor, summarise};

use crate::ranking::Group;
use crate::{Entry, Report, asides, capacity, escape, numbers, objectives, ranking, vocabulary};

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
        write_ledger(out, report)?;
    }
    for entry in &report.entries {
        match entry.comparison {
            Some(comparison) => compared_entry(out, entry, comparison)?,
            None => match entry.capacity() {
                Some(finding) => capacity_entry(out, entry, &finding)?,
                None => single_entry(out, entry)?,
            },
        }
    }
    writeln!(
        out,
        "<sub>Generated {} by {}</sub>",
        escape::markdown(&report.generated_utc),
        escape::markdown_code(&report.command)
    )
}

fn write_ledger(out: &mut String, report: &Report<'_>) -> std::fmt::Result {
    writeln!(
        out,
        "| step | title | branch | risk | decision | p95 | blocked per 1 000 requests |\n|---|---|---|---|---|---|---|"
    )?;
    for row in ledger::rows(report.entries.iter().filter_map(|e| e.comparison)) {
        let or_dash = |text: &str, written: fn(&str) -> String| match text {
            "" => "–".to_owned(),
            text => written(text),
        };
        let endpoint = row.endpoint.as_ref().map_or_else(String::new, |endpoint| {
            format!(" ({})", escape::markdown_code(endpoint))
        });
        writeln!(
            out,
            "| {} | {} | {} | {} | {} **{}** | {}{endpoint} | {} |",
            escape::markdown(&row.step),
            or_dash(&row.title, escape::markdown),
            or_dash(&row.branch, escape::markdown_code),
            or_dash(&row.risk, escape::markdown),
            vocabulary::verdict_sign(row.verdict),
            vocabulary::decision(row.decision),
            ranking::before_after(Metric::ResponseP95, row.p95_ms),
            ranking::before_after(Metric::BlockedMsPer1000, row.blocked_ms_per_1000),
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
    write_objectives(out, comparison)?;
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
    write_asides(out, entry)?;
    criteria_and_blind_spots(out, comparison)
}

/// What the policy asks of the after version, missed first.
fn write_objectives(out: &mut String, comparison: &Comparison) -> std::fmt::Result {
    if comparison.slos.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "| | endpoint | objective | level | found | |\n|---|---|---|---|---|---|"
    )?;
    let found = objectives::worst_first(comparison);
    for slo in found.iter().take(ROWS_MAX) {
        let (sign, words) = objectives::outcome(slo, comparison.verdict);
        let endpoint = match &slo.endpoint {
            Some(name) => escape::markdown_code(name),
            None => vocabulary::ALL_REQUESTS.to_owned(),
        };
        writeln!(
            out,
            "| {sign} | {endpoint} | {} | {} | {} | {words} |",
            escape::markdown_code(&slo.objective),
            slo.level,
            escape::markdown(&objectives::found(slo)),
        )?;
    }
    if found.len() > ROWS_MAX {
        writeln!(
            out,
            "\n… and {} more objectives, none worse than these.",
            found.len() - ROWS_MAX
        )?;
    }
    writeln!(out)
}

/// Bystanders and streams, an item each.
fn write_asides(out: &mut String, entry: &Entry<'_>) -> std::fmt::Result {
    let asides = asides::asides(entry.record);
    for aside in asides.iter().take(ROWS_MAX) {
        writeln!(
            out,
            "- **{}**: {}",
            escape::markdown(&aside.label),
            escape::markdown(&aside.text)
        )?;
        if let Some(doubt) = &aside.doubt {
            writeln!(out, "  - **Warning:** {}", escape::markdown(doubt))?;
        }
    }
    if asides.len() > ROWS_MAX {
        writeln!(out, "- … and {} more", asides.len() - ROWS_MAX)?;
    }
    if asides.is_empty() {
        return Ok(());
    }
    writeln!(out)
}

fn criteria_and_blind_spots(out: &mut String, comparison: &Comparison) -> std::fmt::Result {
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
        "| | endpoint | metric | before → after | change | {} % interval | |\n|---|---|---|---:|---:|---:|---|",
        numbers::confidence(comparison)
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
        format!(", {}", cell.level)
    } else {
        String::new()
    };
    let (change, interval) = match &cell.change {
        Some(change) => (
            numbers::change(cell.metric, change),
            numbers::interval(cell.metric, change),
        ),
        None if cell.outcome == Outcome::Pooled => (
            "–".to_owned(),
            numbers::intervals_of_both(&cell.before, &cell.after),
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

/// A search for capacity: the answer and what stands behind it.
fn capacity_entry(out: &mut String, entry: &Entry<'_>, finding: &Finding) -> std::fmt::Result {
    let verdict = finding.verdict.map_or_else(String::new, |verdict| {
        format!(
            "{} {}: ",
            vocabulary::verdict_sign(verdict),
            vocabulary::verdict(verdict)
        )
    });
    let name = escape::markdown(&entry.short_name());
    writeln!(
        out,
        "## {verdict}{name}\n\n{}\n",
        escape::markdown(&finding.headline)
    )?;
    for note in &finding.notes {
        writeln!(out, "- {}", escape::markdown(note))?;
    }
    writeln!(
        out,
        "- **Next:** {}\n",
        escape::markdown(&finding.next_action)
    )?;
    writeln!(
        out,
        "| version | capacity | 95 % interval | blocks |\n|---|---:|---:|---:|"
    )?;
    for arm in &finding.arms {
        let (estimate, interval) = capacity::estimate(arm.capacity);
        writeln!(
            out,
            "| {} | {estimate} | {interval} | {} |",
            escape::markdown(&arm.arm),
            capacity::blocks(arm)
        )?;
    }
    writeln!(out)
}

fn single_entry(out: &mut String, entry: &Entry<'_>) -> std::fmt::Result {
    let record = entry.record;
    writeln!(out, "## {}\n", escape::markdown(&record.label))?;
    writeln!(
        out,
        "| endpoint | {} | requests | errors | p50 | p95 | p99 |\n|---|---:|---:|---:|---:|---:|---:|",
        numbers::level_head(&record.load)
    )?;
    let summaries = summarise(record);
    let endpoints: Vec<&Summary> = summaries.iter().filter(|s| s.endpoint.is_some()).collect();
    for summary in endpoints.iter().take(ROWS_MAX) {
        let percentiles: Vec<String> = summary
            .percentiles
            .iter()
            .map(|percentile| {
                numbers::percentile(&percentile.estimate).map_or_else(
                    || "insufficient data".to_owned(),
                    |(value, interval)| format!("{value} ({interval})"),
                )
            })
            .collect();
        writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            escape::markdown_code(summary.endpoint.as_deref().unwrap_or_default()),
            numbers::level_number(summary.level),
            numbers::count(summary.requests),
            numbers::count(summary.requests - summary.completed),
            percentiles.join(" | "),
        )?;
    }
    writeln!(out)?;
    if endpoints.len() > ROWS_MAX {
        writeln!(out, "… and {} more.\n", endpoints.len() - ROWS_MAX)?;
    }
    whole_service(out, &summaries)?;
    for near in near_the_floor(record) {
        writeln!(out, "{}\n", escape::markdown(&near))?;
    }
    if let Some(blind) = blindness(&record.load) {
        writeln!(out, "{}\n", escape::markdown(blind))?;
    }
    write_asides(out, entry)
}

fn whole_service(out: &mut String, summaries: &[Summary]) -> std::fmt::Result {
    if summaries.is_empty() {
        writeln!(
            out,
            "No block may be used: a fault of the measurement spoilt each of them.\n"
        )?;
    }
    for service in summaries
        .iter()
        .filter(|summary| summary.endpoint.is_none())
    {
        writeln!(
            out,
            "Whole service at {}: {}.\n",
            service.level,
            vocabulary::whole_service(service)
        )?;
        for (kind, count) in &service.errors {
            writeln!(
                out,
                "- {}: {}",
                vocabulary::error_kind(*kind),
                numbers::count(*count)
            )?;
        }
        if !service.errors.is_empty() {
            writeln!(out)?;
        }
    }
    Ok(())
}
