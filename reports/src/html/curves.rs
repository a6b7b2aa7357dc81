//! Charts of response times, each with its table.

use std::fmt::Write as _;

use unstall_results::record::RunRecord;

use super::table;
use crate::charts::percentiles::{self, Curve};
use crate::charts::{blocks, seconds};
use crate::observed::{self, Samples};
use crate::{escape, numbers};

/// Charts per measurement: a page of a hundred endpoints must stay readable and
/// small; the cells table has every endpoint.
const CHARTS_MAX: usize = 16;
/// Up to this many charts also show one faint curve per block.
const CHARTS_WITH_BLOCKS_MAX: usize = 8;
/// Percentiles of a chart's table.
const QUANTILES: [(f64, &str); 6] = [
    (0.5, "p50"),
    (0.75, "p75"),
    (0.9, "p90"),
    (0.95, "p95"),
    (0.99, "p99"),
    (0.999, "p99.9"),
];

/// Writes percentile curves. `first` names endpoints to show before the others.
pub(super) fn write(out: &mut String, record: &RunRecord, first: &[&str]) -> std::fmt::Result {
    let mut endpoints = observed::endpoints(record);
    endpoints.sort_by_key(|name| {
        first
            .iter()
            .position(|wanted| wanted == name)
            .unwrap_or(usize::MAX)
    });
    let panels: Vec<(u32, &str)> = endpoints
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
    let with_blocks = panels.len() <= CHARTS_WITH_BLOCKS_MAX;
    writeln!(out, "<h3>Response time by percentile</h3>")?;
    legend(out, record, with_blocks)?;
    writeln!(out, "<div class=\"charts\">")?;
    for (level, endpoint) in panels.iter().take(CHARTS_MAX) {
        panel(out, record, *level, endpoint, with_blocks)?;
    }
    writeln!(out, "</div>")?;
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

fn legend(out: &mut String, record: &RunRecord, with_blocks: bool) -> std::fmt::Result {
    write!(out, "<p class=\"legend\">")?;
    for arm in observed::arms(record) {
        let class = if arm == "before" { "before" } else { "after" };
        write!(
            out,
            "<span class=\"{class}\"><i aria-hidden=\"true\"></i> {}</span> ",
            escape::markup(arm)
        )?;
    }
    if with_blocks {
        write!(out, "<span>faint: single blocks</span>")?;
    }
    writeln!(out, "</p>")
}

fn panel(
    out: &mut String,
    record: &RunRecord,
    level: u32,
    endpoint: &str,
    with_blocks: bool,
) -> std::fmt::Result {
    let samples: Vec<(&str, Samples)> = observed::arms(record)
        .into_iter()
        .map(|arm| (arm, observed::samples(record, arm, level, endpoint)))
        .collect();
    let curves: Vec<Curve<'_>> = samples
        .iter()
        .map(|(arm, samples)| Curve { arm, samples })
        .collect();
    let title = format!("Response time by percentile, {endpoint} at concurrency {level}");
    let name = format!(
        "<bdi>{}</bdi> <small>c\u{202F}=\u{202F}{level}</small>",
        escape::markup(endpoint)
    );
    writeln!(out, "<figure><figcaption>{name}</figcaption>")?;
    match percentiles::render(&title, &curves, with_blocks) {
        Some(svg) => writeln!(out, "{svg}")?,
        None => writeln!(out, "<p class=\"note\">Insufficient data for a curve.</p>")?,
    }
    writeln!(out, "<details><summary>Table</summary>")?;
    quantile_table(out, &name, &samples)?;
    writeln!(out, "</details></figure>")
}

fn quantile_table(out: &mut String, name: &str, samples: &[(&str, Samples)]) -> std::fmt::Result {
    let columns = [
        table::text("Arm"),
        table::number("n"),
        table::number("Failed"),
        table::number(QUANTILES[0].1),
        table::number(QUANTILES[1].1),
        table::number(QUANTILES[2].1),
        table::number(QUANTILES[3].1),
        table::number(QUANTILES[4].1),
        table::number(QUANTILES[5].1),
        table::number("max"),
    ];
    table::open(out, name, &columns)?;
    for (arm, samples) in samples {
        let mut cells = vec![
            escape::markup(arm),
            numbers::count(samples.completed),
            numbers::count(samples.failed()),
        ];
        for (quantile, _) in QUANTILES {
            cells.push(
                samples
                    .response
                    .as_ref()
                    .and_then(|response| observed::quantile_us(response, quantile))
                    .map_or_else(|| "–".to_owned(), numbers::ms_from_us),
            );
        }
        cells.push(match &samples.response {
            Some(response) if !response.is_empty() => numbers::ms_from_us(response.max()),
            _ => "–".to_owned(),
        });
        table::row(out, &columns, &cells)?;
    }
    table::close(out)
}

/// Writes the course of the measurement: blocks in run order, seconds within blocks.
pub(super) fn write_course(out: &mut String, record: &RunRecord) -> std::fmt::Result {
    let mut figures = Vec::new();
    if let Some(svg) = blocks::render("Median response time of every block in run order", record) {
        figures.push((
            "Every block when it ran: median of all endpoints; hollow before, filled after, ✕ not judged".to_owned(),
            svg,
        ));
    }
    for level in observed::levels(record) {
        let title = format!("p95 of each second within its block at concurrency {level}");
        if let Some(svg) = seconds::render(&title, record, level) {
            figures.push((
                format!("p95 per second within a block, one line per block <small>c\u{202F}=\u{202F}{level}</small>"),
                svg,
            ));
        }
    }
    if figures.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<h3>Course of the measurement</h3><div class=\"charts\">"
    )?;
    for (caption, svg) in figures {
        writeln!(
            out,
            "<figure><figcaption>{caption}</figcaption>{svg}</figure>"
        )?;
    }
    writeln!(out, "</div>")
}
