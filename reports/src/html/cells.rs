//! The cells: every endpoint × concurrency × metric, failures first, absolute
//! values beside the change and its interval.
//!
//! A page of ten thousand names would be none: beyond [`ROWS_MAX`] rows the worst are shown, and
//! what is left out is counted by its outcome.

use std::fmt::Write as _;

use unstall_results::comparison::{Cell, Comparison, Metric, Outcome, Verdict};

use super::{forest, permalink, table};
use crate::ranking::Group;
use crate::{escape, numbers, ranking, vocabulary};

/// Columns of the table.
const COLUMNS: usize = 9;
/// More rows are cut, the best ones first.
const ROWS_MAX: usize = 800;
/// Fewer cells need no filter.
const FILTERED_MIN: usize = 8;

/// What is the same for all rows.
struct Rows<'c> {
    comparison: &'c Comparison,
    extents: Vec<(Metric, f64)>,
    anchors: Vec<String>,
    with_levels: bool,
}

/// Writes the cells of one comparison.
pub(super) fn write(out: &mut String, anchor: &str, comparison: &Comparison) -> std::fmt::Result {
    if comparison.cells.is_empty() {
        return Ok(());
    }
    let shown = shown(comparison);
    if shown.iter().map(|(_, cells)| cells.len()).sum::<usize>() >= FILTERED_MIN {
        filter(out, anchor, &shown)?;
    }
    head(out, anchor, comparison)?;
    let rows = Rows {
        comparison,
        extents: forest::extents(comparison),
        anchors: permalink::cells(anchor, comparison),
        with_levels: ranking::several_levels(comparison),
    };
    for (group, cells) in &shown {
        writeln!(
            out,
            "<tbody><tr class=\"group\"><th colspan=\"{COLUMNS}\" scope=\"rowgroup\">{}</th></tr>",
            group.title()
        )?;
        for (index, cell) in cells {
            rows.row(out, *index, cell, *group)?;
        }
        writeln!(out, "</tbody>")?;
    }
    writeln!(out, "</table></div>")?;
    left_out(out, comparison, &shown)
}

/// The groups in reading order, the worst cells first, as many as a page can hold.
fn shown(comparison: &Comparison) -> Vec<(Group, Vec<(usize, &Cell)>)> {
    let mut left = ROWS_MAX;
    let mut groups = Vec::new();
    for group in Group::ALL {
        let mut cells = ranking::indexed_cells(comparison, group);
        cells.truncate(left);
        left -= cells.len();
        if !cells.is_empty() {
            groups.push((group, cells));
        }
    }
    groups
}

/// How many cells have no row, by what follows from them.
fn left_out(
    out: &mut String,
    comparison: &Comparison,
    shown: &[(Group, Vec<(usize, &Cell)>)],
) -> std::fmt::Result {
    let rows = shown.iter().map(|(_, cells)| cells.len()).sum::<usize>();
    if rows == comparison.cells.len() {
        return Ok(());
    }
    let mut all = counts(comparison.cells.iter());
    for (outcome, count) in counts(
        shown
            .iter()
            .flat_map(|(_, cells)| cells)
            .map(|(_, cell)| *cell),
    ) {
        for (other, left) in &mut all {
            if *other == outcome {
                *left -= count;
            }
        }
    }
    let parts: Vec<String> = all
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{} {}", numbers::count(*count), kind.words))
        .collect();
    let left = u64::try_from(comparison.cells.len() - rows).unwrap_or(u64::MAX);
    writeln!(
        out,
        "<p class=\"note\">… and {} more cells ({}), none worse than those of its group above.</p>",
        numbers::count(left),
        parts.join(", ")
    )
}

/// What a reader can filter by: outcomes without their details.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    /// Value of the switch and of the row's attribute.
    word: &'static str,
    sign: &'static str,
    words: &'static str,
}

/// All kinds, worst first.
const KINDS: [Kind; 7] = [
    Kind {
        word: "worse",
        sign: "✕",
        words: "worse",
    },
    Kind {
        word: "unsure",
        sign: "?",
        words: "can’t tell",
    },
    Kind {
        word: "better",
        sign: "✓",
        words: "better",
    },
    Kind {
        word: "within",
        sign: "=",
        words: "within limit",
    },
    Kind {
        word: "pooled",
        sign: "·",
        words: "all blocks together",
    },
    Kind {
        word: "saturated",
        sign: "·",
        words: "saturated",
    },
    Kind {
        word: "none",
        sign: "·",
        words: "not enough data",
    },
];

fn kind(outcome: Outcome) -> Kind {
    let index = match outcome {
        Outcome::Regression => 0,
        Outcome::Inconclusive { .. } => 1,
        Outcome::Improvement => 2,
        Outcome::WithinLimit => 3,
        Outcome::Pooled => 4,
        Outcome::Saturated => 5,
        Outcome::Insufficient { .. } | Outcome::NotMeasured => 6,
    };
    KINDS[index]
}

/// Cells by kind, worst kind first; kinds that there are none of with 0.
fn counts<'c>(cells: impl Iterator<Item = &'c Cell>) -> Vec<(Kind, u64)> {
    let mut counts: Vec<(Kind, u64)> = KINDS.into_iter().map(|kind| (kind, 0)).collect();
    for cell in cells {
        let kind = kind(cell.outcome);
        for (other, count) in &mut counts {
            *count += u64::from(*other == kind);
        }
    }
    counts
}

/// A search field and a choice of outcomes with their counts. Both need the script, which shows
/// them; without it all rows are there.
fn filter(
    out: &mut String,
    anchor: &str,
    shown: &[(Group, Vec<(usize, &Cell)>)],
) -> std::fmt::Result {
    let counts = counts(
        shown
            .iter()
            .flat_map(|(_, cells)| cells)
            .map(|(_, cell)| *cell),
    );
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    write!(
        out,
        "<div class=\"filter\" role=\"search\" aria-label=\"Cells of measurement {}\" \
         data-rows=\"{anchor}-cells\" hidden>\
         <label>Filter <input type=\"search\" name=\"{anchor}-q\" autocomplete=\"off\" spellcheck=\"false\" \
         placeholder=\"endpoint or metric\"></label>\
         <fieldset class=\"switch\"><legend>Outcome</legend>\
         <label><input type=\"radio\" name=\"{anchor}-o\" value=\"\" checked> all <b>{}</b></label>",
        anchor.trim_start_matches('m'),
        numbers::count(all)
    )?;
    for (kind, count) in counts.iter().filter(|(_, count)| *count > 0) {
        write!(
            out,
            "<label><input type=\"radio\" name=\"{anchor}-o\" value=\"{}\"> <span aria-hidden=\"true\">{}</span> {} \
             <b>{}</b></label>",
            kind.word,
            kind.sign,
            kind.words,
            numbers::count(*count)
        )?;
    }
    writeln!(
        out,
        "</fieldset><output>{0} of {0} cells</output></div>",
        numbers::count(all)
    )
}

/// What the columns of changes mean.
fn caption(comparison: &Comparison) -> String {
    const BOTH: &str = "differences (in the metric’s own unit) are drawn on a scale of their own. Blocked time is per \
                        1\u{202F}000 requests.";
    if !comparison.paired {
        return format!(
            "Worst first. Two sessions, so no pairs, no test and no α: the interval of a change is what the two \
             versions’ own intervals allow at worst, and holds whatever changed between the sessions; {BOTH}"
        );
    }
    format!(
        "Worst first. {} of blocks, α\u{202F}=\u{202F}{}. Change is the Hodges–Lehmann estimate with its {}\u{202F}% \
         signed-rank interval; {BOTH} Detects: the smallest worsening that this design finds 8 times in 10.",
        vocabulary::plural(comparison.pairs.into(), "pair", "pairs"),
        numbers::tick(comparison.alpha),
        numbers::confidence(comparison),
    )
}

fn head(out: &mut String, anchor: &str, comparison: &Comparison) -> std::fmt::Result {
    writeln!(
        out,
        "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"Cells\"><table class=\"cells\" id=\"{anchor}-cells\">\
         <caption><span>{}</span></caption>\
         <thead><tr><th scope=\"col\">Endpoint</th><th scope=\"col\">Metric</th><th scope=\"col\" class=\"n\">Before</th>\
         <th scope=\"col\" class=\"n\">After</th><th scope=\"col\" class=\"n\">Change</th><th scope=\"col\" class=\"n\">Interval</th>\
         <th scope=\"col\" class=\"f\">{}</th><th scope=\"col\" class=\"n\">Detects</th><th scope=\"col\">Outcome</th></tr></thead>",
        caption(comparison),
        forest::heading()
    )
}

impl Rows<'_> {
    fn row(&self, out: &mut String, index: usize, cell: &Cell, group: Group) -> std::fmt::Result {
        let (sign, words) = vocabulary::outcome(cell);
        let level = if self.with_levels {
            format!(" <small>{}</small>", numbers::level(cell.level))
        } else {
            String::new()
        };
        let anchor = self.anchors.get(index).map_or("", String::as_str);
        write!(
            out,
            "<tr id=\"{anchor}\" class=\"{}\" data-o=\"{}\"><th scope=\"row\"><bdi>{}</bdi>{level}</th>\
             <td class=\"k\"><a href=\"#{anchor}\">{}</a></td><td class=\"n\">{}</td><td class=\"n\">{}</td>",
            row_class(cell, group, self.comparison.verdict),
            kind(cell.outcome).word,
            escape::markup(vocabulary::cell_endpoint(cell)),
            vocabulary::metric(cell.metric),
            numbers::of_cell(cell, &cell.before),
            numbers::of_cell(cell, &cell.after),
        )?;
        self.change(out, cell)?;
        let note = match vocabulary::note(cell) {
            Some(note) => format!(" <small>{}</small>", escape::markup_prose(note)),
            None => String::new(),
        };
        writeln!(
            out,
            "<td class=\"o\"><span class=\"sign\" aria-hidden=\"true\">{sign}</span> {words}{note}</td></tr>"
        )
    }

    /// The columns from the change to what the design detects.
    fn change(&self, out: &mut String, cell: &Cell) -> std::fmt::Result {
        let Some(change) = &cell.change else {
            let interval = match cell.outcome {
                Outcome::Pooled => numbers::intervals_of_both(&cell.before, &cell.after),
                _ => "–".to_owned(),
            };
            return write!(
                out,
                "<td class=\"n\">–</td><td class=\"n iv\">{interval}</td><td class=\"f\"></td><td class=\"n\">–</td>"
            );
        };
        let shown = numbers::change(cell.metric, change);
        let detects = change.minimum_detectable.map_or_else(
            || "–".to_owned(),
            |least| numbers::scaled(cell.metric, change.scale, least),
        );
        write!(
            out,
            "<td class=\"n\"><span class=\"arrow\" aria-hidden=\"true\">{}</span> {}</td><td class=\"n iv\">{}</td>\
             <td class=\"f\">{}</td><td class=\"n iv\">{}</td>",
            vocabulary::arrow(&shown),
            // `< −99.9 %` has a sign that belongs to the markup.
            escape::markup(&shown),
            escape::markup(&numbers::interval(cell.metric, change)),
            forest::bar(cell.metric, change, &self.extents),
            escape::markup(&detects),
        )
    }
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
    writeln!(out, "<h4>The step’s criteria</h4>")?;
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
