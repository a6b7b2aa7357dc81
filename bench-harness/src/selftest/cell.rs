//! One cell of the matrix: one canary under one observer.

use super::canary::Canary;
use super::column::Column;
use super::judge::Bar;

/// What came of one canary in one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Who looked.
    pub(crate) column: Column,
    /// At what.
    pub(crate) canary: Canary,
    /// Requests served, each with one call.
    pub(crate) calls: u64,
    /// Calls that this observer has to find.
    pub(crate) expected: u64,
    /// What it found.
    pub(crate) found: u64,
    /// What it took for blocking and wasn't.
    pub(crate) false_alarms: u64,
    /// How it named it, where it names.
    pub(crate) named: Option<String>,
    /// Whether that is what it must be.
    pub(crate) state: State,
}

/// Whether a bar is met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// It is.
    Met,
    /// It isn't, and why.
    Missed(String),
    /// There is none here, and why.
    NotJudged(String),
    /// The canary couldn't be planted or observed on this machine, and why.
    NotRun(String),
}

impl Cell {
    /// A canary that couldn't be planted or observed.
    pub(super) fn without_run(column: Column, canary: Canary, state: State) -> Self {
        Self {
            column,
            canary,
            calls: 0,
            expected: 0,
            found: 0,
            false_alarms: 0,
            named: None,
            state,
        }
    }

    /// Whether something that had to be named was not seen at all.
    pub(super) fn is_unnamed(&self) -> bool {
        let is_missed = matches!(self.state, State::Missed(_));
        is_missed
            && self.column.bar() == Bar::NamesLongSleeps
            && self.found == 0
            && self.expected > 0
    }

    /// The bar that isn't met, as a sentence.
    pub(crate) fn complaint(&self) -> Option<String> {
        match &self.state {
            State::Missed(why) => Some(format!(
                "{}, {}: {}: {why}",
                self.column.program.title(),
                self.column.title(),
                self.canary.name()
            )),
            _ => None,
        }
    }
}

/// One column in sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recall {
    /// What had to be found.
    pub(crate) expected: u64,
    /// What of it was.
    pub(crate) found: u64,
    /// What was found and wasn't there.
    pub(crate) false_alarms: u64,
    /// Clean canaries that were planted.
    pub(crate) clean_calls: u64,
}

impl Recall {
    /// Of a column's cells.
    pub(crate) fn of<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Self {
        let mut sum = Self {
            expected: 0,
            found: 0,
            false_alarms: 0,
            clean_calls: 0,
        };
        for cell in cells {
            sum.expected += cell.expected;
            // More than there was to find doesn't make up for what was missed elsewhere.
            sum.found += cell.found.min(cell.expected);
            sum.false_alarms += cell.false_alarms;
            if cell.canary.nature() == super::canary::Nature::Clean {
                sum.clean_calls += cell.calls;
            }
        }
        sum
    }
}
