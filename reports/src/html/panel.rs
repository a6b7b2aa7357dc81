//! A percentile chart with its caption and its table: the same for response times, streams
//! and bystanders.

use std::fmt::Write as _;

use unstall_results::histogram::LatencyHistogram;
use unstall_results::level::Level;
use unstall_results::record::{Block, RunRecord};

use super::table;
use crate::charts;
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

    /// `link` ties the chart to its table.
    fn write(&self, out: &mut String, views: Views, link: &str) -> std::fmt::Result {
        let Subject { caption, .. } = &self.subject;
        let name = format!("{caption} <small>{}</small>", numbers::level(self.level));
        writeln!(
            out,
            "<figure data-link=\"{link}\"><figcaption>{name}</figcaption>"
        )?;
        if self.charts(out, views)? == 0 {
            writeln!(out, "<p class=\"note\">Insufficient data for a curve.</p>")?;
        }
        writeln!(out, "<details><summary>Table</summary>")?;
        self.table(out, &name)?;
        writeln!(out, "</details></figure>{}", self.beside)
    }

    /// Writes one chart per view, and says how many.
    fn charts(&self, out: &mut String, views: Views) -> Result<usize, std::fmt::Error> {
        let Subject {
            what,
            endpoint,
            counted,
            ..
        } = &self.subject;
        let on = endpoint.map_or_else(String::new, |name| format!(", {name}"));
        let at = numbers::level_words(self.level);
        let mut drawn = 0;
        for view in View::ALL {
            let svg = match view {
                View::Linear | View::Logarithmic => {
                    let look = Look {
                        with_blocks: views.with_blocks,
                        logarithmic: view == View::Logarithmic,
                    };
                    let title = format!("{what} by percentile{on} at {at}, {}", view.name());
                    percentiles::render(&title, counted, &self.curves(), look)
                }
                View::Ratio => self.both().and_then(|(before, after)| {
                    let title =
                        format!("{what} after divided by before, by percentile{on} at {at}");
                    percentiles::render_ratio(&title, counted, &before.all, &after.all)
                }),
            };
            if let Some(svg) = svg {
                let first = if view == views.first { " first" } else { "" };
                writeln!(
                    out,
                    "<div class=\"view {}{first}\">{svg}</div>",
                    view.word()
                )?;
                drawn += 1;
            }
        }
        Ok(drawn)
    }

    /// The two versions, where there are two.
    fn both(&self) -> Option<(&Times<'r>, &Times<'r>)> {
        let of = |name: &str| self.arms.iter().find(|arm| arm.name == name);
        Some((&of("before")?.times, &of("after")?.times))
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
        for (index, arm) in self.arms.iter().enumerate() {
            let mut cells = vec![
                escape::markup(arm.name),
                numbers::count(arm.times.all.count()),
            ];
            if with_failures {
                cells.push(numbers::count(arm.failed.unwrap_or(0)));
            }
            cells.extend(QUANTILES.map(|(quantile, _)| arm.times.quantile_text(quantile)));
            cells.push(arm.times.max_text());
            table::keyed_row(out, &charts::row_key(index), &columns, &cells)?;
        }
        if let Some((before, after)) = self.both() {
            let dash = || "–".to_owned();
            let mut cells = vec!["change".to_owned(), String::new()];
            if with_failures {
                cells.push(String::new());
            }
            cells.extend(QUANTILES.map(|(quantile, _)| {
                let of = |times: &Times<'_>| observed::quantile_us(&times.all, quantile);
                let ratio = of(before).zip(of(after)).filter(|(before, _)| *before > 0);
                ratio.map_or_else(dash, |(before, after)| {
                    escape::markup(&numbers::percent(
                        numbers::as_f64(after) / numbers::as_f64(before),
                    ))
                })
            }));
            cells.push(String::new());
            table::row(out, &columns, &cells)?;
        }
        table::close(out)
    }
}

/// What a reader can choose between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    Linear,
    Logarithmic,
    Ratio,
}

impl View {
    const ALL: [Self; 3] = [Self::Linear, Self::Logarithmic, Self::Ratio];

    /// Its class and the value of its switch.
    fn word(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Logarithmic => "log",
            Self::Ratio => "ratio",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Logarithmic => "logarithmic",
            Self::Ratio => "after ÷ before",
        }
    }
}

/// How the charts of one group are shown.
#[derive(Debug, Clone, Copy)]
struct Views {
    /// One faint curve per block.
    with_blocks: bool,
    /// What is shown until the reader chooses.
    first: View,
}

/// Writes panels side by side below one legend, with a switch for all of them: which scale is
/// first is the same for all, so that they can be read beside each other. `id` names the switch.
pub(super) fn write(
    out: &mut String,
    id: &str,
    record: &RunRecord,
    panels: &[Panel<'_>],
    with_blocks: bool,
) -> std::fmt::Result {
    if panels.is_empty() {
        return Ok(());
    }
    let logarithmic = panels
        .iter()
        .any(|panel| percentiles::needs_logarithm(&panel.curves()));
    let views = Views {
        with_blocks,
        first: if logarithmic {
            View::Logarithmic
        } else {
            View::Linear
        },
    };
    writeln!(out, "<div class=\"panels\"><div class=\"over\">")?;
    legend(out, record, with_blocks)?;
    let with_ratio = panels.iter().any(|panel| panel.both().is_some());
    switch(out, id, views.first, with_ratio)?;
    writeln!(out, "</div><div class=\"charts\">")?;
    for (index, panel) in panels.iter().enumerate() {
        panel.write(out, views, &format!("{id}-{}", index + 1))?;
    }
    writeln!(out, "</div></div>")
}

/// Radio buttons, which the page's style follows: they work without a script.
fn switch(out: &mut String, id: &str, first: View, with_ratio: bool) -> std::fmt::Result {
    write!(
        out,
        "<fieldset class=\"switch\"><legend>Vertical axis</legend>"
    )?;
    let shown = |view: &View| *view != View::Ratio || with_ratio;
    for view in View::ALL.into_iter().filter(shown) {
        let unit = if view == View::Ratio { "" } else { " ms" };
        let checked = if view == first { " checked" } else { "" };
        write!(
            out,
            "<label><input type=\"radio\" name=\"{id}\" value=\"{}\"{checked}> {}{unit}</label>",
            view.word(),
            view.name()
        )?;
    }
    writeln!(out, "</fieldset>")
}

pub(super) fn legend(out: &mut String, record: &RunRecord, with_blocks: bool) -> std::fmt::Result {
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
