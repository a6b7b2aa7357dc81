//! Rows as JSON objects, one a line. Their fields are the columns of the CSV form.

use anyhow::Context;
use serde::Serialize;

use super::Row;

#[derive(Serialize)]
struct Line<'a> {
    utc: String,
    scenario: &'a str,
    arm: &'a str,
    pair: u32,
    concurrency: Option<u32>,
    rate_per_second: Option<f64>,
    endpoint: &'a str,
    second: Option<u32>,
    completed: u64,
    errors: u64,
    p50_us: Option<u64>,
    p95_us: Option<u64>,
    p99_us: Option<u64>,
    max_us: Option<u64>,
    valid: bool,
}

pub(super) fn rows(rows: &[Row<'_>]) -> anyhow::Result<String> {
    let mut text = String::new();
    for row in rows {
        let line = serde_json::to_string(&Line::from(row))
            .context("a row could not be written as JSON; this is a fault of unstall")?;
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}

impl<'a> From<&Row<'a>> for Line<'a> {
    fn from(row: &Row<'a>) -> Self {
        Self {
            utc: row.begun.to_string(),
            scenario: row.scenario,
            arm: row.arm,
            pair: row.pair,
            concurrency: row.concurrency(),
            rate_per_second: row.level.rate_per_second(),
            endpoint: row.endpoint,
            second: row.number(),
            completed: row.second.response.count(),
            errors: row.second.errors,
            p50_us: row.quantile_us(0.50),
            p95_us: row.quantile_us(0.95),
            p99_us: row.quantile_us(0.99),
            max_us: row.second.response.max_us(),
            valid: row.is_valid,
        }
    }
}
