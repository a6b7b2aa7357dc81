//! What one version did: the table of a `run`, and failures by kind.

use std::fmt::Write as _;

use unstall_results::comparison::Metric;
use unstall_results::record::RunRecord;

use super::table;
use crate::{escape, numbers, observed, vocabulary};

/// Writes requests, errors and percentiles per endpoint and concurrency.
pub(super) fn write(out: &mut String, record: &RunRecord) -> std::fmt::Result {
    let columns = [
        table::text("Endpoint"),
        table::number("c"),
        table::number("Requests"),
        table::number("Failed"),
        table::number("Rate"),
        table::number("p50"),
        table::number("p95"),
        table::number("p99"),
        table::number("max"),
    ];
    writeln!(out, "<h3>What was seen</h3>")?;
    table::open(
        out,
        "Response time from the moment a request was meant to be sent; successful answers only. A dash stands \
         where fewer than five observations lie beyond a percentile.",
        &columns,
    )?;
    for arm in observed::arms(record) {
        for endpoint in observed::endpoints(record) {
            for level in observed::levels(record) {
                let samples = observed::samples(record, arm, level, endpoint);
                let rate = if samples.wall_ns > 0 {
                    let seconds = numbers::as_f64(samples.wall_ns) / 1e9;
                    numbers::value(
                        Metric::Throughput,
                        numbers::as_f64(samples.completed) / seconds,
                    )
                } else {
                    "–".to_owned()
                };
                table::row(
                    out,
                    &columns,
                    &[
                        format!("<bdi>{}</bdi>", escape::markup(endpoint)),
                        level.to_string(),
                        numbers::count(samples.completed + samples.failed()),
                        numbers::count(samples.failed()),
                        rate,
                        samples.quantile_text(0.5),
                        samples.quantile_text(0.95),
                        samples.quantile_text(0.99),
                        samples.max_text(),
                    ],
                )?;
            }
        }
    }
    table::close(out)
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
    writeln!(out, "<h3>Failures</h3>")?;
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
