//! In which order cells are shown: what fails first, what decides before what
//! is only shown.

use unstall_results::comparison::{Cell, Comparison, Estimate, Metric, Outcome};
use unstall_results::ledger::{Course, Measured};

use crate::numbers;

/// The group of a table that a cell belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// Counts for the verdict.
    Judged,
    /// Measured and shown beside it.
    Advisory,
    /// Nothing to judge: too few requests, or not measured.
    Unmeasured,
}

impl Group {
    /// All groups, in reading order.
    pub(crate) const ALL: [Self; 3] = [Self::Judged, Self::Advisory, Self::Unmeasured];

    /// Heading of the group.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Judged => "Judged",
            Self::Advisory => "Advisory: shown, not judged",
            Self::Unmeasured => "Not enough data",
        }
    }
}

/// The group of one cell.
pub(crate) fn group(cell: &Cell) -> Group {
    match cell.outcome {
        Outcome::Insufficient { .. } | Outcome::NotMeasured if !cell.judged => Group::Unmeasured,
        _ if cell.judged => Group::Judged,
        _ => Group::Advisory,
    }
}

/// Cells of one group, worst first: by what follows, then by how much of its limit a cell takes, as
/// the comparison chooses its worst one. Equals keep the order of the comparison.
pub(crate) fn cells(comparison: &Comparison, wanted: Group) -> Vec<&Cell> {
    let indexed = indexed_cells(comparison, wanted).into_iter();
    indexed.map(|(_, cell)| cell).collect()
}

/// The same, each with its index in the comparison.
pub(crate) fn indexed_cells(comparison: &Comparison, wanted: Group) -> Vec<(usize, &Cell)> {
    let mut cells: Vec<(usize, &Cell)> = comparison
        .cells
        .iter()
        .enumerate()
        .filter(|(_, cell)| group(cell) == wanted)
        .collect();
    cells.sort_by(|(_, a), (_, b)| {
        badness(a)
            .cmp(&badness(b))
            .then_with(|| b.limit_used().total_cmp(&a.limit_used()))
    });
    cells
}

/// 0 is worst.
fn badness(cell: &Cell) -> u8 {
    match cell.outcome {
        Outcome::Regression => 0,
        Outcome::Inconclusive { .. } => 1,
        Outcome::Insufficient { .. } => 2,
        Outcome::NotMeasured => 3,
        Outcome::Improvement => 4,
        Outcome::WithinLimit => 5,
        Outcome::Saturated => 6,
        Outcome::Pooled => 7,
    }
}

/// The worst judged cell, as the comparison names it.
pub(crate) fn worst(comparison: &Comparison) -> Option<&Cell> {
    comparison
        .worst_cell
        .and_then(|index| comparison.cells.get(index))
}

/// Whether a comparison has more than one level, or an open load's: only then does a row
/// need to say which.
pub(crate) fn several_levels(comparison: &Comparison) -> bool {
    let mut levels = comparison.cells.iter().map(|cell| cell.level);
    let first = levels.next();
    first.is_some_and(|level| level.rate_per_second().is_some())
        || levels.any(|level| Some(level) != first)
}

/// `41.2 → 6.1 ms`, with the start before it where that was measured; or a dash.
pub(crate) fn course(metric: Metric, measured: Option<Course>) -> String {
    let estimate = |measured: Measured| Estimate {
        value: Some(measured.value),
        at_least: measured.at_least,
        ..Estimate::default()
    };
    let Some(course) = measured else {
        return "–".to_owned();
    };
    let values = course
        .start
        .into_iter()
        .chain([course.before, course.after]);
    let values: Vec<Estimate> = values.map(estimate).collect();
    numbers::course(metric, &values)
}
