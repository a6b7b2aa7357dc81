//! Rows as comma-separated values (RFC 4180), a header first.

use super::Row;

/// Columns, in order. Names carry their unit; what is not known is empty.
const COLUMNS: [&str; 15] = [
    "utc",
    "scenario",
    "arm",
    "pair",
    "concurrency",
    "rate_per_second",
    "endpoint",
    "second",
    "completed",
    "errors",
    "p50_us",
    "p95_us",
    "p99_us",
    "max_us",
    "valid",
];

pub(super) fn head() -> String {
    COLUMNS.join(",") + "\n"
}

pub(super) fn rows(rows: &[Row<'_>]) -> String {
    rows.iter().map(line).collect()
}

fn line(row: &Row<'_>) -> String {
    let response = &row.second.response;
    let cells: [String; COLUMNS.len()] = [
        row.begun.to_string(),
        quoted(row.scenario),
        quoted(row.arm),
        row.pair.to_string(),
        known(row.concurrency()),
        known(row.level.rate_per_second()),
        quoted(row.endpoint),
        known(row.number()),
        response.count().to_string(),
        row.second.errors.to_string(),
        known(row.quantile_us(0.50)),
        known(row.quantile_us(0.95)),
        known(row.quantile_us(0.99)),
        known(response.max_us()),
        row.is_valid.to_string(),
    ];
    cells.join(",") + "\n"
}

fn known<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Names may hold anything.
fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
