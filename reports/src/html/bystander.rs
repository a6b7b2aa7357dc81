//! What others felt: the bystander probe, in one sentence, a table and a chart.

use std::fmt::Write as _;

use unstall_results::bystander::{Bystander, bystanders};
use unstall_results::comparison::Metric;
use unstall_results::level::Level;
use unstall_results::record::RunRecord;

use super::panel::{self, Panel, Subject};
use super::table;
use crate::{asides, escape, numbers, observed};

/// From how much blocked time of its own a route is none for a bystander, ms per 1 000 requests.
const BLOCKED_MS_MAX: f64 = 20.0;

/// Writes what the probe saw, if there was one.
pub(super) fn write(out: &mut String, anchor: &str, record: &RunRecord) -> std::fmt::Result {
    let found = bystanders(record);
    let (Some(probe), false) = (&record.load.probe, found.is_empty()) else {
        return Ok(());
    };
    writeln!(
        out,
        "<h4>What others felt</h4>\n<p class=\"others\">Beside the load a bystander asked for <code>{}</code> {} times \
         per second, without waiting for answers. What it waited is what the load did to everybody else{}. \
         These numbers are shown, not judged.</p>",
        escape::markup(&probe.path),
        numbers::tick(probe.rate_per_second),
        sentence(&found)
    )?;
    let mut panels = Vec::new();
    for panel in observed::levels(record)
        .into_iter()
        .map(|level| of_level(record, level))
    {
        let arms: Vec<&Bystander> = found
            .iter()
            .filter(|bystander| bystander.level == panel.level())
            .collect();
        if !arms.is_empty() {
            let mut table = String::new();
            numbers_table(&mut table, &arms)?;
            panels.push(panel.with_beside(table));
        }
    }
    panel::write(out, &format!("{anchor}-b"), record, &panels, true)?;
    for bystander in &found {
        notes(out, bystander)?;
    }
    Ok(())
}

fn of_level(record: &RunRecord, level: Level) -> Panel<'_> {
    let subject = Subject {
        what: "Waiting time of bystanders",
        endpoint: None,
        caption: "Waiting time of bystanders by percentile".to_owned(),
        counted: "bystanders",
    };
    Panel::new(record, level, subject, |block| {
        Some(&block.probe.as_ref()?.response)
    })
    .with_failures(|arm| observed::failed_bystanders(record, arm, level))
}

/// One in a hundred, in every arm: `: one request in a hundred took … before and … after`.
fn sentence(found: &[Bystander]) -> String {
    let several_levels = asides::several_levels(found.iter().map(|bystander| bystander.level));
    let parts: Vec<String> = found
        .iter()
        .filter(|bystander| numbers::percentile(&bystander.p99).is_some())
        .map(|bystander| {
            let level = if several_levels {
                format!(" at {}", numbers::level(bystander.level))
            } else {
                String::new()
            };
            format!(
                "<strong>{}</strong> {}{level}",
                numbers::estimate_ms(&bystander.p99),
                escape::markup(&bystander.arm)
            )
        })
        .collect();
    if parts.is_empty() {
        return String::new();
    }
    format!(
        ": one request in a hundred took at least {}",
        parts.join(", ")
    )
}

/// A row per number, a column per arm, so that it fits beside the chart.
fn numbers_table(out: &mut String, arms: &[&Bystander]) -> std::fmt::Result {
    let mut columns = vec![table::text("Bystanders")];
    columns.extend(arms.iter().map(|arm| {
        // Arms of a record have one of these names.
        table::number(match arm.arm.as_str() {
            "before" => "before",
            "after" => "after",
            _ => "run",
        })
    }));
    writeln!(out, "<figure><figcaption>All blocks together</figcaption>")?;
    table::open(
        out,
        "From the moment a request was due; below each percentile its 95\u{202F}% interval. A failure counts as \
         having waited the whole timeout of 10\u{202F}s, a request without an answer at the block’s end at least \
         until then. Own lateness is how late the probe itself was.",
        &columns,
    )?;
    let mut row = |name: &str, of: &dyn Fn(&Bystander) -> String| {
        let mut cells = vec![name.to_owned()];
        cells.extend(arms.iter().map(|arm| of(arm)));
        table::row(out, &columns, &cells)
    };
    row("p50", &|arm| numbers::percentile_cell(&arm.p50))?;
    row("p90", &|arm| numbers::percentile_cell(&arm.p90))?;
    row("p99", &|arm| numbers::percentile_cell(&arm.p99))?;
    row("longest", &|arm| numbers::estimate_ms(&arm.longest))?;
    row("requests", &|arm| numbers::count(arm.offered))?;
    row("failed", &|arm| {
        numbers::count(observed::total(arm.errors.values().copied()))
    })?;
    row("no answer yet", &|arm| numbers::count(arm.in_flight))?;
    row("own lateness p99", &|arm| {
        arm.lag_us_p99
            .map_or_else(|| "–".to_owned(), numbers::ms_from_us)
    })?;
    table::close(out)?;
    writeln!(out, "</figure>")
}

fn notes(out: &mut String, bystander: &Bystander) -> std::fmt::Result {
    let arm = escape::markup(&bystander.arm);
    let level = numbers::level(bystander.level);
    if let Some(doubt) = &bystander.doubt {
        writeln!(
            out,
            "<p class=\"banner\">{arm} at {level}: {}.</p>",
            escape::markup_prose(doubt)
        )?;
    }
    let blocked = bystander.blocked_ms_per_1000;
    if let Some(blocked) = blocked.filter(|ms| *ms > BLOCKED_MS_MAX) {
        writeln!(
            out,
            "<p class=\"banner\">{arm} at {level}: the probe’s own route blocked the loop, {} per \
             1\u{202F}000 of its requests. Name a cheaper one in the scenario’s [probe].</p>",
            numbers::value(Metric::BlockedMsPer1000, blocked)
        )?;
    }
    Ok(())
}
