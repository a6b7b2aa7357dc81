//! Whose holds of the event loop kept whose requests waiting, summed over the valid blocks of each
//! arm. Shown, and not judged.

use std::collections::{BTreeMap, HashMap};

use crate::record::{Blame, RunRecord, Stalls, UnderWay};

/// What was seen of one arm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlamedArm {
    /// Key of [`RunRecord::arms`].
    pub arm: String,
    /// Blocks behind it.
    pub blocks: u64,
    /// The sums; pairs in the order of their time, and no course over seconds. Loops are the most
    /// that a block had.
    pub sum: Stalls,
}

impl BlamedArm {
    /// How long a pair overlapped per 1 000 requests of the victim, ms (numerically µs per
    /// request); `None` where the victim has no request whose times are known.
    #[must_use]
    pub fn ms_per_1000(&self, overlapped_us: u64, victim: &str) -> Option<f64> {
        let victim = self.sum.victims.get(victim)?;
        (victim.requests > 0).then(|| overlapped_us as f64 / victim.requests as f64)
    }

    /// The same as a share of the time for which the victim's requests were under way.
    #[must_use]
    pub fn share(&self, overlapped_us: u64, victim: &str) -> Option<f64> {
        let victim = self.sum.victims.get(victim)?;
        (victim.under_way_us > 0).then(|| overlapped_us as f64 / victim.under_way_us as f64)
    }

    /// Culprit and victim → for how long, whatever the line.
    #[must_use]
    pub fn pairs(&self) -> BTreeMap<(&str, &str), u64> {
        let mut pairs = BTreeMap::new();
        for blame in &self.sum.blame {
            let sum: &mut u64 = pairs.entry((&*blame.culprit, &*blame.victim)).or_default();
            *sum = sum.saturating_add(blame.overlapped_us);
        }
        pairs
    }

    /// Whether nobody can have been kept waiting by anybody but whom the pairs name: with several
    /// loops another one may have served the request.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.sum.loops == 1
    }
}

/// What was seen of each arm, before and after in this order; empty where no monitor told stalls.
pub fn blamed(record: &RunRecord) -> Vec<BlamedArm> {
    let mut arms: BTreeMap<(bool, &str), (BlamedArm, Places<'_>)> = BTreeMap::new();
    for block in record.blocks.iter().filter(|block| block.validity.ok) {
        let Some(stalls) = &block.stalls else {
            continue;
        };
        let (arm, places) = arms
            .entry((block.arm != "before", block.arm.as_str()))
            .or_insert_with(|| {
                let arm = BlamedArm {
                    arm: block.arm.clone(),
                    blocks: 0,
                    sum: Stalls {
                        threshold_us: stalls.threshold_us,
                        ..Stalls::default()
                    },
                };
                (arm, Places::default())
            });
        arm.blocks += 1;
        add(&mut arm.sum, places, stalls);
    }
    let mut arms: Vec<BlamedArm> = arms.into_values().map(|(arm, _)| arm).collect();
    for arm in &mut arms {
        let by_time = |blame: &Blame| std::cmp::Reverse(blame.overlapped_us);
        arm.sum.blame.sort_by_key(by_time);
    }
    arms
}

/// Where each culprit, line and victim of an arm is in its sum.
type Places<'r> = HashMap<(&'r str, Option<&'r str>, &'r str), usize>;

fn add<'r>(sum: &mut Stalls, places: &mut Places<'r>, block: &'r Stalls) {
    sum.loops = sum.loops.max(block.loops);
    sum.threshold_us = sum.threshold_us.max(block.threshold_us);
    sum.known_from_us = sum.known_from_us.max(block.known_from_us);
    for (to, value) in [
        (&mut sum.placed, block.placed),
        (&mut sum.unplaced, block.unplaced),
        (&mut sum.blame_others_us, block.blame_others_us),
        (&mut sum.requests_untold, block.requests_untold),
    ] {
        *to = to.saturating_add(value);
    }
    for (name, victim) in &block.victims {
        let UnderWay {
            requests,
            under_way_us,
        } = sum.victims.entry(name.clone()).or_default();
        *requests = requests.saturating_add(victim.requests);
        *under_way_us = under_way_us.saturating_add(victim.under_way_us);
    }
    for blame in &block.blame {
        let key = (
            blame.culprit.as_str(),
            blame.line.as_deref(),
            blame.victim.as_str(),
        );
        let place = *places.entry(key).or_insert(sum.blame.len());
        match sum.blame.get_mut(place) {
            Some(known) => {
                known.requests = known.requests.saturating_add(blame.requests);
                known.overlapped_us = known.overlapped_us.saturating_add(blame.overlapped_us);
            }
            None => sum.blame.push(blame.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{self, EndpointSpec};

    fn record() -> RunRecord {
        let blocking = |name, p50_ms| EndpointSpec {
            blocked_before_ms: 4_000.0,
            blocked_after_ms: 2_000.0,
            ..EndpointSpec::new(name, p50_ms)
        };
        let endpoints = [blocking("GET usage", 10.0), blocking("POST message", 20.0)];
        let mut record = synthetic::record(1, 5, 40, &endpoints);
        synthetic::add_stalls(&mut record);
        record
    }

    #[test]
    fn sums_are_those_of_the_valid_blocks_and_the_longest_comes_first() {
        let mut record = record();
        let arms = blamed(&record);
        let names: Vec<&str> = arms.iter().map(|arm| arm.arm.as_str()).collect();
        assert_eq!(names, ["before", "after"]);
        let before = &arms[0];
        let blocks = record.blocks.iter().filter(|block| block.arm == "before");
        let stalls: Vec<&Stalls> = blocks.filter_map(|block| block.stalls.as_ref()).collect();
        assert_eq!(before.blocks, 5);
        let placed: u64 = stalls.iter().map(|stalls| stalls.placed).sum();
        assert_eq!(before.sum.placed, placed);
        let overlapped =
            |stalls: &Stalls| -> u64 { stalls.blame.iter().map(|blame| blame.overlapped_us).sum() };
        let all: u64 = stalls.iter().map(|stalls| overlapped(stalls)).sum();
        assert!(all > 0);
        assert_eq!(overlapped(&before.sum), all);
        let in_pairs: u64 = before.pairs().values().sum();
        assert_eq!(in_pairs, all);
        let by_time = |blame: &Blame| std::cmp::Reverse(blame.overlapped_us);
        assert!(before.sum.blame.is_sorted_by_key(by_time));
        assert!(before.sum.blame.len() <= stalls[0].blame.len());
        for block in &mut record.blocks {
            block.validity.ok = false;
        }
        assert!(blamed(&record).is_empty());
    }

    #[test]
    fn a_rate_is_one_of_the_victim_s_requests() {
        let arms = blamed(&record());
        let before = &arms[0];
        let victim = &before.sum.victims["POST message"];
        let us = 3 * victim.requests;
        assert_eq!(before.ms_per_1000(us, "POST message"), Some(3.0));
        assert_eq!(
            before.share(victim.under_way_us / 2, "POST message"),
            Some(0.5)
        );
        assert_eq!(before.ms_per_1000(us, "nobody"), None);
        assert_eq!(before.share(us, "nobody"), None);
        assert!(before.is_certain());
    }

    #[test]
    fn counts_from_anywhere_do_not_overflow() {
        let mut record = record();
        for block in &mut record.blocks {
            if let Some(stalls) = &mut block.stalls {
                stalls.placed = u64::MAX;
                for blame in &mut stalls.blame {
                    blame.overlapped_us = u64::MAX;
                }
            }
        }
        let arms = blamed(&record);
        assert_eq!(arms[0].sum.placed, u64::MAX);
        assert_eq!(arms[0].sum.blame[0].overlapped_us, u64::MAX);
    }
}
