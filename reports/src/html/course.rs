//! How the measurement went: second by second within blocks, then failures, threads and memory
//! block by block.

use std::fmt::Write as _;

use unstall_results::level::Level;
use unstall_results::record::{Block, RunRecord};

use super::{blocks, observations, panel, table};
use crate::charts::{self, seconds, stalls, timeline};
use crate::observed::SecondOfArm;
use crate::{escape, numbers, observed};

/// Rows of a table of seconds: two versions of 120 points.
const SECONDS_MAX: usize = 240;
/// Levels with charts.
const LEVELS_MAX: usize = 8;

/// Writes the part.
pub(super) fn write(out: &mut String, anchor: &str, record: &RunRecord) -> std::fmt::Result {
    if record.blocks.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<h3 id=\"{anchor}-course\">Course</h3>\n<h4>Second by second</h4>"
    )?;
    let mut figures = String::new();
    let levels = observed::levels(record);
    let left = levels.len().saturating_sub(LEVELS_MAX);
    for (index, level) in levels.into_iter().take(LEVELS_MAX).enumerate() {
        of_level(
            &mut figures,
            &format!("{anchor}-s{}", index + 1),
            record,
            level,
        )?;
    }
    if figures.is_empty() {
        writeln!(
            out,
            "<p class=\"note\">Blocks were too short for a course: it takes three full seconds.</p>"
        )?;
    } else {
        panel::legend(out, record, true)?;
        writeln!(
            out,
            "{figures}<p class=\"note\">Full seconds only: the last one of a block is cut, and would look like a fall.</p>"
        )?;
        table::more(out, left, " levels, without a chart")?;
    }
    observations::write_errors(out, record)?;
    resources(out, anchor, record)
}

/// Rates and p95 of one level side by side, above the table of both.
fn of_level(out: &mut String, link: &str, record: &RunRecord, level: Level) -> std::fmt::Result {
    let found = observed::seconds(record, level);
    let at = numbers::level_words(level);
    let title = format!("Answers and failures per second at {at}");
    let Some(rates) = timeline::render(&title, record, level, &found) else {
        return Ok(());
    };
    let (highest, level_name) = match observed::seconds_per_point(record, level) {
        1 => ("", numbers::level(level).to_string()),
        several => (
            "the highest ",
            format!("each point {several}\u{202F}s, {}", numbers::level(level)),
        ),
    };
    let offered = match timeline::is_offered(&record.load) {
        true => "; dotted: what was offered",
        false => "",
    };
    writeln!(
        out,
        "<div data-link=\"{link}\"><div class=\"charts\"><figure><figcaption>Answers per second, mean of all blocks; \
         ● failures{offered} <small>{level_name}</small></figcaption>{rates}</figure>"
    )?;
    let title = format!("p95 of each second within its block at {at}");
    if let Some(svg) = seconds::render(&title, record, level) {
        writeln!(
            out,
            "<figure><figcaption>{highest}p95 per second, one line per block <small>{level_name}</small></figcaption>{svg}</figure>"
        )?;
    }
    let title = format!("For how long a loop was held in each second at {at}");
    if let Some(svg) = stalls::render(&title, record, &found) {
        let stalls = record
            .blocks
            .iter()
            .filter_map(|block| block.stalls.as_ref());
        let threshold_us = stalls.map(|stalls| stalls.threshold_us).max().unwrap_or(0);
        writeln!(
            out,
            "<figure><figcaption>Time of each second in which a loop was held, by holds longer than {}, mean of all \
             blocks that tell it <small>{level_name}</small></figcaption>{svg}</figure>",
            numbers::ms_from_us(threshold_us)
        )?;
    }
    writeln!(
        out,
        "</div><details><summary>Table: second by second</summary>"
    )?;
    seconds_table(out, record, level, &found)?;
    writeln!(out, "</details></div>")
}

/// Per second and version the mean of the blocks and the middle of their p95: a table of every line of
/// the charts would be longer than the rest of the page.
fn seconds_table(
    out: &mut String,
    record: &RunRecord,
    level: Level,
    found: &[SecondOfArm<'_>],
) -> std::fmt::Result {
    let with_offered = timeline::is_offered(&record.load);
    let mut columns = vec![
        table::number("Second"),
        table::text("Arm"),
        table::number("Blocks"),
    ];
    if with_offered {
        columns.push(table::number("Offered per second"));
    }
    columns.extend(
        [
            "Answers per second",
            "Failures per second",
            "Median of their p95",
        ]
        .map(table::number),
    );
    let with_held = found.iter().any(|second| second.held_ms.is_some());
    if with_held {
        columns.push(table::number("Loop held"));
    }
    let per_point = observed::seconds_per_point(record, level);
    let caption = match per_point {
        1 => "Means over the blocks that lasted so long".to_owned(),
        several => format!(
            "Means over {several} seconds each, from the one that is named, and over the blocks that lasted so long"
        ),
    };
    table::open(out, &caption, &columns)?;
    for (index, second) in found.iter().enumerate().take(SECONDS_MAX) {
        let rate = |rate: f64| numbers::tick((rate * 10.0).round() / 10.0);
        let mut cells = vec![
            second.second.to_string(),
            escape::markup(second.arm),
            second.blocks.to_string(),
        ];
        if with_offered {
            cells.push(rate(second.rates.offered));
        }
        cells.push(rate(second.rates.completed));
        cells.push(rate(second.rates.failed));
        let p95 = second
            .p95_us
            .map_or_else(|| "–".to_owned(), numbers::ms_from_us);
        cells.push(p95);
        if with_held {
            cells.push(second.held_ms.map_or_else(|| "–".to_owned(), numbers::ms));
        }
        table::keyed_row(out, &charts::row_key(index), &columns, &cells)?;
    }
    table::close(out)?;
    table::more(out, found.len().saturating_sub(SECONDS_MAX), "")
}

/// Threads and memory of the service, where we started it.
fn resources(out: &mut String, anchor: &str, record: &RunRecord) -> std::fmt::Result {
    let mut figures = String::new();
    let of = |of: fn(&Block) -> Option<f64>| -> Vec<Option<f64>> {
        record.blocks.iter().map(of).collect()
    };
    for (name, axis, values) in [
        ("Threads of the service", "threads", of(blocks::threads)),
        ("Memory of the service", "MiB", of(blocks::memory_mib)),
    ] {
        blocks::figure(&mut figures, anchor, record, name, axis, &values)?;
    }
    if figures.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<h4>Threads and memory</h4>\n<div class=\"charts\">{figures}</div>\n<p class=\"note\">The most seen in each \
         block; hollow before, filled after, ✕ not judged. Their numbers are in \
         <a href=\"#{anchor}-blocks\">Blocks in run order</a>.</p>"
    )
}
