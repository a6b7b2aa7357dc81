//! Two arms of a record of three, as a record of two: everything that compares, judges and shows
//! two versions does the same with these.
//!
//! A step of a migration is measured in triples: the migration's start, the version before the
//! step and the one after it. A triple counts only if each of its arms has a valid block at every
//! level, so that all contrasts of one record stand on the same blocks.

use std::collections::{BTreeMap, BTreeSet};

use crate::design::ArmName;
use crate::pairing::is_unfinished;
use crate::record::{Block, Contrast, RunRecord};

/// Why a record has no such contrast.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContrastError {
    /// An arm isn't there.
    #[error(
        "record {label:?} has no arm {arm:?}, it has {arms:?}; the start of a migration is measured \
         beside its steps by `unstall replay`"
    )]
    NoArm {
        /// The record's label.
        label: String,
        /// What was asked for.
        arm: &'static str,
        /// What there is.
        arms: Vec<String>,
    },
    /// An arm against itself.
    #[error("{arm:?} is no contrast to itself; name two arms")]
    Same {
        /// The arm.
        arm: &'static str,
    },
}

impl RunRecord {
    /// True of a record that holds the start of a migration beside the two versions of a step.
    pub fn has_start(&self) -> bool {
        self.arms.contains_key(ArmName::Start.as_str()) && self.arms.len() > 2
    }

    /// The record of two of its arms, which are called `before` and `after` in it: as if the third
    /// had never been measured, except that a triple without a valid block of the third is left
    /// out, too. Of a record with just these two arms it is a copy.
    ///
    /// # Errors
    /// [`ContrastError`] where an arm is missing, or both are the same.
    pub fn contrast(&self, from: ArmName, to: ArmName) -> Result<Self, ContrastError> {
        if from == to {
            return Err(ContrastError::Same { arm: from.as_str() });
        }
        let arm = |name: ArmName| {
            let found = self.arms.get(name.as_str()).cloned();
            found.ok_or_else(|| ContrastError::NoArm {
                label: self.label.clone(),
                arm: name.as_str(),
                arms: self.arms.keys().cloned().collect(),
            })
        };
        let (before, after) = (arm(from)?, arm(to)?);
        if self.arms.len() < 3 && from == ArmName::Before {
            return Ok(self.clone());
        }
        let triples = Triples::of(self);
        let mut blocks = Vec::new();
        for block in &self.blocks {
            let Some(name) = new_name(&block.arm, from, to) else {
                continue;
            };
            if !triples.shows(block) {
                continue;
            }
            let mut kept = block.clone();
            kept.position = self.turn(block, from, to);
            name.as_str().clone_into(&mut kept.arm);
            blocks.push(kept);
        }
        let shown: BTreeSet<u32> = blocks.iter().map(|block| block.pair).collect();
        let left_out = triples.begun.difference(&shown).count();
        let label = if (from, to) == (ArmName::Before, ArmName::After) {
            self.label.clone()
        } else {
            format!("{}, {} → {}", self.label, from.as_str(), to.as_str())
        };
        let arms = [(ArmName::Before, before), (ArmName::After, after)];
        Ok(Self {
            label,
            arms: arms
                .map(|(name, arm)| (name.as_str().to_owned(), arm))
                .into(),
            blocks,
            contrast: Some(Contrast {
                from: from.as_str().to_owned(),
                to: to.as_str().to_owned(),
                // At most as many as there are blocks.
                triples_left_out: left_out as u32,
            }),
            ..self.without_blocks()
        })
    }

    /// Everything but the blocks, which are the bulk.
    fn without_blocks(&self) -> Self {
        Self {
            schema: self.schema.clone(),
            id: self.id.clone(),
            label: self.label.clone(),
            created_utc: self.created_utc.clone(),
            harness: self.harness.clone(),
            machine: self.machine.clone(),
            floor: self.floor.clone(),
            scenario: self.scenario.clone(),
            load: self.load.clone(),
            step: self.step.clone(),
            arms: BTreeMap::new(),
            blocks: Vec::new(),
            interrupted: self.interrupted,
            merged: self.merged.clone(),
            contrast: None,
        }
    }

    /// Which of the two arms' blocks came first in the triple, 0, and which second, 1.
    fn turn(&self, block: &Block, from: ArmName, to: ArmName) -> u32 {
        let is_before_it = self.blocks.iter().any(|other| {
            (other.pair, other.level) == (block.pair, block.level)
                && new_name(&other.arm, from, to).is_some()
                && other.position < block.position
        });
        u32::from(is_before_it)
    }
}

/// What an arm is called in the contrast; `None` of the third.
fn new_name(arm: &str, from: ArmName, to: ArmName) -> Option<ArmName> {
    match arm {
        _ if arm == from.as_str() => Some(ArmName::Before),
        _ if arm == to.as_str() => Some(ArmName::After),
        _ => None,
    }
}

/// Which triples count.
struct Triples<'a> {
    begun: BTreeSet<u32>,
    /// Each has a valid block of each arm at every level.
    complete: BTreeSet<u32>,
    /// Triple, level and arm of each valid block.
    valid: BTreeSet<(u32, u32, &'a str)>,
}

impl<'a> Triples<'a> {
    fn of(record: &'a RunRecord) -> Self {
        let blocks = record.blocks.iter();
        let usable = blocks.filter(|of| of.validity.ok && !is_unfinished(record, of));
        let valid: BTreeSet<(u32, u32, &str)> = usable
            .map(|block| (block.pair, block.level, block.arm.as_str()))
            .collect();
        let begun: BTreeSet<u32> = record.blocks.iter().map(|block| block.pair).collect();
        let mut levels: BTreeSet<u32> = record.load.levels.iter().copied().collect();
        levels.extend(record.blocks.iter().map(|block| block.level));
        let is_whole = |triple: &u32| {
            let has = |level, arm: &'a String| valid.contains(&(*triple, level, arm.as_str()));
            let mut levels = levels.iter();
            levels.all(|level| record.arms.keys().all(|arm| has(*level, arm)))
        };
        Self {
            complete: begun.iter().copied().filter(is_whole).collect(),
            begun,
            valid,
        }
    }

    /// Of a triple that doesn't count, only what was invalid and never made good: that is a fault
    /// of this contrast. The rest of it would look like a pair.
    fn shows(&self, block: &Block) -> bool {
        let key = (block.pair, block.level, block.arm.as_str());
        let is_fault = !block.validity.ok && !self.valid.contains(&key);
        self.complete.contains(&block.pair) || is_fault
    }
}
