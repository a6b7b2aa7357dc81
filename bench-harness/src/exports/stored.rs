//! The same forms of a record that is on disk. It has no seconds of its endpoints any more: a row
//! is a whole block of one.

use std::time::Duration;

use anyhow::{Context, bail};
use jiff::Timestamp;
use unstall_bench_harness::engine::EndpointSecond;
use unstall_results::record::{Block, RunRecord};

use super::{Form, Row, csv, hdr_log, json_lines, prometheus, rows};

/// Renders a record.
///
/// # Errors
/// A record whose times are not in it.
pub(crate) fn of_record(record: &RunRecord, form: Form) -> anyhow::Result<String> {
    if form == Form::Prometheus {
        return Ok(prometheus::render(&[record]));
    }
    let imported = record.arms.values().filter_map(|arm| arm.imported.as_ref());
    for import in imported {
        if !import.percentiles.is_empty() {
            bail!(
                "the record `{}` was imported from {} with percentiles and no times; only \
                 --format prom can show them",
                record.label,
                import.tool
            );
        }
    }
    let created: Timestamp = record.created_utc.parse().with_context(|| {
        format!(
            "the record's time `{}` is none (RFC 3339)",
            record.created_utc
        )
    })?;
    let mut text = match form {
        Form::Csv => csv::head(),
        Form::HdrLog => hdr_log::head(created),
        Form::JsonLines | Form::Prometheus => String::new(),
    };
    for block in &record.blocks {
        let whole = whole(record, block);
        let length = Duration::from_nanos(block.wall_ns).as_secs_f64();
        let rows: Vec<Row<'_>> = rows(record, block, &whole)?
            .into_iter()
            .map(|row| Row {
                whole: Some(length),
                ..row
            })
            .collect();
        text.push_str(&match form {
            Form::Csv => csv::rows(&rows),
            Form::JsonLines => json_lines::rows(&rows)?,
            Form::HdrLog => hdr_log::rows(&rows)?,
            Form::Prometheus => String::new(),
        });
    }
    Ok(text)
}

/// A block as one long second of each endpoint.
fn whole(record: &RunRecord, block: &Block) -> Vec<EndpointSecond> {
    let endpoints = record.scenario.endpoints.iter().enumerate();
    endpoints
        .filter_map(|(endpoint, identity)| {
            let samples = block.endpoints.get(&identity.name)?;
            Some(EndpointSecond {
                second: 0,
                endpoint,
                response: samples.response.clone(),
                errors: samples
                    .errors
                    .values()
                    .copied()
                    .fold(0, u64::saturating_add),
            })
        })
        .collect()
}
