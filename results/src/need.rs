//! What it would take to settle a comparison that can't tell: pairs, and the minutes that they
//! last.
//!
//! A finished comparison can't be continued: its tests have spent their α. So this is a new
//! measurement, with all of its pairs; who wants to begin with few plans several looks.

use std::collections::BTreeSet;

use crate::comparison::{Cell, Outcome};
use crate::record::{Block, RunRecord};
use crate::slo::{SloFinding, SloOutcome};

/// Beyond this many pairs, "more pairs" is no advice.
pub(crate) const PAIRS_ADVISED_MAX: f64 = 200.0;
/// Standard normal quantile of 80 % power.
pub(crate) const POWER_Z: f64 = 0.841_621;

/// A measurement that would probably settle it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Need {
    /// Its pairs.
    pub(crate) pairs: u32,
    /// How long it would take.
    pub(crate) minutes: Option<f64>,
    /// Index of the cell that needs so many; `None` where an objective does, or nothing was told
    /// by any pairs yet.
    pub(crate) cell: Option<usize>,
}

impl Need {
    /// After `pairs` of which at least `pairs_min` are needed to see anything. `None` where some
    /// judged cell, or objective, would not be settled by any number of pairs, and where there is none that
    /// pairs would settle.
    pub(crate) fn of(
        cells: &[Cell],
        slos: &[SloFinding],
        pairs: u32,
        pairs_min: u32,
        record: &RunRecord,
    ) -> Option<Self> {
        let mut most = (pairs_min, None);
        for (index, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.judged) {
            let Outcome::Inconclusive { pairs_needed } = cell.outcome else {
                continue;
            };
            let needed = pairs_needed?;
            if needed > most.0 {
                most = (needed, Some(index));
            }
        }
        for slo in slos {
            if let SloOutcome::CantTell { pairs_needed, .. } = slo.outcome {
                let needed = pairs_needed?;
                if needed > most.0 {
                    most = (needed, None);
                }
            }
        }
        let (needed, cell) = most;
        (needed > pairs).then(|| Self {
            pairs: needed,
            minutes: minutes_per_pair(record).map(|minutes| minutes * f64::from(needed)),
            cell,
        })
    }
}

/// How long a pair took: its blocks at every level, those that had to be redone, and before
/// each of them what it takes to end one service and to start and warm up another.
///
/// Of the time between blocks it takes the median: of a record that was put together from
/// several sessions, the nights between them are no part of it.
fn minutes_per_pair(record: &RunRecord) -> Option<f64> {
    let pairs: BTreeSet<u32> = record.blocks.iter().map(|block| block.pair).collect();
    let wall_ns: f64 = record.blocks.iter().map(|block| block.wall_ns as f64).sum();
    let between_ns = median_between_ns(&record.blocks) * record.blocks.len() as f64;
    (!pairs.is_empty()).then(|| (wall_ns + between_ns) / 60e9 / pairs.len() as f64)
}

/// From the end of a block to the start of the next.
fn median_between_ns(blocks: &[Block]) -> f64 {
    let mut between: Vec<u64> = blocks
        .windows(2)
        .filter_map(|two| {
            let end_ns = two[0].started_mono_ns.checked_add(two[0].wall_ns)?;
            // Another session may have had another clock.
            two[1].started_mono_ns.checked_sub(end_ns)
        })
        .collect();
    between.sort_unstable();
    between.get(between.len() / 2).map_or(0.0, |ns| *ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EndpointSpec, record};

    /// Blocks of 10 s with 20 s between them.
    fn timed() -> RunRecord {
        let mut record = record(1, 6, 50, &[EndpointSpec::new("GET a", 10.0)]);
        for (index, block) in (0..).zip(&mut record.blocks) {
            block.wall_ns = 10_000_000_000;
            block.started_mono_ns = index * 30_000_000_000;
        }
        record
    }

    #[test]
    fn a_pair_takes_what_comes_between_its_blocks_too() {
        assert_eq!(minutes_per_pair(&timed()), Some(1.0));
    }

    #[test]
    fn blocks_that_were_redone_take_their_time() {
        let mut record = timed();
        let mut redone = record.blocks[11].clone();
        record.blocks[11].validity.ok = false;
        redone.started_mono_ns += 30_000_000_000;
        record.blocks.push(redone);
        assert_eq!(minutes_per_pair(&record), Some(13.0 / 12.0));
    }

    #[test]
    fn nights_between_sessions_are_no_part_of_it() {
        let mut record = timed();
        for block in &mut record.blocks[6..] {
            block.started_mono_ns += 36_000_000_000_000;
        }
        assert_eq!(minutes_per_pair(&record), Some(1.0));
        // Nor does a clock that was set back make it fall.
        record.blocks[11].started_mono_ns = 0;
        assert_eq!(minutes_per_pair(&record), Some(1.0));
        record.blocks.clear();
        assert_eq!(minutes_per_pair(&record), None);
    }
}
