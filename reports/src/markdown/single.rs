//! One version, a search for capacity, and what stands beside cells, in Markdown.

use std::fmt::Write as _;

use unstall_results::capacity::Finding;
use unstall_results::level::blindness;
use unstall_results::summary::{Summary, near_the_floor, summarise};

use super::detail::Detail;
use super::write_items;
use crate::{Entry, asides as beside, blame, capacity, escape, numbers, vocabulary};

/// Pairs of who kept whom waiting.
const BLAMED_MAX: usize = 3;

/// A search for capacity: the answer and what stands behind it.
pub(super) fn capacity_entry(
    out: &mut String,
    entry: &Entry<'_>,
    finding: &Finding,
    detail: &Detail,
) -> std::fmt::Result {
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
    writeln!(
        out,
        "- **Next:** {}",
        escape::markdown(&finding.next_action)
    )?;
    write_items(out, "", &finding.notes, detail)?;
    writeln!(
        out,
        "\n| version | capacity | 95 % interval | blocks |\n|---|---:|---:|---:|"
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

/// One version as it was measured.
pub(super) fn entry(out: &mut String, entry: &Entry<'_>, detail: &Detail) -> std::fmt::Result {
    let record = entry.record;
    writeln!(out, "## {}\n", escape::markdown(&record.label))?;
    writeln!(
        out,
        "| endpoint | {} | requests | errors | p50 | p95 | p99 |\n|---|---:|---:|---:|---:|---:|---:|",
        numbers::level_head(&record.load)
    )?;
    let summaries = summarise(record);
    let endpoints: Vec<&Summary> = summaries.iter().filter(|s| s.endpoint.is_some()).collect();
    for summary in endpoints.iter().take(detail.rows) {
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
    if endpoints.len() > detail.rows {
        writeln!(out, "… and {} more.\n", endpoints.len() - detail.rows)?;
    }
    whole_service(out, &summaries, detail)?;
    for near in near_the_floor(record).iter().take(detail.items) {
        writeln!(out, "{}\n", escape::markdown(near))?;
    }
    if let Some(blind) = blindness(&record.load) {
        writeln!(out, "{}\n", escape::markdown(blind))?;
    }
    asides(out, entry, detail)
}

fn whole_service(out: &mut String, summaries: &[Summary], detail: &Detail) -> std::fmt::Result {
    if summaries.is_empty() {
        writeln!(
            out,
            "No block may be used: a fault of the measurement spoilt each of them.\n"
        )?;
    }
    let services = summaries
        .iter()
        .filter(|summary| summary.endpoint.is_none());
    for service in services.take(detail.rows) {
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

/// Bystanders, streams, connections and the watch, an item each.
pub(super) fn asides(out: &mut String, entry: &Entry<'_>, detail: &Detail) -> std::fmt::Result {
    let mut asides = beside::asides(entry.record);
    asides.extend(blame::aside(entry.record, BLAMED_MAX));
    if asides.is_empty() {
        return Ok(());
    }
    if !detail.beside {
        let left = vocabulary::plural(
            u64::try_from(asides.len()).unwrap_or(u64::MAX),
            "thing that is shown and not judged",
            "things that are shown and not judged",
        );
        return writeln!(out, "… and {left}.\n");
    }
    for aside in asides.iter().take(detail.items) {
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
    if asides.len() > detail.items {
        writeln!(out, "- … and {} more", asides.len() - detail.items)?;
    }
    writeln!(out)
}
