//! GitHub workflow commands: `::error title=…::…`, shown on the run's page.
//!
//! GitHub shows ten of each kind per step, so regressions come first and the
//! rest is counted in one line.

use unstall_results::comparison::{Cell, Comparison, Outcome, Verdict};

use crate::ranking::Group;
use crate::{Entry, Report, escape, numbers, ranking, vocabulary};

/// Cells per measurement; with the verdict's own line it stays below GitHub's ten.
const CELLS_MAX: usize = 8;

/// Renders one line per verdict and per failing cell; ends in a newline unless
/// nothing was compared.
pub fn render(report: &Report<'_>) -> String {
    let mut out = String::new();
    for entry in &report.entries {
        if let Some(comparison) = entry.comparison {
            annotate(&mut out, entry, comparison);
        }
    }
    out
}

fn annotate(out: &mut String, entry: &Entry<'_>, comparison: &Comparison) {
    let name = entry.short_name();
    let level = match comparison.verdict {
        Verdict::Pass => "notice",
        Verdict::Inconclusive => "warning",
        Verdict::Regression | Verdict::Invalid => "error",
    };
    let title = format!("{name}: {}", vocabulary::verdict(comparison.verdict));
    let mut message = format!("{} Next: {}", comparison.headline, comparison.next_action);
    for fault in &comparison.validity.faults {
        message.push_str(&format!(" Fault: {fault}"));
    }
    command(out, level, &title, &message);
    if comparison.verdict == Verdict::Invalid {
        return;
    }
    let failing: Vec<&Cell> = ranking::cells(comparison, Group::Judged)
        .into_iter()
        .filter(|cell| {
            matches!(
                cell.outcome,
                Outcome::Regression | Outcome::Inconclusive { .. }
            )
        })
        .collect();
    for cell in failing.iter().take(CELLS_MAX) {
        let level = match cell.outcome {
            Outcome::Regression => "error",
            _ => "warning",
        };
        let (_, words) = vocabulary::outcome(cell);
        let title = format!(
            "{name}: {} {} {words}",
            vocabulary::cell_endpoint(cell),
            vocabulary::metric(cell.metric)
        );
        command(out, level, &title, &cell_message(cell));
    }
    if failing.len() > CELLS_MAX {
        let left = failing.len() - CELLS_MAX;
        command(
            out,
            "notice",
            &format!("{name}: more"),
            &format!("and {left} more cells, none worse than those listed"),
        );
    }
}

fn cell_message(cell: &Cell) -> String {
    let values = numbers::before_after(cell.metric, &cell.before, &cell.after);
    let mut message = format!("{}: {values}", cell.level);
    if let Some(change) = &cell.change {
        message.push_str(&format!(
            ", {} [{}]",
            numbers::change(cell.metric, change),
            numbers::interval(cell.metric, change)
        ));
    }
    if let Some(note) = vocabulary::note(cell) {
        message.push_str(&format!(". {note}"));
    }
    message
}

fn command(out: &mut String, level: &str, title: &str, message: &str) {
    out.push_str(&format!(
        "::{level} title={}::{}\n",
        escape::annotation_property(title),
        escape::annotation_message(message)
    ));
}
