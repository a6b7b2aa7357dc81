//! Charts of response times, each with its table.

use std::collections::HashMap;
use std::fmt::Write as _;

use unstall_results::level::Level;
use unstall_results::record::RunRecord;

use super::panel::{self, Panel, Subject};
use crate::{escape, numbers, observed};

/// Charts per measurement: a page of a hundred endpoints must stay readable and
/// small; the cells table has every endpoint.
const CHARTS_MAX: usize = 16;
/// Up to this many charts also show one faint curve per block.
const CHARTS_WITH_BLOCKS_MAX: usize = 8;

/// Writes percentile curves. `first` names endpoints to show before the others.
pub(super) fn write(
    out: &mut String,
    anchor: &str,
    record: &RunRecord,
    first: &[&str],
) -> std::fmt::Result {
    let mut ranks: HashMap<&str, usize> = HashMap::new();
    for (rank, name) in first.iter().enumerate() {
        ranks.entry(name).or_insert(rank);
    }
    let mut endpoints = observed::endpoints(record);
    endpoints.sort_by_key(|name| ranks.get(name).copied().unwrap_or(usize::MAX));
    let panels: Vec<(Level, &str)> = endpoints
        .iter()
        .flat_map(|endpoint| {
            observed::levels(record)
                .into_iter()
                .map(move |level| (level, *endpoint))
        })
        .collect();
    if panels.is_empty() {
        return Ok(());
    }
    let drawn: Vec<Panel<'_>> = panels
        .iter()
        .take(CHARTS_MAX)
        .map(|(level, endpoint)| of_endpoint(record, *level, endpoint))
        .collect();
    writeln!(
        out,
        "<h3 id=\"{anchor}-times\">Response times by percentile</h3>"
    )?;
    let with_blocks = panels.len() <= CHARTS_WITH_BLOCKS_MAX;
    panel::write(out, &format!("{anchor}-t"), record, &drawn, with_blocks)?;
    if panels.len() > CHARTS_MAX {
        writeln!(
            out,
            "<p class=\"note\">{} more have no chart; the table above lists them all.</p>",
            numbers::count(u64::try_from(panels.len() - CHARTS_MAX).unwrap_or(u64::MAX))
        )?;
    }
    writeln!(
        out,
        "<p class=\"note\">Successful answers of all good blocks together. A curve ends where fewer than five \
         observations lie beyond it: what follows would be a story about single requests.</p>"
    )
}

/// One endpoint at one concurrency, all arms.
fn of_endpoint<'r>(record: &'r RunRecord, level: Level, endpoint: &'r str) -> Panel<'r> {
    Panel::new(
        record,
        level,
        Subject {
            what: "Response time",
            endpoint: Some(endpoint),
            caption: format!("<bdi>{}</bdi>", escape::markup(endpoint)),
            counted: "requests",
        },
        |block| Some(&block.endpoints.get(endpoint)?.response),
    )
    .with_failures(|arm| observed::failed(record, arm, level, endpoint))
}
