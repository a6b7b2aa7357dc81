//! Sessions put together from measured pairs: a machine gives a handful of real ones in the time
//! that people have, and a handful says little about a rate.
//!
//! Each takes as many pairs as were planned, with replacement, and deals the two blocks of a pair to
//! the arms anew, as the design does it: half of the pairs begin with each. So the blocks keep their
//! place within the pair and whatever shook them, and the shipped rule judges the whole.

use std::collections::BTreeMap;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::binomial::share;
use super::certify::count;
use super::noise::Session;
use super::{ResampledSessions, VerdictCounts};
use crate::compare::{CompareError, compare};
use crate::design::{ArmName, balanced_first_arms};
use crate::policy::Policy;
use crate::record::{Block, RunRecord};

/// So that the same records make the same certificate.
const SEED: u64 = 0x5E55_1035;

/// Judges so many; `None` where there is no complete pair to draw, or sessions end at looks, which
/// pairs that were drawn can't do.
pub(super) fn resample(
    sessions: &[Session<'_>],
    policy: &Policy,
    how_many: u32,
) -> Result<Option<ResampledSessions>, CompareError> {
    let pool: Vec<Vec<&Block>> = sessions.iter().flat_map(complete_pairs).collect();
    let first = sessions
        .first()
        .filter(|_| !pool.is_empty() && how_many > 0);
    let Some(first) = first.filter(|session| session.record.load.looks.is_empty()) else {
        return Ok(None);
    };
    let mut shell = first.record.clone();
    shell.blocks.clear();
    shell.interrupted = false;
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let mut counts = VerdictCounts::default();
    for _ in 0..how_many {
        deal(&mut shell, &pool, &mut rng);
        count(&mut counts, compare(&shell, policy)?.verdict);
    }
    let judged = how_many - counts.invalid;
    Ok(Some(ResampledSessions {
        from_pairs: u32::try_from(pool.len()).unwrap_or(u32::MAX),
        counts,
        false_alarms: share(counts.regression, judged),
    }))
}

/// The blocks of each pair of which every level has both, valid ones only. Of a block that was
/// redone the later one counts.
fn complete_pairs<'a>(session: &Session<'a>) -> Vec<Vec<&'a Block>> {
    let record = session.record;
    let mut pairs: BTreeMap<u32, BTreeMap<(u32, u32), &Block>> = BTreeMap::new();
    for block in record.blocks.iter().filter(|block| block.validity.ok) {
        let pair = pairs.entry(block.pair).or_default();
        pair.insert((block.level, block.position), block);
    }
    let whole = record.load.levels.len() * 2;
    let pairs = pairs.into_values().filter(|blocks| blocks.len() == whole);
    pairs.map(|blocks| blocks.into_values().collect()).collect()
}

/// Fills the shell with blocks that are drawn and dealt at random.
fn deal(shell: &mut RunRecord, pool: &[Vec<&Block>], rng: &mut ChaCha8Rng) {
    shell.load.seed = rng.random();
    shell.blocks.clear();
    for (pair, first) in (0..).zip(balanced_first_arms(shell.load.pairs, rng)) {
        let second = match first {
            ArmName::After => ArmName::Before,
            // No session of a calibration has a start.
            ArmName::Before | ArmName::Start => ArmName::After,
        };
        let drawn = &pool[rng.random_range(0..pool.len())];
        shell.blocks.extend(drawn.iter().map(|block| {
            let arm = if block.position == 0 { first } else { second };
            // The seconds of a block are for charts.
            let mut block = Block {
                series: Vec::new(),
                ..(*block).clone()
            };
            arm.as_str().clone_into(&mut block.arm);
            block.pair = pair;
            block
        }));
    }
}
