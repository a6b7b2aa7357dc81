//! What a service counts of itself, by name: counters that only grow, such as faults that load
//! makes and no client sees (a session used on another thread, a queue without a bound).
//!
//! They are counted and not timed, so a block's number is exact; but how many requests met the fault
//! is chance, so that there are fewer of them is tested like everything else, pair by pair.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::Block;
use crate::signflip::{SignFlips, TestCell};
use crate::validate::{saturating_sum, total};
use crate::wording;

/// What became of one counter.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceCounter {
    /// As the service calls it.
    pub name: String,
    /// Counted in all used blocks of the first arm.
    pub before: u64,
    /// The same in the second arm.
    pub after: u64,
    /// p of "no more per request than before", one-sided and valid for all counters together;
    /// `None` where there are no pairs to test.
    pub p_rise: Option<f64>,
    /// p of "no less per request than before".
    pub p_fall: Option<f64>,
}

/// All counters of both arms; `None` where a block's monitor tells none.
///
/// `seed` is that of the flips; `paired` says that the n-th block of one arm belongs to the n-th of
/// the other.
pub(crate) fn compared(
    before: &[&Block],
    after: &[&Block],
    seed: u64,
    paired: bool,
) -> Option<Vec<ServiceCounter>> {
    let all = || before.iter().chain(after).copied();
    if before.is_empty() || after.is_empty() || all().any(|of| of.service_counters.is_none()) {
        return None;
    }
    let names: BTreeSet<&String> = all()
        .filter_map(|block| block.service_counters.as_ref())
        .flat_map(BTreeMap::keys)
        .collect();
    let pairs: BTreeSet<u32> = before.iter().map(|block| block.pair).collect();
    let flips = (paired && !names.is_empty()).then(|| SignFlips::new(pairs.len(), seed));
    let p_more = |first: &[&Block], second: &[&Block]| -> Vec<Option<f64>> {
        let cell = |name: &&String| TestCell {
            differences: differences(&pairs, first, second, name),
            standard_error_min: 0.0,
        };
        match &flips {
            Some(flips) => {
                let cells: Vec<TestCell> = names.iter().map(cell).collect();
                flips.test(&cells).into_iter().map(Some).collect()
            }
            None => vec![None; names.len()],
        }
    };
    let tests = p_more(before, after).into_iter().zip(p_more(after, before));
    let counters = names.iter().zip(tests).map(|(name, (p_rise, p_fall))| {
        let sum = |blocks: &[&Block]| saturating_sum(blocks.iter().map(|of| counted(of, name)));
        ServiceCounter {
            name: (*name).clone(),
            before: sum(before),
            after: sum(after),
            p_rise,
            p_fall,
        }
    });
    Some(counters.collect())
}

/// A counter that nobody has touched is at 0.
fn counted(block: &Block, name: &str) -> u64 {
    let counters = block.service_counters.as_ref();
    counters.and_then(|of| of.get(name)).copied().unwrap_or(0)
}

/// Per pair, over its levels: what `second` counted per request, less what `first` did.
fn differences(pairs: &BTreeSet<u32>, first: &[&Block], second: &[&Block], name: &str) -> Vec<f64> {
    let per_request = |blocks: &[&Block], pair: u32| {
        let of_pair = || blocks.iter().filter(|block| block.pair == pair);
        let ended =
            saturating_sum(of_pair().map(|of| of.completed.saturating_add(total(&of.errors))));
        let count = saturating_sum(of_pair().map(|of| counted(of, name)));
        count as f64 / ended.max(1) as f64
    };
    let pairs = pairs.iter();
    pairs
        .map(|pair| per_request(second, *pair) - per_request(first, *pair))
        .collect()
}

impl ServiceCounter {
    /// Significantly more per request than before.
    pub(crate) fn has_risen(&self, alpha: f64) -> bool {
        self.p_rise.is_some_and(|p| p <= alpha)
    }

    /// Significantly less per request than before.
    pub(crate) fn has_fallen(&self, alpha: f64) -> bool {
        self.p_fall.is_some_and(|p| p <= alpha)
    }

    /// `sessions_used_on_other_threads 1 204 → 0`.
    pub(crate) fn phrase(&self) -> String {
        let (before, after) = (wording::count(self.before), wording::count(self.after));
        format!("{} {before} → {after}", self.name)
    }
}
