//! Weights: which neighbouring requests are alternatives, and what part of the iterations each
//! of them has.

use std::collections::BTreeSet;

use crate::document::{Document, Place};
use crate::error::ScenarioError;
use crate::plan::Alternative;
use crate::raw;

/// Weights are compared with each other, so larger ones say nothing more.
const WEIGHT_MAX: f64 = 1e9;

/// For each request of a section its alternative, if it has a weight.
pub(crate) fn resolve(
    document: &Document<'_>,
    section: &Place<'_>,
    raw: &[raw::Request],
) -> Result<Vec<Option<Alternative>>, ScenarioError> {
    let mut resolved = Vec::with_capacity(raw.len());
    while resolved.len() < raw.len() {
        let first = resolved.len();
        let weighted = raw[first..].iter().map_while(|request| request.weight);
        let weights: Vec<f64> = weighted.collect();
        for (index, weight) in weights.iter().enumerate() {
            if !(*weight > 0.0 && *weight <= WEIGHT_MAX) {
                return Err(document.error(
                    &section.item(first + index).key("weight"),
                    format!("weight {weight}, expected more than 0 and at most {WEIGHT_MAX}"),
                    "write how often it is sent beside its neighbours, as `weight = 3`",
                ));
            }
        }
        match weights.as_slice() {
            [] => resolved.push(None),
            [_] => {
                return Err(document.error(
                    &section.item(first).name("weight"),
                    "a weight decides nothing here: no neighbouring request has one",
                    "give the requests before or behind it, which are its alternatives, a \
                     `weight`, or take it out",
                ));
            }
            _ => resolved.extend(shares(first, &weights).map(Some)),
        }
    }
    Ok(resolved)
}

fn shares(first: usize, weights: &[f64]) -> impl Iterator<Item = Alternative> {
    let sum: f64 = weights.iter().sum();
    let mut passed = 0.0;
    weights.iter().enumerate().map(move |(index, weight)| {
        let start = passed / sum;
        passed += weight;
        // Rounding must leave no gap at the end.
        let is_last = index + 1 == weights.len();
        let end = if is_last { 1.0 } else { passed / sum };
        Alternative {
            first,
            share: start..end,
        }
    })
}

/// What a group of alternatives extracts.
#[derive(Default)]
pub(crate) struct Extracted {
    /// By each of them so far; `None` before the first.
    always: Option<BTreeSet<String>>,
}

impl Extracted {
    /// One more alternative, with the names that it extracts.
    pub(crate) fn add<'n>(&mut self, names: impl Iterator<Item = &'n String>) {
        let names: BTreeSet<String> = names.cloned().collect();
        self.always = Some(match self.always.take() {
            Some(always) => always.intersection(&names).cloned().collect(),
            None => names,
        });
    }

    /// What each has extracted, so that it is there whichever was sent.
    pub(crate) fn by_all(self) -> BTreeSet<String> {
        self.always.unwrap_or_default()
    }
}
