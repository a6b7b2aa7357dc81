//! Which blocks belong together, and which may not be used.

use std::collections::{BTreeMap, BTreeSet};

use crate::design::ArmName;
use crate::level::{self, Level};
use crate::looks::Standing;
use crate::policy::{GENERATOR_LAG_P99_US_MAX, Policy, STEAL_SHARE_MAX};
use crate::record::{Block, EndpointSamples, RunRecord, SCHEMA_MINOR};
use crate::validate::total;
use crate::wording;

/// The two blocks of one pair at one level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub(crate) before: &'a Block,
    pub(crate) after: &'a Block,
}

/// A record's blocks, paired.
#[derive(Debug)]
pub(crate) struct Pairing<'a> {
    /// Level → its pairs, the same pairs in the same order at each level.
    pub(crate) levels: BTreeMap<u32, Vec<Pair<'a>>>,
    /// How many pairs each level has.
    pub(crate) pairs: usize,
    /// At which look, and so at which level of significance.
    pub(crate) standing: Standing,
    /// Faults of our own, with what to do.
    pub(crate) faults: Vec<String>,
    /// What a reader must know and the verdict need not.
    pub(crate) warnings: Vec<String>,
}

impl<'a> Pairing<'a> {
    /// Pairs the blocks of a record with two arms. A pair counts only if both
    /// arms have a valid block at every level, since the test flips whole pairs.
    pub(crate) fn of(record: &'a RunRecord, policy: &Policy) -> Self {
        let mut usable: BTreeMap<(u32, u32), [Option<&Block>; 2]> = BTreeMap::new();
        // A level that was planned and never reached leaves no pair complete.
        let mut levels: BTreeSet<u32> = record.load.levels.iter().copied().collect();
        let mut pairs = BTreeSet::new();
        for block in &record.blocks {
            levels.insert(block.level);
            pairs.insert(block.pair);
            if is_unfinished(record, block) {
                continue;
            }
            let arm = usize::from(block.arm == ArmName::After.as_str());
            if block.validity.ok {
                usable.entry((block.pair, block.level)).or_default()[arm] = Some(block);
            }
        }
        let mut complete: Vec<u32> = pairs
            .iter()
            .copied()
            .filter(|pair| {
                levels
                    .iter()
                    .all(|level| matches!(usable.get(&(*pair, *level)), Some([Some(_), Some(_)])))
            })
            .collect();
        let all = complete.len();
        let standing = Standing::of(&record.load.looks, all, policy.alpha);
        complete.truncate(standing.pairs);
        let unmended = record.blocks.iter().filter(|block| {
            let arm = usize::from(block.arm == ArmName::After.as_str());
            let arms = usable.get(&(block.pair, block.level));
            !block.validity.ok && arms.is_none_or(|arms| arms[arm].is_none())
        });
        let (tail, unmended): (Vec<&Block>, Vec<&Block>) =
            unmended.partition(|block| is_tail(record, block.pair, &complete, &standing));
        let faults = unmended.into_iter().map(invalid_block).collect();
        let mut pairing = Pairing {
            levels: BTreeMap::new(),
            pairs: complete.len(),
            standing,
            faults,
            warnings: tail.into_iter().map(untried_again).collect(),
        };
        for level in levels {
            let matched = complete
                .iter()
                .filter_map(|pair| match usable.get(&(*pair, level)) {
                    Some([Some(before), Some(after)]) => Some(Pair { before, after }),
                    _ => None,
                });
            pairing.levels.insert(level, matched.collect());
        }
        let used = pairing.levels.values().flatten();
        let used: Vec<&Block> = used.flat_map(|pair| [pair.before, pair.after]).collect();
        for block in used {
            pairing
                .faults
                .extend(faults_of(block, &record.load.model, policy));
        }
        pairing.warn(record, pairs.len(), all);
        pairing
    }

    fn warn(&mut self, record: &RunRecord, begun: usize, complete: usize) {
        if record.interrupted {
            self.warnings.push(format!(
                "The measurement was stopped early: {complete} of {} planned pairs are complete.",
                record.load.pairs
            ));
        }
        let beyond = complete - self.pairs;
        if beyond > 0 {
            self.warnings.push(format!(
                "{} left out: what came after a look counts only when the next one is reached.",
                wording::plural(beyond as u64, "complete pair")
            ));
        }
        let dropped = begun - complete;
        if dropped > 0 {
            self.warnings.push(format!(
                "{} left out: a block is missing or invalid.",
                wording::plural(dropped as u64, "incomplete pair")
            ));
        }
        if let Some(triples) = record.contrast.as_ref().map(|of| of.triples_left_out)
            && triples > 0
        {
            self.warnings.push(format!(
                "{} left out: a block of one of the three versions is missing or invalid.",
                wording::plural(u64::from(triples), "incomplete triple")
            ));
        }
        self.warnings.extend(format_warning(record));
        let blocks = || record.blocks.iter();
        let monitored = blocks().filter(|block| block.monitor.is_some()).count();
        if monitored > 0 && monitored < record.blocks.len() {
            self.warnings.push(format!(
                "The service's monitor answered in {monitored} of {} blocks only; blocked time is \
                 compared where both arms have it in every pair.",
                record.blocks.len()
            ));
        }
    }
}

/// Said when a newer version wrote the record.
pub(crate) fn format_warning(record: &RunRecord) -> Option<String> {
    (record.schema.minor > SCHEMA_MINOR).then(|| {
        format!(
            "Written by a newer version (format {}.{}); fields that this one does not know were ignored.",
            record.schema.major, record.schema.minor
        )
    })
}

/// True for the block during which a measurement was stopped. A block that ended
/// early by itself, because the service died, is evidence and stays.
pub(crate) fn is_unfinished(record: &RunRecord, block: &Block) -> bool {
    let is_last = record
        .blocks
        .last()
        .is_some_and(|last| std::ptr::eq(last, block));
    let endpoints = record.scenario.endpoints.iter();
    // The shares of alternatives add up to 1: one of them is sent in each iteration.
    let per_iteration: f64 = endpoints
        .map(|endpoint| endpoint.share.unwrap_or(1.0))
        .sum();
    let per_iteration = per_iteration.round() as u64;
    let planned = record
        .load
        .requests_per_endpoint
        .saturating_mul(per_iteration);
    let ended = block.completed.saturating_add(total(&block.errors));
    // A contrast has left it out already.
    record.interrupted && record.contrast.is_none() && is_last && ended < planned
}

/// True of a pair in which a stopped session had no time to try an invalid block once more, and of what
/// came after a look: that changes nothing about what was whole before.
fn is_tail(record: &RunRecord, pair: u32, used: &[u32], standing: &Standing) -> bool {
    let last_begun = record.blocks.iter().map(|block| block.pair).max();
    let looks = standing.looks.as_ref();
    let is_after_look = looks.is_some_and(|looks| looks.reached.is_some());
    record.interrupted
        && used.last().is_none_or(|last| pair > *last)
        && (is_after_look || last_begun == Some(pair))
}

fn untried_again(block: &Block) -> String {
    format!(
        "{}. The session ended before that counted.",
        invalid_block(block)
    )
}

/// Pairs are counted from 1 for people, as everywhere in reports.
fn name(block: &Block) -> String {
    let pair = u64::from(block.pair) + 1;
    // Only an open load has an account of its arrivals.
    let level = match block.open {
        Some(_) => Level::MilliRate(block.level),
        None => Level::Users(block.level),
    };
    format!("Pair {pair}, {}, {level}", block.arm)
}

fn invalid_block(block: &Block) -> String {
    let reasons = if block.validity.reasons.is_empty() {
        "no reason was recorded; measure again".to_owned()
    } else {
        block.validity.reasons.join("; ")
    };
    format!("{}: {reasons}", name(block))
}

/// Faults of our own that a block's numbers show. An invalid block is measured
/// once more by the harness; here it can only be refused.
pub(crate) fn faults_of(block: &Block, model: &str, policy: &Policy) -> Vec<String> {
    let mut faults = Vec::new();
    let local = block
        .local_faults
        .values()
        .fold(0, |sum: u64, n| sum.saturating_add(*n));
    if local > 0 {
        faults.push(format!(
            "{}: {} of this machine's own, not the service's; raise the limits (ulimit -n, \
             ephemeral ports) or lower the concurrency",
            name(block),
            wording::plural(local, "local fault")
        ));
    }
    if let Some(steal) = block.steal_share.filter(|share| *share > STEAL_SHARE_MAX) {
        faults.push(format!(
            "{}: {} % of CPU time was stolen by the hypervisor; measure again on a quieter machine",
            name(block),
            wording::number(steal * 100.0)
        ));
    }
    let lag = block.generator_lag.quantile_us(0.99);
    if let Some(lag_us) = lag.filter(|us| *us > lag_limit_us(block, model, policy)) {
        faults.push(format!(
            "{}: the load generator was late (p99 {} ms); close other programs, or lower the \
             concurrency",
            name(block),
            wording::number(lag_us as f64 / 1_000.0)
        ));
    }
    faults
}

/// Open model: see [`open_lag_limit_us`]. Closed: a constant.
fn lag_limit_us(block: &Block, model: &str, policy: &Policy) -> u64 {
    if model == level::OPEN {
        open_lag_limit_us(&block.endpoints, policy)
    } else {
        GENERATOR_LAG_P99_US_MAX
    }
}

/// The p99 of its own lateness, in µs, from which on the numbers of an open block mustn't be used:
/// half the p50 margin of an endpoint's median, of the endpoint where that is least; 0.5 ms at least.
pub fn open_lag_limit_us(endpoints: &BTreeMap<String, EndpointSamples>, policy: &Policy) -> u64 {
    const LEAST_US: f64 = 500.0;
    let metric = crate::comparison::Metric::ResponseP50;
    let half_margins = endpoints.iter().filter_map(|(name, samples)| {
        let median_us = samples.response.quantile_us(0.5)? as f64;
        Some(median_us * policy.margin(Some(name), metric).regression / 2.0)
    });
    let smallest_us = half_margins.fold(f64::INFINITY, f64::min);
    // Without a median there is nothing to be late for.
    let limit_us = if smallest_us.is_finite() {
        smallest_us
    } else {
        0.0
    };
    limit_us.max(LEAST_US) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::LocalFault;
    use crate::synthetic::{EndpointSpec, record};

    fn measured() -> RunRecord {
        record(1, 6, 50, &[EndpointSpec::new("GET a", 10.0)])
    }

    #[test]
    fn complete_pairs_are_paired_in_order() {
        let record = measured();
        let pairing = Pairing::of(&record, &Policy::default());
        assert_eq!((pairing.pairs, pairing.faults.len()), (6, 0));
        for (index, pair) in pairing.levels[&20].iter().enumerate() {
            assert_eq!(pair.before.pair as usize, index);
            assert_eq!(
                (pair.before.arm.as_str(), pair.after.arm.as_str()),
                ("before", "after")
            );
        }
    }

    #[test]
    fn a_block_that_was_redone_is_forgotten() {
        let mut record = measured();
        let mut redone = record.blocks[3].clone();
        record.blocks[3].validity.ok = false;
        record.blocks[3].validity.reasons = vec!["late; close other programs".to_owned()];
        let faulty = Pairing::of(&record, &Policy::default());
        assert_eq!(faulty.pairs, 5);
        assert!(
            faulty.faults[0].contains("late; close other programs"),
            "{:?}",
            faulty.faults
        );
        redone.validity.ok = true;
        record.blocks.push(redone);
        let mended = Pairing::of(&record, &Policy::default());
        assert_eq!((mended.pairs, mended.faults.len()), (6, 0));
    }

    #[test]
    fn what_was_not_tried_again_spoils_nothing_before_it() {
        let mut record = measured();
        for index in [10, 11] {
            record.blocks[index].validity.ok = false;
            record.blocks[index].validity.reasons = vec!["late".to_owned()];
        }
        let whole = Pairing::of(&record, &Policy::default());
        assert_eq!((whole.pairs, whole.faults.len()), (5, 2));
        record.interrupted = true;
        let stopped = Pairing::of(&record, &Policy::default());
        assert_eq!((stopped.pairs, stopped.faults.len()), (5, 0));
        assert!(stopped.warnings[0].contains("late. The session ended"));
        // One before the last pair was tried again, and has its say.
        record.blocks[6].validity.ok = false;
        let earlier = Pairing::of(&record, &Policy::default());
        assert_eq!((earlier.pairs, earlier.faults.len()), (4, 1));
    }

    #[test]
    fn a_planned_level_that_was_never_reached_leaves_no_pair() {
        let mut record = measured();
        record.load.levels.push(50);
        assert_eq!(Pairing::of(&record, &Policy::default()).pairs, 0);
    }

    #[test]
    fn alternatives_share_the_iterations_of_a_block() {
        let two = [
            EndpointSpec::new("GET a", 10.0),
            EndpointSpec::new("GET b", 10.0),
        ];
        let mut record = record(1, 6, 50, &two);
        record.interrupted = true;
        // Of 100 iterations, 50 have sent each: the last block is whole.
        record.load.requests_per_endpoint *= 2;
        assert_eq!(Pairing::of(&record, &Policy::default()).pairs, 5);
        for endpoint in &mut record.scenario.endpoints {
            endpoint.share = Some(0.5);
        }
        assert_eq!(Pairing::of(&record, &Policy::default()).pairs, 6);
    }

    #[test]
    fn the_block_that_was_cut_off_is_left_out() {
        let mut record = measured();
        record.interrupted = true;
        assert_eq!(Pairing::of(&record, &Policy::default()).pairs, 6);
        let last = record.blocks.last_mut().unwrap();
        last.completed -= 1;
        assert_eq!(Pairing::of(&record, &Policy::default()).pairs, 5);
        // Without an interruption it is the service that ended early.
        record.interrupted = false;
        assert_eq!(Pairing::of(&record, &Policy::default()).pairs, 6);
    }

    #[test]
    fn faults_of_our_own_are_told_with_what_to_do() {
        let mut record = measured();
        record.blocks[0].steal_share = Some(0.08);
        record.blocks[1].local_faults.insert(LocalFault::NoPorts, 2);
        for _ in 0..5 {
            record.blocks[2].generator_lag.record_us(7_000);
        }
        record.blocks.truncate(11);
        record.interrupted = true;
        let pairing = Pairing::of(&record, &Policy::default());
        insta::assert_snapshot!([pairing.faults, pairing.warnings].concat().join("\n"));
    }

    #[test]
    fn an_open_model_is_held_to_its_own_median() {
        let mut record = measured();
        let block = &mut record.blocks[0];
        for _ in 0..5 {
            block.generator_lag.record_us(1_000);
        }
        assert_eq!(faults_of(block, "closed", &Policy::default()).len(), 0);
        assert_eq!(faults_of(block, "open", &Policy::default()).len(), 1);
    }
}
