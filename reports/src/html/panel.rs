//! A percentile chart with its caption and its table: the same for response times, streams
//! and bystanders.

use std::fmt::Write as _;

use unstall_results::histogram::LatencyHistogram;
use unstall_results::level::Level;
use unstall_results::record::{Block, RunRecord};

use super::table;
use crate::charts::percentiles::{self, Curve, Look};
use crate::observed::{self, Times};
use crate::{escape, numbers};

/// Percentiles of a chart's table.
const QUANTILES: [(f64, &str); 6] = [
    (0.5, "p50"),
    (0.75, "p75"),
    (0.9, "p90"),
    (0.95, "p95"),
    (0.99, "p99"),
    (0.999, "p99.9"),
];

/// What a panel is about.
#[derive(Debug, Clone)]
pub(super) struct Subject<'r> {
    /// What was timed, as it begins a sentence.
    pub(super) what: &'static str,
    /// Where, if not on the whole service.
    pub(super) endpoint: Option<&'r str>,
    /// What stands above the chart, safe markup.
    pub(super) caption: String,
    /// What the horizontal axis counts, in the plural.
    pub(super) counted: &'static str,
}

/// One kind of times at one concurrency, all arms.
pub(super) struct Panel<'r> {
    subject: Subject<'r>,
    level: Level,
    arms: Vec<Arm<'r>>,
    /// What stands beside the chart, safe markup.
    beside: String,
}

struct Arm<'r> {
    name: &'r str,
    times: Times<'r>,
    failed: Option<u64>,
}

impl<'r> Panel<'r> {
    /// Collects what `of` finds in the good blocks.
    pub(super) fn new(
        record: &'r RunRecord,
        level: Level,
        subject: Subject<'r>,
        of: impl Fn(&'r Block) -> Option<&'r LatencyHistogram>,
    ) -> Self {
        let arms = observed::arms(record).into_iter().map(|name| Arm {
            name,
            times: observed::times(record, name, level, &of),
            failed: None,
        });
        Self {
            subject,
            level,
            arms: arms.collect(),
            beside: String::new(),
        }
    }

    /// The same with a column of failures in its table.
    pub(super) fn with_failures(mut self, of: impl Fn(&str) -> u64) -> Self {
        for arm in &mut self.arms {
            arm.failed = Some(of(arm.name));
        }
        self
    }

    /// The same with a figure of its own beside it, safe markup.
    pub(super) fn with_beside(mut self, figure: String) -> Self {
        self.beside = figure;
        self
    }

    /// The level that it is about.
    pub(super) fn level(&self) -> Level {
        self.level
    }

    /// True if nothing was timed in any arm.
    pub(super) fn is_empty(&self) -> bool {
        self.arms.iter().all(|arm| arm.times.all.is_empty())
    }

    fn curves(&self) -> Vec<Curve<'_>> {
        let arms = self.arms.iter();
        arms.map(|arm| Curve {
            arm: arm.name,
            times: &arm.times,
        })
        .collect()
    }

    fn write(&self, out: &mut String, look: Look) -> std::fmt::Result {
        let Subject {
            what,
            endpoint,
            caption,
            counted,
        } = &self.subject;
        let on = endpoint.map_or_else(String::new, |name| format!(", {name}"));
        let title = format!(
            "{what} by percentile{on} at {}",
            numbers::level_words(self.level)
        );
        let name = format!("{caption} <small>{}</small>", numbers::level(self.level));
        writeln!(out, "<figure><figcaption>{name}</figcaption>")?;
        match percentiles::render(&title, counted, &self.curves(), look) {
            Some(svg) => writeln!(out, "{svg}")?,
            None => writeln!(out, "<p class=\"note\">Insufficient data for a curve.</p>")?,
        }
        writeln!(out, "<details><summary>Table</summary>")?;
        self.table(out, &name)?;
        writeln!(out, "</details></figure>{}", self.beside)
    }

    fn table(&self, out: &mut String, name: &str) -> std::fmt::Result {
        let with_failures = self.arms.iter().any(|arm| arm.failed.is_some());
        let mut columns = vec![table::text("Arm"), table::number("n")];
        if with_failures {
            columns.push(table::number("Failed"));
        }
        columns.extend(QUANTILES.map(|(_, name)| table::number(name)));
        columns.push(table::number("max"));
        table::open(out, name, &columns)?;
        for arm in &self.arms {
            let mut cells = vec![
                escape::markup(arm.name),
                numbers::count(arm.times.all.count()),
            ];
            if with_failures {
                cells.push(numbers::count(arm.failed.unwrap_or(0)));
            }
            cells.extend(QUANTILES.map(|(quantile, _)| arm.times.quantile_text(quantile)));
            cells.push(arm.times.max_text());
            table::row(out, &columns, &cells)?;
        }
        table::close(out)
    }
}

/// Writes panels side by side, all on the same kind of axis, below one legend.
pub(super) fn write(
    out: &mut String,
    record: &RunRecord,
    panels: &[Panel<'_>],
    with_blocks: bool,
) -> std::fmt::Result {
    let look = Look {
        with_blocks,
        logarithmic: panels
            .iter()
            .any(|panel| percentiles::needs_logarithm(&panel.curves())),
    };
    legend(out, record, with_blocks)?;
    writeln!(out, "<div class=\"charts\">")?;
    for panel in panels {
        panel.write(out, look)?;
    }
    writeln!(out, "</div>")
}

fn legend(out: &mut String, record: &RunRecord, with_blocks: bool) -> std::fmt::Result {
    write!(out, "<p class=\"legend\">")?;
    for arm in observed::arms(record) {
        let class = if arm == "before" { "before" } else { "after" };
        write!(
            out,
            "<span class=\"{class}\"><i aria-hidden=\"true\"></i> {}</span> ",
            escape::markup(arm)
        )?;
    }
    if with_blocks {
        write!(out, "<span>faint: single blocks</span>")?;
    }
    writeln!(out, "</p>")
}
