//! GitHub workflow commands: `::error title=…::…`, shown on the run's page.
//!
//! GitHub shows ten of each kind per step, so regressions come first and the
//! rest is counted in one line.

use unstall_results::capacity::Finding;
use unstall_results::comparison::{Cell, Comparison, Outcome, Verdict};
use unstall_results::slo::{SloFinding, SloOutcome};

use crate::ranking::Group;
use crate::{Entry, Report, escape, numbers, objectives, ranking, vocabulary};

/// Cells per measurement; with the verdict's own line it stays below GitHub's ten.
const CELLS_MAX: usize = 8;
/// Objectives per measurement, which take the place of as many cells.
const OBJECTIVES_MAX: usize = 3;

/// Renders one line per verdict and per failing cell; ends in a newline unless
/// nothing was compared.
pub fn render(report: &Report<'_>) -> String {
    let mut out = String::new();
    for entry in &report.entries {
        match (entry.comparison, entry.capacity()) {
            (Some(comparison), _) => annotate(&mut out, entry, comparison),
            (None, Some(finding)) => annotate_capacity(&mut out, entry, &finding),
            (None, None) => {}
        }
    }
    out
}

fn annotate_capacity(out: &mut String, entry: &Entry<'_>, finding: &Finding) {
    let Some(verdict) = finding.verdict else {
        return;
    };
    let title = format!("{}: {}", entry.short_name(), vocabulary::verdict(verdict));
    let message = format!("{}. Next: {}", finding.headline, finding.next_action);
    command(out, level_of(verdict), &title, &message);
}

fn level_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "notice",
        Verdict::Inconclusive => "warning",
        Verdict::Regression | Verdict::Invalid => "error",
    }
}

fn annotate(out: &mut String, entry: &Entry<'_>, comparison: &Comparison) {
    let name = entry.short_name();
    let level = match comparison.is_only_warned() {
        true => "warning",
        false => level_of(comparison.verdict),
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
    let objectives_shown = annotate_objectives(out, &name, comparison);
    let failing: Vec<&Cell> = ranking::cells(comparison, Group::Judged)
        .into_iter()
        .filter(|cell| {
            matches!(
                cell.outcome,
                Outcome::Regression | Outcome::Inconclusive { .. }
            )
        })
        .collect();
    for cell in failing.iter().take(CELLS_MAX - objectives_shown) {
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
    let left = failing.len().saturating_sub(CELLS_MAX - objectives_shown);
    if left > 0 {
        command(
            out,
            "notice",
            &format!("{name}: more"),
            &format!("and {left} more cells, none worse than those listed"),
        );
    }
}

/// Objectives that aren't met, missed ones first; how many lines that took. A report names the
/// rest: they are in its reasons and its table.
fn annotate_objectives(out: &mut String, name: &str, comparison: &Comparison) -> usize {
    let open: Vec<&SloFinding> = objectives::worst_first(comparison)
        .into_iter()
        .filter(|slo| slo.outcome != SloOutcome::Met)
        .collect();
    let shown = open.len().min(OBJECTIVES_MAX);
    for (index, slo) in open.iter().take(shown).enumerate() {
        let level = match slo.outcome {
            SloOutcome::Missed => "error",
            _ => "warning",
        };
        let (_, words) = objectives::outcome(slo, comparison.verdict);
        let title = format!("{name}: objective {} {words}", slo.name());
        let mut message = format!("{}: {}", slo.level, objectives::found(slo));
        if index + 1 == shown && open.len() > shown {
            let more = open.len() - shown;
            message.push_str(&format!(" And {more} more objectives, none worse."));
        }
        command(out, level, &title, &message);
    }
    shown
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
