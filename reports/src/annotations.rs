//! GitHub workflow commands: `::error title=…::…`, shown on the run's page and, where they name a
//! file and a line, beside that line in the changes of a pull request.
//!
//! GitHub shows ten errors and ten warnings per step and drops the others without a word. So the worst
//! come first, and the tenth tells of all that are left.

use unstall_results::capacity::Finding;
use unstall_results::comparison::{Cell, Comparison, Outcome, Verdict};
use unstall_results::slo::SloOutcome;

use crate::guilty_lines::{GuiltyLine, for_cell, guilty_lines};
use crate::ranking::Group;
use crate::{Entry, Report, escape, numbers, objectives, ranking, vocabulary};

/// What GitHub shows of each level and step.
const SHOWN_MAX: usize = 10;

/// Titles that the last annotation names.
const TITLES_MAX: usize = 20;

/// How loud an annotation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Error,
    Warning,
    Notice,
}

impl Level {
    const ALL: [Self; 3] = [Self::Error, Self::Warning, Self::Notice];

    fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Self::Notice,
            Verdict::Inconclusive => Self::Warning,
            Verdict::Regression | Verdict::Invalid => Self::Error,
        }
    }

    fn command(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
        }
    }
}

/// One of them; texts aren't escaped yet.
struct Annotation {
    level: Level,
    title: String,
    /// Lines.
    message: Vec<String>,
    /// A file of the checkout and a line in it.
    place: Option<(String, u32)>,
}

/// Renders a command for each verdict and each failing cell, errors first, the worst of each level
/// first; ends in a newline unless nothing was compared.
///
/// `in_checkout` says where a file is below the root of the repository that the pipeline has checked
/// out, given as a watch spells it; `None` if it isn't there.
pub fn render(report: &Report<'_>, in_checkout: &dyn Fn(&str) -> Option<String>) -> String {
    let mut annotations = Vec::new();
    let mut entries: Vec<&Entry<'_>> = report.entries.iter().collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.verdict()));
    for entry in entries {
        match (entry.comparison, entry.capacity()) {
            (Some(comparison), _) => annotations.push(of_verdict(entry, comparison, in_checkout)),
            (None, Some(finding)) => annotations.extend(of_capacity(entry, &finding)),
            (None, None) => {}
        }
    }
    // Objectives and cells of all measurements behind all verdicts, which say more.
    annotations.extend(report.entries.iter().flat_map(of_objectives));
    annotations.extend(of_cells(report, in_checkout));
    let mut out = String::new();
    for level in Level::ALL {
        let of_level: Vec<&Annotation> = annotations
            .iter()
            .filter(|one| one.level == level)
            .collect();
        write_level(&mut out, level, &of_level);
    }
    out
}

fn write_level(out: &mut String, level: Level, annotations: &[&Annotation]) {
    let shown = if annotations.len() > SHOWN_MAX {
        SHOWN_MAX - 1
    } else {
        annotations.len()
    };
    for annotation in &annotations[..shown] {
        write(out, annotation);
    }
    let left = &annotations[shown..];
    if left.is_empty() {
        return;
    }
    let mut message: Vec<String> = left
        .iter()
        .take(TITLES_MAX)
        .map(|annotation| annotation.title.clone())
        .collect();
    if left.len() > TITLES_MAX {
        message.push(format!("… and {} more", left.len() - TITLES_MAX));
    }
    write(
        out,
        &Annotation {
            level,
            title: format!("{} more, none worse than those shown", left.len()),
            message,
            place: None,
        },
    );
}

fn write(out: &mut String, annotation: &Annotation) {
    let place = annotation.place.as_ref().map_or_else(String::new, |place| {
        let (file, line) = place;
        format!("file={},line={line},", escape::annotation_property(file))
    });
    let lines: Vec<String> = annotation
        .message
        .iter()
        .map(|line| escape::annotation_message(line))
        .collect();
    out.push_str(&format!(
        "::{} {place}title={}::{}\n",
        annotation.level.command(),
        escape::annotation_property(&annotation.title),
        lines.join(escape::ANNOTATION_LINE_BREAK)
    ));
}

fn of_capacity(entry: &Entry<'_>, finding: &Finding) -> Option<Annotation> {
    let verdict = finding.verdict?;
    Some(Annotation {
        level: Level::of(verdict),
        title: format!("{}: {}", entry.short_name(), vocabulary::verdict(verdict)),
        message: vec![
            format!("{}.", finding.headline),
            format!("Next: {}", finding.next_action),
        ],
        place: None,
    })
}

fn of_verdict(
    entry: &Entry<'_>,
    comparison: &Comparison,
    in_checkout: &dyn Fn(&str) -> Option<String>,
) -> Annotation {
    let mut message = vec![comparison.headline.clone()];
    let faults = comparison.validity.faults.iter();
    message.extend(faults.map(|fault| format!("Not valid: {fault}")));
    let lines = guilty_lines(entry.record);
    let worst = ranking::worst(comparison);
    let guilty = worst.and_then(|worst| for_cell(&lines, worst));
    let guilty = guilty.filter(|_| comparison.verdict == Verdict::Regression);
    message.extend(guilty.map(|line| line.sentence.clone()));
    message.push(format!("Next: {}", comparison.next_action));
    let level = match comparison.is_only_warned() {
        true => Level::Warning,
        false => Level::of(comparison.verdict),
    };
    Annotation {
        level,
        title: format!(
            "{}: {}",
            entry.short_name(),
            vocabulary::verdict(comparison.verdict)
        ),
        message,
        place: guilty.and_then(|line| place(line, in_checkout)),
    }
}

fn place(line: &GuiltyLine, in_checkout: &dyn Fn(&str) -> Option<String>) -> Option<(String, u32)> {
    in_checkout(&line.file).map(|file| (file, line.line))
}

/// Objectives that are not met, of a measurement whose numbers may be used.
fn of_objectives(entry: &Entry<'_>) -> Vec<Annotation> {
    let usable = |comparison: &&Comparison| comparison.verdict != Verdict::Invalid;
    let Some(comparison) = entry.comparison.filter(usable) else {
        return Vec::new();
    };
    let found = objectives::worst_first(comparison).into_iter();
    found
        .filter_map(|slo| {
            let level = match slo.outcome {
                SloOutcome::Met => return None,
                SloOutcome::Missed if comparison.verdict == Verdict::Regression => Level::Error,
                SloOutcome::Missed | SloOutcome::CantTell { .. } => Level::Warning,
            };
            let (_, words) = objectives::outcome(slo, comparison.verdict);
            Some(Annotation {
                level,
                title: format!("{}: objective {} {words}", entry.short_name(), slo.name()),
                message: vec![format!("{}: {}", slo.level, objectives::found(slo))],
                place: None,
            })
        })
        .collect()
}

/// Cells that got worse or can't be told, over all measurements whose numbers may be used.
fn of_cells(report: &Report<'_>, in_checkout: &dyn Fn(&str) -> Option<String>) -> Vec<Annotation> {
    let mut annotations = Vec::new();
    for entry in &report.entries {
        let Some(comparison) = entry.comparison else {
            continue;
        };
        if comparison.verdict == Verdict::Invalid {
            continue;
        }
        let lines = guilty_lines(entry.record);
        for cell in ranking::cells(comparison, Group::Judged) {
            let level = match cell.outcome {
                Outcome::Regression if comparison.verdict == Verdict::Regression => Level::Error,
                // Of two sessions it is advice.
                Outcome::Regression | Outcome::Inconclusive { .. } => Level::Warning,
                _ => continue,
            };
            let guilty = for_cell(&lines, cell).filter(|_| level == Level::Error);
            let annotation = of_cell(entry, cell, level, guilty);
            let place = guilty.and_then(|line| place(line, in_checkout));
            annotations.push((
                cell.limit_used(),
                Annotation {
                    place,
                    ..annotation
                },
            ));
        }
    }
    // Worst first over all measurements; the levels are told apart later.
    annotations.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    annotations.into_iter().map(|(_, of)| of).collect()
}

fn of_cell(
    entry: &Entry<'_>,
    cell: &Cell,
    level: Level,
    guilty: Option<&GuiltyLine>,
) -> Annotation {
    let (_, words) = vocabulary::outcome(cell);
    let mut message = vec![values(cell)];
    message.extend(guilty.map(|line| line.sentence.clone()));
    Annotation {
        level,
        title: format!(
            "{}: {} {} {words}",
            entry.short_name(),
            vocabulary::cell_endpoint(cell),
            vocabulary::metric(cell.metric)
        ),
        message,
        place: None,
    }
}

fn values(cell: &Cell) -> String {
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
