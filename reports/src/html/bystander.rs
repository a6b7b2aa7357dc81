//! What others felt: the bystander probe, in one sentence, a table and a chart.

use std::fmt::Write as _;

use unstall_results::bystander::{Bystander, bystanders};
use unstall_results::comparison::Metric;
use unstall_results::record::RunRecord;

use super::panel::{self, Panel, Subject};
use super::table;
use crate::{asides, escape, numbers, observed};

/// From how much blocked time of its own a route is none for a bystander, ms per 1 000 requests.
const BLOCKED_MS_MAX: f64 = 20.0;

/// Writes what the probe saw, if there was one.
pub(super) fn write(out: &mut String, record: &RunRecord) -> std::fmt::Result {
    let found = bystanders(record);
    let (Some(probe), false) = (&record.load.probe, found.is_empty()) else {
        return Ok(());
    };
    writeln!(
        out,
        "<h3>What others felt</h3>\n<p class=\"note\">Beside the load a bystander asked for <code>{}</code> {} times \
         per second, without waiting for answers. What it waited is what the load did to everybody else{}. Shown, \
         not judged.</p>",
        escape::markup(&probe.path),
        numbers::tick(probe.rate_per_second),
        sentence(&found)
    )?;
    let panels: Vec<Panel<'_>> = observed::levels(record)
        .into_iter()
        .map(|level| {
            let subject = Subject {
                what: "Waiting time of bystanders",
                endpoint: None,
                caption: "Waiting time of bystanders by percentile".to_owned(),
                counted: "bystanders",
            };
            Panel::new(record, level, subject, |block| {
                Some(&block.probe.as_ref()?.response)
            })
        })
        .filter(|panel| !panel.is_empty())
        .collect();
    panel::write(out, record, &panels, true)?;
    numbers_table(out, &found)?;
    for bystander in &found {
        notes(out, bystander)?;
    }
    Ok(())
}

/// One in a hundred, in every arm: `: one request in a hundred took … before and … after`.
fn sentence(found: &[Bystander]) -> String {
    let several_levels = asides::several_levels(found.iter().map(|bystander| bystander.level));
    let parts: Vec<String> = found
        .iter()
        .filter(|bystander| numbers::percentile(&bystander.p99).is_some())
        .map(|bystander| {
            let level = if several_levels {
                format!(" at c\u{202F}=\u{202F}{}", bystander.level)
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

fn numbers_table(out: &mut String, found: &[Bystander]) -> std::fmt::Result {
    let columns = [
        table::text("Arm"),
        table::number("c"),
        table::number("Requests"),
        table::number("Failed"),
        table::number("No answer yet"),
        table::number("p50"),
        table::number("p90"),
        table::number("p99"),
        table::number("longest"),
        table::number("Own lateness p99"),
    ];
    writeln!(
        out,
        "<details><summary>Table: bystanders of all blocks</summary>"
    )?;
    table::open(
        out,
        "From the moment a request was due; behind each percentile its 95\u{202F}% interval. A failure counts as \
         having waited the whole timeout of 10\u{202F}s, one without an answer at the block’s end at least until then. \
         Own lateness is how late the probe itself was.",
        &columns,
    )?;
    for bystander in found {
        let failed = observed::total(bystander.errors.values().copied());
        let lag = bystander.lag_us_p99;
        table::row(
            out,
            &columns,
            &[
                escape::markup(&bystander.arm),
                bystander.level.to_string(),
                numbers::count(bystander.offered),
                numbers::count(failed),
                numbers::count(bystander.in_flight),
                numbers::percentile_cell(&bystander.p50),
                numbers::percentile_cell(&bystander.p90),
                numbers::percentile_cell(&bystander.p99),
                numbers::estimate_ms(&bystander.longest),
                lag.map_or_else(|| "–".to_owned(), numbers::ms_from_us),
            ],
        )?;
    }
    table::close(out)?;
    writeln!(out, "</details>")
}

fn notes(out: &mut String, bystander: &Bystander) -> std::fmt::Result {
    let arm = escape::markup(&bystander.arm);
    let level = bystander.level;
    if let Some(doubt) = &bystander.doubt {
        writeln!(
            out,
            "<p class=\"banner\">{arm} at c\u{202F}=\u{202F}{level}: {}.</p>",
            escape::markup_prose(doubt)
        )?;
    }
    let blocked = bystander.blocked_ms_per_1000;
    if let Some(blocked) = blocked.filter(|ms| *ms > BLOCKED_MS_MAX) {
        writeln!(
            out,
            "<p class=\"banner\">{arm} at c\u{202F}=\u{202F}{level}: the probe’s own route blocked the loop, {} per \
             1\u{202F}000 of its requests. Name a cheaper one in the scenario’s [probe].</p>",
            numbers::value(Metric::BlockedMsPer1000, blocked)
        )?;
    }
    Ok(())
}
