//! Every block in the order in which it ran, with what would speak against it: its validity, whether
//! it was measured again, what the hypervisor took, how busy the machine was.

use std::fmt::Write as _;

use unstall_results::comparison::Metric;
use unstall_results::level::Level;
use unstall_results::record::{Block, Load, RunRecord};

use super::table;
use crate::charts::{self, blocks as chart};
use crate::{escape, numbers, observed};

/// More blocks than a session of a day has.
const ROWS_MAX: usize = 1_000;

/// Writes chart and table.
pub(super) fn write(out: &mut String, anchor: &str, record: &RunRecord) -> std::fmt::Result {
    let medians_us = observed::block_medians_us(record);
    let medians_ms: Vec<Option<f64>> = medians_us
        .iter()
        .map(|us| us.map(|us| numbers::as_f64(us) / 1_000.0))
        .collect();
    writeln!(out, "<h4 id=\"{anchor}-blocks\">Blocks in run order</h4>")?;
    let mut chart = String::new();
    figure(
        &mut chart,
        anchor,
        record,
        "Median response time of all endpoints; hollow before, filled after, ✕ not judged",
        "median, ms",
        &medians_ms,
    )?;
    if !chart.is_empty() {
        writeln!(out, "<div class=\"charts\">{chart}</div>")?;
    }
    writeln!(
        out,
        "<details data-link=\"{anchor}-blocks\"><summary>Table: blocks in run order</summary>"
    )?;
    block_table(out, record, &medians_us)?;
    writeln!(out, "</details>")
}

/// A chart of one number of every block, tied to the table; nothing if fewer than two have it.
pub(super) fn figure(
    out: &mut String,
    anchor: &str,
    record: &RunRecord,
    name: &str,
    axis: &str,
    values: &[Option<f64>],
) -> std::fmt::Result {
    let title = format!("{name}: every block when it ran");
    let subject = chart::Subject {
        title: &title,
        axis,
        values,
    };
    match chart::render(record, &subject) {
        Some(svg) => writeln!(
            out,
            "<figure data-link=\"{anchor}-blocks\"><figcaption>{name}</figcaption>{svg}</figure>"
        ),
        None => Ok(()),
    }
}

/// Most threads seen.
pub(super) fn threads(block: &Block) -> Option<f64> {
    Some(numbers::as_f64(block.process.as_ref()?.threads_max))
}

/// Highest resident set seen, MiB.
pub(super) fn memory_mib(block: &Block) -> Option<f64> {
    Some(numbers::as_f64(block.process.as_ref()?.rss_kib_max) / 1_024.0)
}

fn block_table(
    out: &mut String,
    record: &RunRecord,
    medians_us: &[Option<u64>],
) -> std::fmt::Result {
    let columns = [
        table::number("#"),
        table::text("Arm"),
        table::number("Pair"),
        table::number(numbers::level_head(&record.load)),
        table::number("Completed"),
        table::number("Failed"),
        table::number("Rate"),
        table::number("p50"),
        table::number("Threads"),
        table::number("Memory"),
        table::number("Lag p99"),
        table::number("Stolen"),
        table::number("Pressure"),
        table::text("Validity"),
    ];
    table::open(
        out,
        "One process start and one stretch of load each. Lag is how late the generator itself was; stolen is CPU \
         time that the hypervisor gave to others; pressure is the share of time in which something on the machine \
         waited for a core.",
        &columns,
    )?;
    let redone = observed::redone(record);
    let rows = record.blocks.iter().zip(medians_us).enumerate();
    for (index, (block, median_us)) in rows.take(ROWS_MAX) {
        let mut cells = numbers_of(&record.load, index, block, *median_us);
        cells.push(validity(&redone, index, block));
        table::keyed_row(out, &charts::row_key(index), &columns, &cells)?;
    }
    table::close(out)?;
    table::more(out, record.blocks.len().saturating_sub(ROWS_MAX), "")
}

fn numbers_of(load: &Load, index: usize, block: &Block, median_us: Option<u64>) -> Vec<String> {
    let dash = || "–".to_owned();
    let rate = (block.wall_ns > 0)
        .then(|| numbers::as_f64(block.completed) / (numbers::as_f64(block.wall_ns) / 1e9));
    let shown = |metric: Metric, value: Option<f64>| {
        value.map_or_else(dash, |value| numbers::value(metric, value))
    };
    vec![
        (index + 1).to_string(),
        escape::markup(&block.arm),
        block.pair.saturating_add(1).to_string(),
        numbers::level_number(Level::of(load, block.level)),
        numbers::count(block.completed),
        numbers::count(observed::total(block.errors.values().copied())),
        shown(Metric::Throughput, rate),
        median_us.map_or_else(dash, numbers::ms_from_us),
        shown(Metric::Threads, threads(block)),
        shown(Metric::RssMib, memory_mib(block)),
        observed::quantile_us(&block.generator_lag, 0.99).map_or_else(dash, numbers::ms_from_us),
        block.steal_share.map_or_else(dash, numbers::share),
        block.cpu_pressure_share.map_or_else(dash, numbers::share),
    ]
}

/// `✓ ok`, `⊘ why not`, and which block was measured for which.
fn validity(redone: &[Option<usize>], index: usize, block: &Block) -> String {
    let mut text = match block.validity.ok {
        true => "✓ ok".to_owned(),
        false => format!(
            "⊘ {}",
            escape::markup_prose(&block.validity.reasons.join("; "))
        ),
    };
    if let Some(first) = redone.iter().position(|later| *later == Some(index)) {
        text.push_str(&format!(" <small>second try for #{}</small>", first + 1));
    }
    if let Some(Some(later)) = redone.get(index) {
        text.push_str(&format!(" <small>measured again as #{}</small>", later + 1));
    }
    text
}
