//! Cells as comma-separated values, for a spreadsheet or a data frame: one row per cell, a header first.
//!
//! RFC 4180: rows end in CR LF, fields with commas or quotes are quoted. Names and notes come from
//! others, and spreadsheets run what begins like a formula; such a field gets an apostrophe in front
//! (`escape::csv`). Numbers are plain, with a point; what is not known is empty.

use unstall_results::capacity::{Capacity, Finding};
use unstall_results::comparison::{Cell, Comparison, Estimate, Scale};
use unstall_results::level::Level;
use unstall_results::slo::{SloFinding, SloOutcome};
use unstall_results::summary::summarise;

use crate::{Entry, Report, escape, vocabulary};

/// Columns, in order.
pub const COLUMNS: [&str; 41] = [
    "record",
    "label",
    "scenario",
    "step",
    "verdict",
    "paired",
    "pairs",
    "endpoint",
    "users",
    "arrivals_per_second",
    "metric",
    "unit",
    "family",
    "judged",
    "outcome",
    "before",
    "before_low",
    "before_high",
    "before_at_least",
    "before_n",
    "after",
    "after_low",
    "after_high",
    "after_at_least",
    "after_n",
    "scale",
    "change",
    "change_low",
    "change_high",
    "confidence",
    "lower_bound",
    "upper_bound",
    "p_regression",
    "p_improvement",
    "minimum_detectable",
    "margin",
    "limit",
    "floor",
    "pairs_needed",
    "requests_needed",
    "note",
];

/// Renders the cells of all comparisons, the percentiles of records of one version (in the columns
/// `after…`) and the capacities of searches.
pub fn render(report: &Report<'_>) -> String {
    let mut out = line(&COLUMNS.map(str::to_owned));
    for entry in &report.entries {
        match (entry.comparison, entry.capacity()) {
            (Some(comparison), _) => compared(&mut out, entry, comparison),
            (None, Some(finding)) => searched(&mut out, entry, &finding),
            (None, None) => observed(&mut out, entry),
        }
    }
    out
}

fn line(fields: &[String]) -> String {
    fields.join(",") + "\r\n"
}

/// A row whose fields are named, so that none can slip into its neighbour's column.
#[derive(Debug, Clone, Default)]
struct Row(Vec<(&'static str, String)>);

impl Row {
    fn of(entry: &Entry<'_>) -> Self {
        let record = entry.record;
        let step = record.step.as_ref().map(|step| escape::csv(&step.id));
        let mut row = Self::default();
        row.set("record", escape::csv(&record.id));
        row.set("label", escape::csv(&record.label));
        row.set("scenario", escape::csv(&record.scenario.name));
        row.set("step", step.unwrap_or_default());
        row
    }

    fn set(&mut self, column: &'static str, field: String) {
        debug_assert!(COLUMNS.contains(&column), "{column}");
        self.0.push((column, field));
    }

    fn level(&mut self, level: Level) {
        match level {
            Level::Users(users) => self.set("users", users.to_string()),
            Level::MilliRate(_) => {
                self.set("arrivals_per_second", number(level.rate_per_second()));
            }
            // Another tool's secret: both columns stay empty.
            Level::Unknown => {}
        }
    }

    fn estimate(&mut self, columns: [&'static str; 5], estimate: &Estimate) {
        let [value, low, high, at_least, n] = columns;
        self.set(value, number(estimate.value));
        self.set(low, number(estimate.low));
        self.set(high, number(estimate.high));
        if estimate.value.is_some() {
            self.set(at_least, estimate.at_least.to_string());
        }
        self.set(n, estimate.n.to_string());
    }

    fn write(&self, out: &mut String) {
        let field = |column: &&str| {
            let found = self.0.iter().find(|(name, _)| name == column);
            found.map_or_else(String::new, |(_, field)| field.clone())
        };
        let fields: Vec<String> = COLUMNS.iter().map(field).collect();
        out.push_str(&line(&fields));
    }
}

const BEFORE: [&str; 5] = [
    "before",
    "before_low",
    "before_high",
    "before_at_least",
    "before_n",
];
const AFTER: [&str; 5] = [
    "after",
    "after_low",
    "after_high",
    "after_at_least",
    "after_n",
];

/// JSON and spreadsheets alike have no infinities: what is not finite is not known.
fn number(value: Option<f64>) -> String {
    let finite = value.filter(|value| value.is_finite());
    known(finite)
}

fn known<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn compared(out: &mut String, entry: &Entry<'_>, comparison: &Comparison) {
    let mut head = Row::of(entry);
    head.set(
        "verdict",
        vocabulary::verdict(comparison.verdict).to_owned(),
    );
    head.set("paired", comparison.paired.to_string());
    head.set("pairs", comparison.pairs.to_string());
    for cell in &comparison.cells {
        let mut row = head.clone();
        fill(&mut row, cell);
        row.write(out);
    }
    for slo in &comparison.slos {
        let mut row = head.clone();
        fill_objective(&mut row, slo);
        row.write(out);
    }
}

/// An objective of the policy: judged on the after version, whatever the other one does.
fn fill_objective(row: &mut Row, slo: &SloFinding) {
    let endpoint = slo.endpoint.as_deref().map(escape::csv);
    row.set("endpoint", endpoint.unwrap_or_default());
    row.level(slo.level);
    row.set("metric", escape::csv(&slo.objective));
    row.set(
        "unit",
        if slo.is_share { "percent" } else { "ms" }.to_owned(),
    );
    row.set("family", "objective".to_owned());
    row.set("judged", "true".to_owned());
    row.set("before", number(slo.before));
    row.estimate(
        AFTER,
        &Estimate {
            value: slo.value,
            low: slo.low,
            high: slo.high,
            at_least: slo.at_least,
            n: slo.requests,
            per_block: Vec::new(),
        },
    );
    row.set("limit", number(Some(slo.limit)));
    let (outcome, pairs, requests) = match slo.outcome {
        SloOutcome::Met => ("met", None, None),
        SloOutcome::Missed => ("missed", None, None),
        SloOutcome::CantTell {
            pairs_needed,
            requests_needed,
        } => ("inconclusive", pairs_needed, requests_needed),
    };
    row.set("outcome", outcome.to_owned());
    row.set("pairs_needed", known(pairs));
    row.set("requests_needed", known(requests));
    let note = slo.note.as_deref().map(escape::csv);
    row.set("note", note.unwrap_or_default());
}

fn fill(row: &mut Row, cell: &Cell) {
    let endpoint = cell.endpoint.as_deref().map(escape::csv);
    row.set("endpoint", endpoint.unwrap_or_default());
    row.level(cell.level);
    row.set("metric", cell.metric.name().to_owned());
    row.set("unit", cell.metric.unit().to_owned());
    row.set("family", cell.family.name().to_owned());
    row.set("judged", cell.judged.to_string());
    row.estimate(BEFORE, &cell.before);
    row.estimate(AFTER, &cell.after);
    if let Some(change) = &cell.change {
        let scale = match change.scale {
            Scale::Ratio => "ratio",
            Scale::Difference => "difference",
        };
        row.set("scale", scale.to_owned());
        for (column, value) in [
            ("change", change.estimate),
            ("change_low", change.low),
            ("change_high", change.high),
            ("confidence", change.confidence),
            ("lower_bound", change.lower_bound),
            ("upper_bound", change.upper_bound),
            ("p_regression", change.p_regression),
            ("p_improvement", change.p_improvement),
        ] {
            row.set(column, number(Some(value)));
        }
        row.set("minimum_detectable", number(change.minimum_detectable));
    }
    row.set("outcome", cell.outcome.name().to_owned());
    row.set("pairs_needed", known(cell.outcome.pairs_needed()));
    row.set("requests_needed", known(cell.outcome.requests_needed()));
    row.set("margin", number(Some(cell.margin.regression)));
    row.set("limit", number(Some(cell.margin.harm)));
    row.set("floor", number(Some(cell.margin.floor)));
    let note = cell.note.as_deref().map(escape::csv);
    row.set("note", note.unwrap_or_default());
}

/// Percentiles of one version; there is nothing to compare them with.
fn observed(out: &mut String, entry: &Entry<'_>) {
    for summary in summarise(entry.record) {
        for percentile in &summary.percentiles {
            let mut row = Row::of(entry);
            let endpoint = summary.endpoint.as_deref().map(escape::csv);
            row.set("endpoint", endpoint.unwrap_or_default());
            row.level(summary.level);
            row.set("metric", format!("response_p{:.0}", percentile.q * 100.0));
            row.set("unit", "ms".to_owned());
            row.estimate(AFTER, &percentile.estimate);
            if let Some(needed) = percentile.insufficient {
                row.set("outcome", "insufficient".to_owned());
                row.set("requests_needed", needed.to_string());
            }
            row.write(out);
        }
    }
}

/// Capacities in one row: of one version in the columns `after…`, as for any record of one version.
fn searched(out: &mut String, entry: &Entry<'_>, finding: &Finding) {
    let mut row = Row::of(entry);
    let verdict = finding.verdict.map(vocabulary::verdict);
    row.set("verdict", verdict.unwrap_or_default().to_owned());
    row.set("metric", "capacity".to_owned());
    row.set("unit", "arrivals per second".to_owned());
    for arm in &finding.arms {
        let columns = if arm.arm == "before" { BEFORE } else { AFTER };
        row.estimate(columns, &capacity(arm.capacity, arm.trials.len()));
    }
    row.write(out);
}

fn capacity(capacity: Capacity, trials: usize) -> Estimate {
    let n = u64::try_from(trials).unwrap_or(u64::MAX);
    let mut estimate = Estimate {
        n,
        ..Estimate::default()
    };
    match capacity {
        Capacity::Found {
            rate, low, high, ..
        } => {
            (estimate.value, estimate.low, estimate.high) = (Some(rate), Some(low), Some(high));
        }
        Capacity::AtLeast { rate, .. } => {
            (estimate.value, estimate.at_least) = (Some(rate), true);
        }
        // Only that it is less.
        Capacity::Below { rate } => estimate.high = Some(rate),
        Capacity::Unknown => {}
    }
    estimate
}
