//! What identical versions showed on this machine: how often the rule alarmed without a cause, and how
//! much each metric scatters. Without a certificate that fits, that nothing is known of it.

use std::fmt::Write as _;

use unstall_results::calibration::{CellNoise, Certificate, Share};
use unstall_results::comparison::{Metric, Scale};
use unstall_results::level::Level;
use unstall_results::record::RunRecord;

use super::table;
use crate::{escape, numbers, vocabulary};

/// Rows of the table of noise.
const ROWS_MAX: usize = 200;

/// Writes what is known of false alarms.
pub(super) fn write(
    out: &mut String,
    record: &RunRecord,
    certificate: Option<&Certificate>,
) -> std::fmt::Result {
    writeln!(out, "<h4>False alarms</h4>")?;
    let Some(certificate) = certificate else {
        return not_calibrated(out, record, "wasn’t measured");
    };
    if let Err(misfit) = certificate.fits(record, true) {
        not_calibrated(out, record, "was measured for something else")?;
        return writeln!(
            out,
            "<p class=\"note\">{}</p>",
            escape::markup_prose(&misfit.to_string())
        );
    }
    alarms(out, certificate)?;
    noise(out, certificate)
}

/// How often identical versions were called worse, in a few words; `None` without a certificate that
/// fits.
pub(super) fn in_one_line(record: &RunRecord, certificate: Option<&Certificate>) -> Option<String> {
    let certificate = certificate?;
    // Why it doesn't fit is told where there is room for it.
    certificate.fits(record, true).ok()?;
    let Share { count, of, .. } = certificate.false_alarms;
    Some(format!(
        "identical versions alarmed in {count} of {of} sessions here"
    ))
}

fn not_calibrated(out: &mut String, record: &RunRecord, why: &str) -> std::fmt::Result {
    writeln!(
        out,
        "<p class=\"others\"><strong>Not calibrated.</strong> How often this machine calls identical versions different \
         {why}. <code>unstall calibrate {}</code> measures it, with the noise of each metric; \
         <code>--certificate</code> then tells it here.</p>",
        escape::markup(&record.scenario.name)
    )
}

fn alarms(out: &mut String, certificate: &Certificate) -> std::fmt::Result {
    let (counts, alarms) = (certificate.counts, certificate.false_alarms);
    writeln!(
        out,
        "<p class=\"others\"><strong>{} of {} sessions</strong> of a version against itself were called worse \
         (95\u{202F}% interval of that share: {} to {}); {} passed, {} were inconclusive, {} invalid. Measured until {} on \
         <bdi>{}</bdi> with {} of <code>{}</code>.</p>",
        alarms.count,
        alarms.of,
        numbers::share(alarms.low),
        numbers::share(alarms.high),
        counts.pass,
        counts.inconclusive,
        counts.invalid,
        escape::markup(&certificate.created_utc),
        escape::markup(&certificate.machine.class),
        vocabulary::plural(certificate.design.pairs.into(), "pair", "pairs"),
        escape::markup(&certificate.target),
    )?;
    if let Some(resampled) = &certificate.resampled {
        let Share {
            count,
            of,
            low,
            high,
        } = resampled.false_alarms;
        writeln!(
            out,
            "<p class=\"note\">Of {} sessions put together anew from those {}: {} called worse ({} to {}).</p>",
            numbers::count(of.into()),
            vocabulary::plural(resampled.from_pairs.into(), "pair", "pairs"),
            numbers::count(count.into()),
            numbers::share(low),
            numbers::share(high)
        )?;
    }
    match certificate.distrust() {
        Some(distrust) => writeln!(
            out,
            "<p class=\"banner\"><strong>Don’t trust.</strong> {}.</p>",
            escape::markup_prose(&distrust)
        ),
        None => Ok(()),
    }
}

fn noise(out: &mut String, certificate: &Certificate) -> std::fmt::Result {
    let columns = [
        table::text("Endpoint"),
        table::text("Metric"),
        table::number("Load"),
        table::number("Value"),
        table::number("Noise between pairs"),
        table::number("Of it within blocks"),
        table::number("Detects"),
    ];
    writeln!(
        out,
        "<details><summary>Table: noise of identical versions</summary>"
    )?;
    table::open(
        out,
        &format!(
            "Noise is the standard deviation of a pair’s difference; the part within blocks lessens with more \
             requests, the rest only with more pairs. Detects: the worsening that {} find 8 times in 10.",
            vocabulary::plural(certificate.design.pairs.into(), "pair", "pairs")
        ),
        &columns,
    )?;
    for cell in certificate.cells.iter().take(ROWS_MAX) {
        let level = Level::of_model(&certificate.design.load_model, cell.level);
        let sd = |sd: f64| size(cell.metric, sd);
        let row = [
            format!(
                "<bdi>{}</bdi>",
                escape::markup(cell.endpoint.as_deref().unwrap_or("whole service"))
            ),
            vocabulary::metric(cell.metric).to_owned(),
            numbers::level_number(level),
            numbers::value(cell.metric, cell.value),
            sd(cell.sd_between_pairs),
            cell.sd_within_blocks.map_or_else(|| "–".to_owned(), sd),
            detects(cell, certificate.design.pairs),
        ];
        table::row(out, &columns, &row)?;
    }
    table::close(out)?;
    table::more(out, certificate.cells.len().saturating_sub(ROWS_MAX), "")?;
    writeln!(out, "</details>")
}

fn detects(cell: &CellNoise, pairs: u32) -> String {
    let found = cell.detectable.iter().find(|found| found.pairs == pairs);
    found.map_or_else(|| "–".to_owned(), |found| size(cell.metric, found.change))
}

/// A standard deviation or a change: percent of a ratio, else in the metric's unit.
fn size(metric: Metric, size: f64) -> String {
    match metric.scale() {
        Scale::Ratio => numbers::share(size),
        Scale::Difference => numbers::value(metric, size),
    }
}
