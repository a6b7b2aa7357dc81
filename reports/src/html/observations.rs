//! What one version did: the table of a `run`, and failures by kind.

use std::fmt::Write as _;

use unstall_results::comparison::Metric;
use unstall_results::level::OPEN;
use unstall_results::record::RunRecord;
use unstall_results::summary::{Summary, summarise};

use super::table;
use crate::{escape, numbers, observed, vocabulary};

/// Rows of the table.
const ROWS_MAX: usize = 400;

/// Writes requests, errors and percentiles per endpoint and concurrency.
pub(super) fn write(out: &mut String, record: &RunRecord) -> std::fmt::Result {
    let columns = [
        table::text("Endpoint"),
        table::number(numbers::level_head(&record.load)),
        table::number("Requests"),
        table::number("Failed"),
        table::number(if record.load.model == OPEN {
            "Served"
        } else {
            "Rate"
        }),
        table::number("p50"),
        table::number("p95"),
        table::number("p99"),
        table::number("max"),
    ];
    table::open(
        out,
        "Response time from the moment a request was meant to be sent; behind each percentile its 95\u{202F}% \
         interval. A timeout counts as at least its limit.",
        &columns,
    )?;
    let summaries = summarise(record);
    let of_endpoints: Vec<&Summary> = summaries
        .iter()
        .filter(|summary| summary.endpoint.is_some())
        .collect();
    for summary in of_endpoints.iter().take(ROWS_MAX) {
        let Some(endpoint) = &summary.endpoint else {
            continue;
        };
        let mut cells = vec![
            format!("<bdi>{}</bdi>", escape::markup(endpoint)),
            numbers::level_number(summary.level),
            numbers::count(summary.requests),
            numbers::count(summary.requests - summary.completed),
            numbers::value(Metric::Throughput, summary.throughput_per_second),
        ];
        cells.extend(
            summary
                .percentiles
                .iter()
                .map(|percentile| numbers::percentile_cell(&percentile.estimate)),
        );
        cells.push(
            summary
                .response_us_max
                .map_or_else(|| "–".to_owned(), numbers::ms_from_us),
        );
        table::row(out, &columns, &cells)?;
    }
    table::close(out)?;
    table::more(out, of_endpoints.len().saturating_sub(ROWS_MAX), "")?;
    if summaries.is_empty() {
        writeln!(
            out,
            "<p class=\"note\">No block may be used: see “Blocks in run order” for what spoilt them.</p>"
        )?;
    }
    whole_services(out, &summaries)
}

/// What is known of the whole service, a line per level.
fn whole_services(out: &mut String, summaries: &[Summary]) -> std::fmt::Result {
    for service in summaries
        .iter()
        .filter(|summary| summary.endpoint.is_none())
    {
        writeln!(
            out,
            "<p class=\"note\">Whole service at {}: {}.</p>",
            numbers::level(service.level),
            vocabulary::whole_service(service)
        )?;
    }
    Ok(())
}

/// Writes failures by kind, where there are any.
pub(super) fn write_errors(out: &mut String, record: &RunRecord) -> std::fmt::Result {
    let errors = observed::errors(record);
    if errors.is_empty() {
        return Ok(());
    }
    let columns = [
        table::text("Kind"),
        table::text("Arm"),
        table::number("Requests"),
    ];
    writeln!(out, "<h4>Failures</h4>")?;
    table::open(
        out,
        "Failures of the service or the network, seen from the client.",
        &columns,
    )?;
    for ((arm, kind), count) in errors {
        table::row(
            out,
            &columns,
            &[
                vocabulary::error_kind(kind).to_owned(),
                escape::markup(arm),
                numbers::count(count),
            ],
        )?;
    }
    table::close(out)
}
