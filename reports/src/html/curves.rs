//! Charts of response times, each with its table.

use std::fmt::Write as _;

use unstall_results::record::RunRecord;

use super::table;
use crate::charts::percentiles::{self, Curve, Look};
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
    let drawn: Vec<Panel<'_>> = panels
        .iter()
        .take(CHARTS_MAX)
        .map(|(level, endpoint)| Panel::new(record, *level, endpoint))
        .collect();
    let look = Look {
        with_blocks: panels.len() <= CHARTS_WITH_BLOCKS_MAX,
        logarithmic: drawn
            .iter()
            .any(|panel| percentiles::needs_logarithm(&panel.curves())),
    };
    writeln!(out, "<h3>Response time by percentile</h3>")?;
    legend(out, record, look.with_blocks)?;
    writeln!(out, "<div class=\"charts\">")?;
    for panel in &drawn {
        panel.write(out, look)?;
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

/// One endpoint at one concurrency, all arms.
struct Panel<'r> {
    endpoint: &'r str,
    level: u32,
    arms: Vec<(&'r str, Samples<'r>)>,
}

impl<'r> Panel<'r> {
    fn new(record: &'r RunRecord, level: u32, endpoint: &'r str) -> Self {
        let arms = observed::arms(record)
            .into_iter()
            .map(|arm| (arm, observed::samples(record, arm, level, endpoint)))
            .collect();
        Self {
            endpoint,
            level,
            arms,
        }
    }

    fn curves(&self) -> Vec<Curve<'_>> {
        self.arms
            .iter()
            .map(|(arm, samples)| Curve { arm, samples })
            .collect()
    }

    fn write(&self, out: &mut String, look: Look) -> std::fmt::Result {
        let (endpoint, level) = (self.endpoint, self.level);
        let title = format!("Response time by percentile, {endpoint} at concurrency {level}");
        let name = format!(
            "<bdi>{}</bdi> <small>c\u{202F}=\u{202F}{level}</small>",
            escape::markup(endpoint)
        );
        writeln!(out, "<figure><figcaption>{name}</figcaption>")?;
        match percentiles::render(&title, &self.curves(), look) {
            Some(svg) => writeln!(out, "{svg}")?,
            None => writeln!(out, "<p class=\"note\">Insufficient data for a curve.</p>")?,
        }
        writeln!(out, "<details><summary>Table</summary>")?;
        quantile_table(out, &name, &self.arms)?;
        writeln!(out, "</details></figure>")
    }
}

fn quantile_table(
    out: &mut String,
    name: &str,
    samples: &[(&str, Samples<'_>)],
) -> std::fmt::Result {
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
            cells.push(samples.quantile_text(quantile));
        }
        cells.push(samples.max_text());
        table::row(out, &columns, &cells)?;
    }
    table::close(out)
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
        let title = format!("p95 of each second within its block at concurrency {level}");
        if let Some(svg) = seconds::render(&title, record, level) {
            writeln!(
                figures,
                "<figure><figcaption>p95 per second within a block, one line per block \
                 <small>c\u{202F}=\u{202F}{level}</small></figcaption>{svg}<details><summary>Table</summary>"
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
fn seconds_table(out: &mut String, record: &RunRecord, level: u32) -> std::fmt::Result {
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
