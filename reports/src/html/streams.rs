//! Streamed answers: when the first item came, and the gaps between the others.

use std::fmt::Write as _;

use unstall_results::record::RunRecord;
use unstall_results::stream::{StreamSummary, streams};

use super::panel::{self, Panel, Subject};
use super::table;
use crate::{escape, numbers, observed};

/// Endpoints at one concurrency that get charts.
const CHARTED_MAX: usize = 8;

/// Writes table and charts of streamed endpoints, if there are any.
pub(super) fn write(out: &mut String, record: &RunRecord) -> std::fmt::Result {
    let found = streams(record);
    if found.is_empty() {
        return Ok(());
    }
    let mut charted: Vec<(&str, u32)> = found
        .iter()
        .map(|stream| (stream.endpoint.as_str(), stream.level))
        .collect();
    charted.dedup();
    writeln!(out, "<h3>Streams: first item and gaps</h3>")?;
    let panels: Vec<Panel<'_>> = charted
        .iter()
        .take(CHARTED_MAX)
        .flat_map(|(endpoint, level)| panels(record, endpoint, *level))
        .filter(|panel| !panel.is_empty())
        .collect();
    panel::write(out, record, &panels, charted.len() <= CHARTED_MAX / 2)?;
    writeln!(
        out,
        "<p class=\"note\">First items count from the moment their request was meant to be sent. Gaps are shown and \
         not judged: they are those of complete streams and broken ones alike.</p>"
    )?;
    numbers_table(out, &found)
}

fn panels<'r>(record: &'r RunRecord, endpoint: &'r str, level: u32) -> [Panel<'r>; 2] {
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
        ),
        Panel::new(
            record,
            level,
            subject("Gap between items", "gaps"),
            |block| block.endpoints.get(endpoint)?.gap.as_ref(),
        ),
    ]
}

fn numbers_table(out: &mut String, found: &[StreamSummary]) -> std::fmt::Result {
    let columns = [
        table::text("Endpoint"),
        table::text("Arm"),
        table::number("c"),
        table::number("Complete"),
        table::number("Truncated"),
        table::number("Items"),
        table::number("In one read"),
        table::number("First item p50"),
        table::number("p95"),
        table::number("Gap p50"),
        table::number("p95"),
        table::number("p99"),
        table::number("Longest of a stream, p50"),
        table::number("Longest of all"),
    ];
    writeln!(out, "<details open><summary>Table: streams</summary>")?;
    let stalled = observed::total(found.iter().map(|stream| stream.gaps_stalled));
    let left_out = if stalled > 0 {
        format!(
            " {} during which the generator itself stalled are left out.",
            crate::vocabulary::plural(stalled, "gap", "gaps")
        )
    } else {
        String::new()
    };
    table::open(
        out,
        &format!(
            "Behind each percentile its 95\u{202F}% interval. In one read: items that came together with the one \
             before, so that there is no gap between them.{left_out}"
        ),
        &columns,
    )?;
    for stream in found {
        let share = stream.coalesced_share;
        let longest = stream.gap_ms_max;
        table::row(
            out,
            &columns,
            &[
                format!("<bdi>{}</bdi>", escape::markup(&stream.endpoint)),
                escape::markup(&stream.arm),
                stream.level.to_string(),
                numbers::count(stream.completed),
                numbers::count(stream.truncated),
                numbers::count(stream.items),
                share.map_or_else(|| "–".to_owned(), numbers::share),
                numbers::percentile_cell(&stream.ttft.p50),
                numbers::percentile_cell(&stream.ttft.p95),
                numbers::percentile_cell(&stream.gap.p50),
                numbers::percentile_cell(&stream.gap.p95),
                numbers::percentile_cell(&stream.gap.p99),
                numbers::percentile_cell(&stream.gap_longest_p50),
                longest.map_or_else(|| "–".to_owned(), numbers::ms),
            ],
        )?;
    }
    table::close(out)?;
    writeln!(out, "</details>")
}
