//! The sentences about objectives of the policy.

use super::{Findings, NAMED_MAX};
use crate::comparison::Outcome;
use crate::slo::{SloFinding, SloOutcome};
use crate::wording;

impl Findings<'_> {
    /// The first objective that is missed, and how many more are.
    pub(super) fn missed_in_short(&self) -> Option<String> {
        let mut missed = self.slos_with(|of| *of == SloOutcome::Missed);
        let first = missed.next()?;
        let value = first.value.map_or_else(String::new, |value| {
            let least = if first.at_least { "at least " } else { "" };
            format!(" with {least}{}", first.shown(value))
        });
        let more = match missed.count() {
            0 => String::new(),
            more => format!(" and {}", wording::plural(more as u64, "more objective")),
        };
        Some(format!(
            "{}{} misses its objective{value}{more}",
            first.name(),
            self.at_level(first)
        ))
    }

    fn slos_with(&self, is: fn(&SloOutcome) -> bool) -> impl Iterator<Item = &SloFinding> {
        self.slos.iter().filter(move |slo| is(&slo.outcome))
    }

    /// The level of an objective, where there are several.
    fn at_level(&self, slo: &SloFinding) -> String {
        match self.has_several_levels(slo) {
            true => format!(" at {}", slo.level),
            false => String::new(),
        }
    }

    fn has_several_levels(&self, slo: &SloFinding) -> bool {
        let mut levels = self.cells.iter().map(|cell| cell.level);
        levels.any(|level| level != slo.level)
    }

    /// Objectives of one outcome, a sentence each.
    pub(super) fn slo_sentences(&self, is: fn(&SloOutcome) -> bool) -> Vec<String> {
        let all: Vec<&SloFinding> = self.slos_with(is).collect();
        let shown = all.iter().take(NAMED_MAX);
        let mut said: Vec<String> = shown
            .map(|slo| slo.sentence(self.has_several_levels(slo)))
            .collect();
        if let Some(more) = all.len().checked_sub(NAMED_MAX).filter(|n| *n > 0) {
            said.push(format!(
                "And {}.",
                wording::plural(more as u64, "more objective")
            ));
        }
        said
    }

    /// No cell regressed, so it is an objective that failed.
    pub(super) fn is_objective_alone(&self) -> bool {
        let mut judged = self.cells.iter().filter(|cell| cell.judged);
        judged.all(|cell| cell.outcome != Outcome::Regression)
    }

    /// Requests per endpoint and block without which something wanted can't be told.
    pub(super) fn requests_needed(&self) -> Option<u64> {
        let of_unseen = self.unseen.and_then(|cell| match cell.outcome {
            Outcome::Insufficient { requests_needed } => Some(requests_needed),
            _ => None,
        });
        let of_slos = self.slos.iter().filter_map(|slo| match slo.outcome {
            SloOutcome::CantTell {
                requests_needed, ..
            } => requests_needed,
            SloOutcome::Met | SloOutcome::Missed => None,
        });
        of_unseen.into_iter().chain(of_slos).max()
    }

    /// What to do where nothing but an objective failed.
    pub(super) fn how_to_meet(&self) -> String {
        let missed = self.slos_with(|of| *of == SloOutcome::Missed).next();
        let which = missed.map_or_else(String::new, SloFinding::name);
        format!(
            "No judged cell regressed, and {which} is missed all the same: make it hold, or change \
             the objective in the policy."
        )
    }

    /// Of a pass with objectives.
    pub(super) fn all_met(&self) -> Option<String> {
        match self.slos.len() {
            0 => None,
            1 => Some("The objective is met.".to_owned()),
            all => Some(format!(
                "All {} objectives are met.",
                wording::count(all as u64)
            )),
        }
    }

    /// Of each objective that can't be told, the pairs that would settle it.
    pub(super) fn pairs_of_objectives(&self) -> impl Iterator<Item = Option<u32>> {
        self.slos.iter().filter_map(|slo| match slo.outcome {
            SloOutcome::CantTell { pairs_needed, .. } => Some(pairs_needed),
            SloOutcome::Met | SloOutcome::Missed => None,
        })
    }
}
