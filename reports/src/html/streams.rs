//! Streamed answers: when the first item came, and the gaps between the others.

use std::fmt::Write as _;

use unstall_results::level::Level;
use unstall_results::record::RunRecord;
use unstall_results::stream::{StreamSummary, streams};

use super::panel::{self, Panel, Subject};
use super::table;
use crate::{asides, escape, numbers, observed, vocabulary};

/// Endpoints at one concurrency that get charts.
const CHARTED_MAX: usize = 8;
/// Rows of the table.
const ROWS_MAX: usize = 200;

/// Writes table and charts of streamed endpoints, if there are any.
pub(super) fn write(out: &mut String, anchor: &str, record: &RunRecord) -> std::fmt::Result {
    let found = streams(record);
    if found.is_empty() {
        return Ok(());
    }
    let mut charted: Vec<(&str, Level)> = found
        .iter()
        .map(|stream| (stream.endpoint.as_str(), stream.level))
        .collect();
    charted.dedup();
    writeln!(out, "<h4>Streams: first item and gaps</h4>")?;
    let panels: Vec<Panel<'_>> = charted
        .iter()
        .take(CHARTED_MAX)
        .flat_map(|(endpoint, level)| panels(record, endpoint, *level))
        .filter(|panel| !panel.is_empty())
        .collect();
    let with_blocks = charted.len() <= CHARTED_MAX / 2;
    panel::write(out, &format!("{anchor}-g"), record, &panels, with_blocks)?;
    writeln!(
        out,
        "<p class=\"note\">First items count from the moment their request was meant to be sent. Gaps are shown and \
         not judged, and they are those of complete streams: one that broke or fell silent is counted among the \
         errors, and its gaps are in no curve.</p>"
    )?;
    numbers_table(out, &found)
}

fn panels<'r>(record: &'r RunRecord, endpoint: &'r str, level: Level) -> [Panel<'r>; 2] {
    let subject = |what: &'static str, counted: &'static str| Subject {
        what,
        endpoint: Some(endpoint),
        caption: format!("{what}, <bdi>{}</bdi>", escape::markup(endpoint)),
        counted,
    };
    [
        Panel::new(
            record,
            level,
            subject("Time to first item", "streams"),
            |block| block.endpoints.get(endpoint)?.ttft.as_ref(),
        )
        .with_failures(|arm| observed::failed(record, arm, level, endpoint)),
        Panel::new(
            record,
            level,
            subject("Gap between items", "gaps"),
            |block| block.endpoints.get(endpoint)?.gap.as_ref(),
        ),
    ]
}

fn numbers_table(out: &mut String, found: &[StreamSummary]) -> std::fmt::Result {
    let several_levels = asides::several_levels(found.iter().map(|stream| stream.level));
    let mut columns = vec![table::text("Endpoint"), table::text("Arm")];
    if several_levels {
        columns.push(table::number("Load"));
    }
    columns.extend(
        [
            "Streams",
            "Truncated",
            "Items",
            "In one read",
            "First item p50",
            "p95",
            "Gap p50",
            "p95",
            "p99",
            "Longest p50",
            "max",
        ]
        .map(table::number),
    );
    writeln!(out, "<details open><summary>Table: streams</summary>")?;
    table::open(out, &caption(found), &columns)?;
    for stream in found.iter().take(ROWS_MAX) {
        let mut cells = vec![
            format!("<bdi>{}</bdi>", escape::markup(&stream.endpoint)),
            escape::markup(&stream.arm),
        ];
        if several_levels {
            cells.push(numbers::level(stream.level));
        }
        cells.extend(numbers_of(stream));
        table::row(out, &columns, &cells)?;
    }
    table::close(out)?;
    table::more(out, found.len().saturating_sub(ROWS_MAX), "")?;
    writeln!(out, "</details>")
}

fn caption(found: &[StreamSummary]) -> String {
    let stalled = observed::total(found.iter().map(|stream| stream.gaps_stalled));
    let left_out = if stalled > 0 {
        format!(
            " {} during which the generator itself stalled are left out.",
            vocabulary::plural(stalled, "gap", "gaps")
        )
    } else {
        String::new()
    };
    format!(
        "Below each percentile its 95\u{202F}% interval. In one read: items that came together with the one before, \
         so that there is no gap between them. Longest: the longest gap of each stream.{left_out}"
    )
}

fn numbers_of(stream: &StreamSummary) -> [String; 11] {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    [
        numbers::count(stream.completed),
        numbers::count(stream.truncated),
        numbers::count(stream.items),
        or_dash(stream.coalesced_share.map(numbers::share)),
        numbers::percentile_cell(&stream.ttft.p50),
        numbers::percentile_cell(&stream.ttft.p95),
        numbers::percentile_cell(&stream.gap.p50),
        numbers::percentile_cell(&stream.gap.p95),
        numbers::percentile_cell(&stream.gap.p99),
        numbers::percentile_cell(&stream.gap_longest_p50),
        or_dash(stream.gap_ms_max.map(numbers::ms)),
    ]
}
