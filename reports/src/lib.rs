//! How people read a measurement: one HTML file, Markdown, a terminal table,
//! JUnit XML and CI annotations.
//!
//! Every renderer is a pure function from a [`Report`] to text. Nothing here
//! reads a file, a clock or the environment, so the same input always gives the
//! same bytes and a snapshot test can hold them.
//!
//! Names in a report come from scenario files and servers and are hostile until
//! proven otherwise: each renderer passes them through `escape` for its own
//! syntax, and control or direction-changing characters become visible.

pub mod annotations;
mod asides;
mod blame;
mod capacity;
mod charts;
pub mod csv;
mod escape;
mod guilty_lines;
pub mod html;
pub mod junit;
pub mod markdown;
mod numbers;
mod objectives;
mod observed;
mod ranking;
pub mod terminal;
mod vocabulary;

use unstall_results::calibration::Certificate;
use unstall_results::capacity::Finding;
use unstall_results::comparison::{Comparison, Verdict};
use unstall_results::ledger::{self, Ledger};
use unstall_results::record::RunRecord;

/// What is rendered: one or more measurements under one title.
#[derive(Debug, Clone)]
pub struct Report<'a> {
    /// Title of the page.
    pub title: String,
    /// When the report was made: RFC 3339, UTC. Given, so that rendering is pure.
    pub generated_utc: String,
    /// The command that makes this report again.
    pub command: String,
    /// In the order in which they are shown.
    pub entries: Vec<Entry<'a>>,
    /// What identical versions showed on this machine, where the measurements were judged with
    /// that in mind.
    pub certificate: Option<&'a Certificate>,
    /// What is known of the state behind a migration's last step, besides what was compared.
    pub last_state: Option<LastState>,
    /// What should have been measured and was not, or not to its end.
    pub left_open: Option<LeftOpen>,
}

/// What no entry can answer for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOpen {
    /// What it makes of the whole: it counts in [`Report::verdict`].
    pub verdict: Verdict,
    /// What, and why; a sentence each.
    pub why: Vec<String>,
}

/// The state behind a migration's last step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastState {
    /// What serves it.
    pub command: String,
    /// What the findings come to: it counts in [`Report::verdict`].
    pub verdict: Verdict,
    /// What was asked of it.
    pub findings: Vec<StateFinding>,
}

/// A question and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFinding {
    /// What is to hold, a clause: `no request fails`.
    pub wanted: String,
    /// Whether it does; `None` where nobody can tell.
    pub holds: Option<bool>,
    /// The evidence, one phrase.
    pub found: String,
}

/// One measurement, with what was concluded from it.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// What was observed; of three versions the [contrast](RunRecord::contrast) of two.
    pub record: &'a RunRecord,
    /// What follows from it; `None` for a record of one version.
    pub comparison: Option<&'a Comparison>,
}

impl Report<'_> {
    /// The verdict over all entries, the last state and what was left open: invalid before regression before
    /// inconclusive before pass. `None` when nothing was compared.
    pub fn verdict(&self) -> Option<Verdict> {
        let of_state = self.last_state.iter().map(|state| state.verdict);
        let left_open = self.left_open.iter().map(|open| open.verdict);
        let all = self.measured().into_iter().chain(of_state);
        all.chain(left_open).max()
    }

    /// The same of the entries alone.
    fn measured(&self) -> Option<Verdict> {
        let compared = self.entries.iter().filter_map(|entry| entry.comparison);
        let searched = self.entries.iter().filter_map(capacity::verdict);
        ledger::overall(compared).into_iter().chain(searched).max()
    }

    /// The verdict of the last state, where it is worse than all that was measured.
    pub(crate) fn worse_last_state(&self) -> Option<Verdict> {
        let state = self.last_state.as_ref()?;
        (Some(state.verdict) > self.measured()).then_some(state.verdict)
    }

    /// What became of each step, and what its searches for capacity found.
    pub fn ledger(&self) -> Ledger {
        ledger_of(&self.entries)
    }

    /// What is said of the entry that decides [`Self::verdict`], unless the last state does: the first
    /// of those with the worst one. `None` where nothing was compared and nothing searched for.
    pub fn answer(&self) -> Option<Said> {
        let said = self.entries.iter().filter_map(Entry::said);
        said.reduce(|worst, one| {
            if one.verdict > worst.verdict {
                one
            } else {
                worst
            }
        })
    }
}

/// The ledger of some measurements.
fn ledger_of<'e, 'a: 'e>(entries: impl IntoIterator<Item = &'e Entry<'a>> + Clone) -> Ledger {
    let searched: Vec<(&RunRecord, Finding)> = entries
        .clone()
        .into_iter()
        .filter_map(|entry| Some((entry.record, entry.capacity()?)))
        .collect();
    let compared = entries.into_iter().filter_map(|entry| entry.comparison);
    Ledger::of(
        compared,
        searched.iter().map(|(record, finding)| (*record, finding)),
    )
}

/// What is concluded from one measurement, in sentences of plain text.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// The step, or the record's label.
    pub name: String,
    /// Its verdict; `None` of a search for the capacity of one version.
    pub verdict: Option<Verdict>,
    /// What a reader takes away.
    pub headline: String,
    /// What to do now.
    pub next_action: String,
}

impl Entry<'_> {
    /// Its verdict, where two versions were compared.
    fn verdict(&self) -> Option<Verdict> {
        let compared = self.comparison.map(|comparison| comparison.verdict);
        compared.or_else(|| capacity::verdict(self))
    }

    /// What is concluded, of two versions or from a search for capacity; `None` of one version that
    /// was only measured.
    pub fn said(&self) -> Option<Said> {
        if let Some(comparison) = self.comparison {
            return Some(Said {
                name: self.short_name(),
                verdict: Some(comparison.verdict),
                headline: comparison.headline.clone(),
                next_action: comparison.next_action.clone(),
            });
        }
        self.record.load.capacity.as_ref()?;
        let finding = self.capacity()?;
        Some(Said {
            name: self.short_name(),
            verdict: finding.verdict,
            headline: finding.headline,
            next_action: finding.next_action,
        })
    }

    /// `Step 2a`, or the record's label when no step was measured.
    fn short_name(&self) -> String {
        let step = self
            .comparison
            .and_then(|comparison| comparison.step.as_ref())
            .or(self.record.step.as_ref());
        match step {
            Some(step) => format!("Step {}", step.id),
            None => self.record.label.clone(),
        }
    }
}
