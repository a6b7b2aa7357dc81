//! Charts of response times, each with its table.

use std::fmt::Write as _;

use unstall_results::level::Level;
use unstall_results::record::RunRecord;

use super::panel::{self, Panel, Subject};
use super::table;
use crate::charts::{blocks, seconds};
use crate::{escape, numbers, observed};

/// Charts per measurement: a page of a hundred endpoints must stay readable and
/// small; the cells table has every endpoint.
const CHARTS_MAX: usize = 16;
/// Up to this many charts also show one faint curve per block.
const CHARTS_WITH_BLOCKS_MAX: usize = 8;
/// Writes percentile curves. `first` names endpoints to show before the others.
pub(super) fn write(out: &mut String, record: &RunRecord, first: &[&str]) -> std::fmt::Result {
    let mut endpoints = observed::endpoints(record);
    endpoints.sort_by_key(|name| {
        first
            .iter()
            .position(|wanted| wanted == name)
            .unwrap_or(usize::MAX)
    });
    let panels: Vec<(Level, &str)> = endpoints
        .iter()
        .flat_map(|endpoint| {
            observed::levels(record)
                .into_iter()
                .map(move |level| (level, *endpoint))
        })
        .collect();
    if panels.is_empty() {
        return Ok(());
    }
    let drawn: Vec<Panel<'_>> = panels
        .iter()
        .take(CHARTS_MAX)
        .map(|(level, endpoint)| of_endpoint(record, *level, endpoint))
        .collect();
    writeln!(out, "<h3>Response time by percentile</h3>")?;
    panel::write(out, record, &drawn, panels.len() <= CHARTS_WITH_BLOCKS_MAX)?;
    if panels.len() > CHARTS_MAX {
        writeln!(
            out,
            "<p class=\"note\">{} more have no chart; the table above lists them all.</p>",
            panels.len() - CHARTS_MAX
        )?;
    }
    writeln!(
        out,
        "<p class=\"note\">Successful answers of all good blocks together. A curve ends where fewer than five \
         observations lie beyond it: what follows would be a story about single requests.</p>"
    )
}

/// One endpoint at one concurrency, all arms.
fn of_endpoint<'r>(record: &'r RunRecord, level: Level, endpoint: &'r str) -> Panel<'r> {
    Panel::new(
        record,
        level,
        Subject {
            what: "Response time",
            endpoint: Some(endpoint),
            caption: format!("<bdi>{}</bdi>", escape::markup(endpoint)),
            counted: "requests",
        },
        |block| Some(&block.endpoints.get(endpoint)?.response),
    )
    .with_failures(|arm| observed::failed(record, arm, level, endpoint))
}

/// Writes the course of the measurement: blocks in run order, seconds within blocks.
pub(super) fn write_course(
    out: &mut String,
    record: &RunRecord,
    medians_us: &[Option<u64>],
) -> std::fmt::Result {
    let mut figures = String::new();
    let title = "Median response time of every block in run order";
    if let Some(svg) = blocks::render(title, record, medians_us) {
        writeln!(
            figures,
            "<figure><figcaption>Every block when it ran: median of all endpoints; hollow before, filled after, \
             ✕ not judged</figcaption>{svg}<p class=\"note\">Its table is “Blocks in run order” below.</p></figure>"
        )?;
    }
    for level in observed::levels(record) {
        let title = format!(
            "p95 of each second within its block at {}",
            numbers::level_words(level)
        );
        if let Some(svg) = seconds::render(&title, record, level) {
            writeln!(
                figures,
                "<figure><figcaption>p95 per second within a block, one line per block \
                 <small>{}</small></figcaption>{svg}<details><summary>Table</summary>",
                numbers::level(level)
            )?;
            seconds_table(&mut figures, record, level)?;
            writeln!(figures, "</details></figure>")?;
        }
    }
    if figures.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<h3>Course of the measurement</h3><div class=\"charts\">{figures}</div>"
    )
}

/// Per second and arm the middle of the blocks' p95: a table of every line of
/// the chart would be longer than the rest of the page.
fn seconds_table(out: &mut String, record: &RunRecord, level: Level) -> std::fmt::Result {
    let columns = [
        table::number("Second"),
        table::text("Arm"),
        table::number("Blocks"),
        table::number("Median of their p95"),
    ];
    table::open(
        out,
        "p95 per second, the middle one of all blocks",
        &columns,
    )?;
    for ((second, arm), mut p95_us) in observed::p95_by_second(record, level) {
        p95_us.sort_unstable();
        table::row(
            out,
            &columns,
            &[
                second.to_string(),
                escape::markup(arm),
                p95_us.len().to_string(),
                numbers::ms_from_us(p95_us[p95_us.len() / 2]),
            ],
        )?;
    }
    table::close(out)
}
