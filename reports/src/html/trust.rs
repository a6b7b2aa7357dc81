//! Reasons to trust the numbers, or not: how often this machine alarms without a cause, what the design
//! would have found, every block, where it all ran, and what could not be seen.

use std::fmt::Write as _;

use unstall_results::calibration::Certificate;
use unstall_results::comparison::{Comparison, Metric, Scale};
use unstall_results::record::RunRecord;

use super::{blocks, certificate, environment, table};
use crate::{escape, numbers, vocabulary};

/// Writes the part for a measurement that compares nothing.
pub(super) fn write(
    out: &mut String,
    anchor: &str,
    record: &RunRecord,
    blind_spots: &[String],
) -> std::fmt::Result {
    writeln!(out, "<h3 id=\"{anchor}-trust\">Trust</h3>")?;
    conditions(out, anchor, record, blind_spots)
}

/// Writes the part of a comparison.
pub(super) fn write_compared(
    out: &mut String,
    anchor: &str,
    record: &RunRecord,
    comparison: &Comparison,
    certificate: Option<&Certificate>,
) -> std::fmt::Result {
    writeln!(out, "<h3 id=\"{anchor}-trust\">Trust</h3>")?;
    certificate::write(out, record, certificate)?;
    detectable(out, comparison)?;
    conditions(out, anchor, record, &comparison.blind_spots)
}

/// What both have: what could not be seen, every block, where it all ran.
fn conditions(
    out: &mut String,
    anchor: &str,
    record: &RunRecord,
    blind_spots: &[String],
) -> std::fmt::Result {
    blind(out, blind_spots)?;
    blocks::write(out, anchor, record)?;
    environment::write(out, record)
}

/// What one cell would have shown.
#[derive(Debug, Clone, Copy)]
struct Detectable<'c> {
    endpoint: &'c str,
    scale: Scale,
    /// The smallest worsening, on its scale.
    least: f64,
}

/// The smallest worsening that would have been found, per metric over the judged cells.
fn detectable(out: &mut String, comparison: &Comparison) -> std::fmt::Result {
    let mut found: Vec<(Metric, Vec<Detectable<'_>>)> = Vec::new();
    for cell in comparison.cells.iter().filter(|cell| cell.judged) {
        let Some(change) = &cell.change else { continue };
        let Some(least) = change.minimum_detectable.filter(|least| least.is_finite()) else {
            continue;
        };
        let one = Detectable {
            endpoint: vocabulary::cell_endpoint(cell),
            scale: change.scale,
            least,
        };
        match found.iter_mut().find(|(metric, _)| *metric == cell.metric) {
            Some((_, cells)) => cells.push(one),
            None => found.push((cell.metric, vec![one])),
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let columns = [
        table::text("Metric"),
        table::number("Cells"),
        table::number("Best"),
        table::number("Middle"),
        table::number("Worst"),
        table::text("Worst on"),
    ];
    writeln!(out, "<h4>What this design would have found</h4>")?;
    table::open(
        out,
        &format!(
            "The smallest worsening that {} of blocks with this noise find 8 times in 10. What is smaller may be \
             there and not be seen.",
            vocabulary::plural(comparison.pairs.into(), "pair", "pairs")
        ),
        &columns,
    )?;
    for (metric, mut cells) in found {
        cells.sort_by(|a, b| a.least.total_cmp(&b.least));
        let shown = |index: usize| {
            let Detectable { scale, least, .. } = cells[index];
            escape::markup(&numbers::scaled(metric, scale, least))
        };
        let last = cells.len() - 1;
        let row = [
            vocabulary::metric(metric).to_owned(),
            numbers::count(u64::try_from(cells.len()).unwrap_or(u64::MAX)),
            shown(0),
            shown(last / 2),
            shown(last),
            format!("<bdi>{}</bdi>", escape::markup(cells[last].endpoint)),
        ];
        table::row(out, &columns, &row)?;
    }
    table::close(out)
}

fn blind(out: &mut String, blind_spots: &[String]) -> std::fmt::Result {
    if blind_spots.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<div class=\"list blind\"><h4>What this measurement could not see</h4>"
    )?;
    super::measurement::items(out, blind_spots)?;
    writeln!(out, "</div>")
}
