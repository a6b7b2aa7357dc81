//! The cells: every endpoint × concurrency × metric, failures first, absolute
//! values beside the change and its interval.

use std::fmt::Write as _;

use unstall_results::comparison::{Cell, Comparison, Metric, Outcome, Verdict};

use super::{forest, table};
use crate::ranking::Group;
use crate::{escape, numbers, ranking, vocabulary};

/// Columns of the table.
const COLUMNS: usize = 8;

/// Writes the cells of one comparison.
pub(super) fn write(out: &mut String, comparison: &Comparison) -> std::fmt::Result {
    if comparison.cells.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h3>What changed</h3>")?;
    writeln!(
        out,
        "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"Cells\"><table class=\"cells\">\
         <caption><span>Worst first. {} of blocks, α\u{202F}=\u{202F}{}. Change is the Hodges–Lehmann estimate with its {}\u{202F}% \
         signed-rank interval; differences (in the metric’s own unit) are drawn on a scale of their own. Blocked time is per \
         1\u{202F}000 requests.</span></caption>\
         <thead><tr><th scope=\"col\">Endpoint</th><th scope=\"col\">Metric</th><th scope=\"col\" class=\"n\">Before</th>\
         <th scope=\"col\" class=\"n\">After</th><th scope=\"col\" class=\"n\">Change</th><th scope=\"col\" class=\"n\">Interval</th>\
         <th scope=\"col\" class=\"f\">{}</th><th scope=\"col\">Outcome</th></tr></thead>",
        vocabulary::plural(comparison.pairs.into(), "pair", "pairs"),
        numbers::tick(comparison.alpha),
        numbers::confidence(comparison),
        forest::heading()
    )?;
    let extents = forest::extents(comparison);
    for group in Group::ALL {
        let cells = ranking::cells(comparison, group);
        if cells.is_empty() {
            continue;
        }
        writeln!(
            out,
            "<tbody><tr class=\"group\"><th colspan=\"{COLUMNS}\" scope=\"rowgroup\">{}</th></tr>",
            group.title()
        )?;
        for cell in cells {
            row(out, comparison, cell, group, &extents)?;
        }
        writeln!(out, "</tbody>")?;
    }
    writeln!(out, "</table></div>")
}

fn row(
    out: &mut String,
    comparison: &Comparison,
    cell: &Cell,
    group: Group,
    extents: &[(Metric, f64)],
) -> std::fmt::Result {
    let (sign, words) = vocabulary::outcome(cell);
    let class = row_class(cell, group, comparison.verdict);
    let level = if ranking::several_levels(comparison) {
        format!(" <small>{}</small>", numbers::level(cell.level))
    } else {
        String::new()
    };
    write!(
        out,
        "<tr class=\"{class}\"><th scope=\"row\"><bdi>{}</bdi>{level}</th><td class=\"k\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>",
        escape::markup(vocabulary::cell_endpoint(cell)),
        vocabulary::metric(cell.metric),
        numbers::of_cell(cell, &cell.before),
        numbers::of_cell(cell, &cell.after),
    )?;
    match &cell.change {
        Some(change) => {
            let shown = numbers::change(cell.metric, change);
            write!(
                out,
                "<td class=\"n\"><span class=\"arrow\" aria-hidden=\"true\">{}</span> {}</td><td class=\"n iv\">{}</td><td class=\"f\">{}</td>",
                vocabulary::arrow(&shown),
                // `< −99.9 %` has a sign that belongs to the markup.
                escape::markup(&shown),
                escape::markup(&numbers::interval(cell.metric, change)),
                forest::bar(cell.metric, change, extents),
            )?;
        }
        None if cell.outcome == Outcome::Pooled => write!(
            out,
            "<td class=\"n\">–</td><td class=\"n iv\">{}</td><td></td>",
            numbers::intervals_of_both(&cell.before, &cell.after)
        )?,
        None => write!(out, "<td class=\"n\">–</td><td class=\"n\">–</td><td></td>")?,
    }
    let note = match vocabulary::note(cell) {
        Some(note) => format!(" <small>{}</small>", escape::markup_prose(note)),
        None => String::new(),
    };
    writeln!(
        out,
        "<td class=\"o\"><span class=\"sign\" aria-hidden=\"true\">{sign}</span> {words}{note}</td></tr>"
    )
}

/// Numbers of an invalid measurement get no colour: it would be a judgement.
fn row_class(cell: &Cell, group: Group, verdict: Verdict) -> &'static str {
    match (group, cell.outcome) {
        _ if verdict == Verdict::Invalid => "quiet",
        (Group::Judged, Outcome::Regression) => "bad",
        (Group::Judged, Outcome::Improvement) => "good",
        (Group::Judged, Outcome::Inconclusive { .. }) => "unsure",
        (Group::Judged, _) => "even",
        _ => "quiet",
    }
}

/// The step's criteria, if it has any.
pub(super) fn write_criteria(out: &mut String, comparison: &Comparison) -> std::fmt::Result {
    if comparison.criteria.is_empty() {
        return Ok(());
    }
    let columns = [
        table::text("Criterion"),
        table::text("Expected"),
        table::text("Result"),
        table::text("Found"),
    ];
    writeln!(out, "<h3>The step’s criteria</h3>")?;
    table::open(
        out,
        "Success criteria of the migration plan, on the step’s own endpoints.",
        &columns,
    )?;
    for criterion in &comparison.criteria {
        let (sign, word) = vocabulary::criterion(criterion.met);
        let class = match criterion.met {
            Some(true) => "good",
            Some(false) => "bad",
            None => "unsure",
        };
        table::row(
            out,
            &columns,
            &[
                escape::markup(&criterion.name),
                escape::markup(&criterion.expected.replace('-', " ")),
                format!("<span class=\"{class}\">{sign} {word}</span>"),
                escape::markup_prose(&criterion.found),
            ],
        )?;
    }
    table::close(out)
}
