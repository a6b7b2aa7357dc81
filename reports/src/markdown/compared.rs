//! Two versions in Markdown: the answer first, as in every form of the report, then what it rests on.

use std::fmt::Write as _;

use unstall_results::comparison::{Cell, Comparison, Outcome, Verdict};
use unstall_results::slo::SloFinding;

use super::detail::{Detail, ROWS_OPEN};
use super::{single, write_items};
use crate::guilty_lines::guilty_lines;
use crate::ranking::Group;
use crate::{Entry, escape, numbers, objectives, ranking, vocabulary};

/// Lines of source that are named in the answer.
const GUILTY_LINES_MAX: usize = 3;

pub(super) fn entry(
    out: &mut String,
    entry: &Entry<'_>,
    comparison: &Comparison,
    detail: &Detail,
) -> std::fmt::Result {
    answer(out, entry, comparison, detail)?;
    objectives_asked(out, comparison, detail)?;
    cells(out, comparison, Group::Judged, detail)?;
    let advisory = ranking::cells(comparison, Group::Advisory).len();
    if advisory > 0 && detail.beside {
        writeln!(
            out,
            "<details><summary>{}</summary>\n",
            Group::Advisory.title()
        )?;
        cells(out, comparison, Group::Advisory, detail)?;
        writeln!(out, "</details>\n")?;
    } else if advisory > 0 {
        writeln!(
            out,
            "… and {advisory} advisory cells, shown and not judged.\n"
        )?;
    }
    single::asides(out, entry, detail)?;
    criteria(out, comparison, detail)?;
    if !comparison.blind_spots.is_empty() {
        writeln!(out, "What this run could not see:\n")?;
        write_items(out, "", &comparison.blind_spots, detail)?;
        writeln!(out)?;
    }
    Ok(())
}

/// Sentence, verdict, validity, worst cell, next action; then why.
fn answer(
    out: &mut String,
    entry: &Entry<'_>,
    comparison: &Comparison,
    detail: &Detail,
) -> std::fmt::Result {
    let title = comparison
        .step
        .as_ref()
        .map_or(String::new(), |step| format!(": {}", step.title));
    writeln!(
        out,
        "## {} {}: {}{}\n",
        vocabulary::verdict_sign(comparison.verdict),
        vocabulary::verdict(comparison.verdict),
        escape::markdown(&entry.short_name()),
        escape::markdown(&title),
    )?;
    writeln!(out, "{}\n", escape::markdown(&comparison.headline))?;
    validity(out, comparison, detail)?;
    if comparison.is_only_warned() {
        writeln!(
            out,
            "- **Only a warning:** the policy lets this end with exit code 0."
        )?;
    }
    if let Some(worst) = ranking::worst(comparison) {
        writeln!(out, "- **Worst:** {}", in_a_line(comparison, worst))?;
    }
    // Nobody should use the numbers of what is invalid.
    if !matches!(comparison.verdict, Verdict::Pass | Verdict::Invalid) {
        for line in guilty_lines(entry.record).iter().take(GUILTY_LINES_MAX) {
            writeln!(out, "- **Look at:** {}", escape::markdown(&line.sentence))?;
        }
    }
    writeln!(
        out,
        "- **Next:** {}\n",
        escape::markdown(&comparison.next_action)
    )?;
    let why = comparison.reasons.len() + comparison.validity.warnings.len();
    write_items(out, "", &comparison.reasons, detail)?;
    write_items(out, "**Warning:** ", &comparison.validity.warnings, detail)?;
    if why > 0 { writeln!(out) } else { Ok(()) }
}

/// Whether the numbers may be used, and what they rest on.
fn validity(out: &mut String, comparison: &Comparison, detail: &Detail) -> std::fmt::Result {
    if !comparison.validity.faults.is_empty() {
        return write_items(out, "**Not valid:** ", &comparison.validity.faults, detail);
    }
    let pairs = vocabulary::plural(comparison.pairs.into(), "pair", "pairs");
    let rests_on = if comparison.paired {
        format!("{pairs} of blocks")
    } else {
        "two sessions, which show whatever changed between them".to_owned()
    };
    writeln!(out, "- **Valid:** {rests_on}")
}

/// A cell outside of its table.
fn in_a_line(comparison: &Comparison, cell: &Cell) -> String {
    let endpoint = endpoint(cell, ranking::several_levels(comparison));
    let values = numbers::before_after(cell.metric, &cell.before, &cell.after);
    let (change, interval) = change(cell);
    let (_, words) = vocabulary::outcome(cell);
    format!(
        "{endpoint} {}: {values}, {change} ({interval}), {words}",
        vocabulary::metric(cell.metric)
    )
}

fn endpoint(cell: &Cell, several_levels: bool) -> String {
    let name = match &cell.endpoint {
        Some(name) => escape::markdown_code(name),
        None => vocabulary::cell_endpoint(cell).to_owned(),
    };
    if several_levels {
        format!("{name}, {}", cell.level)
    } else {
        name
    }
}

/// A change and its interval, or dashes.
fn change(cell: &Cell) -> (String, String) {
    let dash = || "–".to_owned();
    match &cell.change {
        Some(change) => (
            numbers::change(cell.metric, change),
            numbers::interval(cell.metric, change),
        ),
        None if cell.outcome == Outcome::Pooled => (
            dash(),
            numbers::intervals_of_both(&cell.before, &cell.after),
        ),
        None => (dash(), dash()),
    }
}

/// A table of one group: the worst rows open, others folded below, and how many are left out.
fn cells(
    out: &mut String,
    comparison: &Comparison,
    group: Group,
    detail: &Detail,
) -> std::fmt::Result {
    let cells = ranking::cells(comparison, group);
    if cells.is_empty() {
        return Ok(());
    }
    let shown = &cells[..cells.len().min(detail.rows)];
    let (open, folded) = shown.split_at(shown.len().min(ROWS_OPEN));
    rows(out, comparison, open)?;
    if !folded.is_empty() {
        let count = folded.len();
        writeln!(
            out,
            "<details><summary>{count} more, none worse than these</summary>\n"
        )?;
        rows(out, comparison, folded)?;
        writeln!(out, "</details>\n")?;
    }
    if cells.len() > shown.len() {
        writeln!(
            out,
            "… and {} more, none worse than these.\n",
            cells.len() - shown.len()
        )?;
    }
    Ok(())
}

fn rows(out: &mut String, comparison: &Comparison, cells: &[&Cell]) -> std::fmt::Result {
    let several_levels = ranking::several_levels(comparison);
    writeln!(
        out,
        "| | endpoint | metric | before → after | change | {} % interval | |\n|---|---|---|---:|---:|---:|---|",
        numbers::confidence(comparison)
    )?;
    for cell in cells {
        let (sign, words) = vocabulary::outcome(cell);
        let (change, interval) = change(cell);
        let note = match vocabulary::note(cell) {
            Some(note) => format!(" ({})", escape::markdown(note)),
            None => String::new(),
        };
        writeln!(
            out,
            "| {sign} | {} | {} | {} | {change} | {interval} | {words}{note} |",
            endpoint(cell, several_levels),
            vocabulary::metric(cell.metric),
            numbers::before_after(cell.metric, &cell.before, &cell.after),
        )?;
    }
    writeln!(out)
}

/// What the policy asks of the after version, missed first.
fn objectives_asked(
    out: &mut String,
    comparison: &Comparison,
    detail: &Detail,
) -> std::fmt::Result {
    if comparison.slos.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "| | endpoint | objective | level | found | |\n|---|---|---|---|---|---|"
    )?;
    let found = objectives::worst_first(comparison);
    for slo in found.iter().take(detail.rows) {
        objective(out, slo, comparison.verdict)?;
    }
    writeln!(out)?;
    if found.len() > detail.rows {
        let left = found.len() - detail.rows;
        writeln!(
            out,
            "… and {left} more objectives, none worse than these.\n"
        )?;
    }
    Ok(())
}

fn objective(out: &mut String, slo: &SloFinding, verdict: Verdict) -> std::fmt::Result {
    let (sign, words) = objectives::outcome(slo, verdict);
    let endpoint = match &slo.endpoint {
        Some(name) => escape::markdown_code(name),
        None => vocabulary::ALL_REQUESTS.to_owned(),
    };
    writeln!(
        out,
        "| {sign} | {endpoint} | {} | {} | {} | {words} |",
        escape::markdown_code(&slo.objective),
        slo.level,
        escape::markdown(&objectives::found(slo)),
    )
}

fn criteria(out: &mut String, comparison: &Comparison, detail: &Detail) -> std::fmt::Result {
    if comparison.criteria.is_empty() {
        return Ok(());
    }
    writeln!(out, "| criterion | expected | | found |\n|---|---|---|---|")?;
    for criterion in comparison.criteria.iter().take(detail.rows) {
        let (sign, word) = vocabulary::criterion(criterion.met);
        writeln!(
            out,
            "| {} | {} | {sign} {word} | {} |",
            escape::markdown(&criterion.name),
            escape::markdown(&criterion.expected),
            escape::markdown(&criterion.found)
        )?;
    }
    writeln!(out)?;
    if comparison.criteria.len() > detail.rows {
        let left = comparison.criteria.len() - detail.rows;
        writeln!(out, "… and {left} more criteria.\n")?;
    }
    Ok(())
}
