//! Where the event loops' time went, and what kept them, as a watch from outside saw it: summed
//! over the valid blocks of each arm. Shown, and not judged.

use std::collections::BTreeMap;

use crate::record::{Block, RunRecord, Watched, WatchedCause};

/// What was seen of one arm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedArm {
    /// Key of [`RunRecord::arms`].
    pub arm: String,
    /// Blocks behind it.
    pub blocks: u64,
    /// Requests that ended meanwhile, failures included.
    pub requests: u64,
    /// The sums; causes in the order of their time.
    pub sum: Watched,
}

impl WatchedArm {
    /// All the time of its loops, µs.
    #[must_use]
    pub fn watched_us(&self) -> u64 {
        let sum = &self.sum;
        [
            sum.idle_us,
            sum.running_us,
            sum.runqueue_us,
            sum.gil_us,
            sum.blocked_us,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }

    /// A part of it, 0 to 1; `None` where nothing was watched.
    #[must_use]
    pub fn share(&self, part_us: u64) -> Option<f64> {
        let watched_us = self.watched_us();
        (watched_us > 0).then(|| part_us as f64 / watched_us as f64)
    }
}

/// What was seen of each arm, before and after in this order; empty without a watch.
pub fn watched(record: &RunRecord) -> Vec<WatchedArm> {
    let mut arms: BTreeMap<(bool, &str), WatchedArm> = BTreeMap::new();
    for block in record.blocks.iter().filter(|block| block.validity.ok) {
        let Some(watch) = &block.watch else { continue };
        let arm = arms
            .entry((block.arm != "before", block.arm.as_str()))
            .or_insert_with(|| WatchedArm {
                arm: block.arm.clone(),
                blocks: 0,
                requests: 0,
                sum: Watched {
                    runtime: watch.runtime.clone(),
                    sleeps_by: watch.sleeps_by.clone(),
                    ..Watched::default()
                },
            });
        arm.blocks += 1;
        arm.requests = arm.requests.saturating_add(ended(block));
        add(&mut arm.sum, watch);
    }
    let mut arms: Vec<WatchedArm> = arms.into_values().collect();
    for arm in &mut arms {
        let by_time = |cause: &WatchedCause| std::cmp::Reverse(cause.total_us);
        arm.sum.causes.sort_by_key(by_time);
    }
    arms
}

fn ended(block: &Block) -> u64 {
    let errors = block.errors.values().copied();
    errors.fold(block.completed, u64::saturating_add)
}

fn add(sum: &mut Watched, block: &Watched) {
    let plus = |to: &mut u64, value: u64| *to = to.saturating_add(value);
    sum.loops = sum.loops.max(block.loops);
    plus(&mut sum.idle_us, block.idle_us);
    plus(&mut sum.running_us, block.running_us);
    plus(&mut sum.runqueue_us, block.runqueue_us);
    plus(&mut sum.gil_us, block.gil_us);
    plus(&mut sum.blocked_us, block.blocked_us);
    plus(&mut sum.others_us, block.others_us);
    if sum.sleeps_by != block.sleeps_by {
        // One block whose short sleeps may be missed is enough to doubt the sum.
        "looks".clone_into(&mut sum.sleeps_by);
    }
    for note in &block.notes {
        if !sum.notes.contains(note) {
            sum.notes.push(note.clone());
        }
    }
    for cause in &block.causes {
        match sum.causes.iter_mut().find(|known| same(known, cause)) {
            Some(known) => {
                plus(&mut known.count, cause.count);
                plus(&mut known.total_us, cause.total_us);
                known.longest_us = known.longest_us.max(cause.longest_us);
            }
            None => sum.causes.push(cause.clone()),
        }
    }
}

/// Everything but the numbers. A service that is started afresh has other ports on its own side,
/// never on that of the server it waits for.
fn same(one: &WatchedCause, other: &WatchedCause) -> bool {
    let name = |cause: &WatchedCause| {
        (
            cause.class.clone(),
            cause.syscall.clone(),
            cause.target.clone(),
            cause.endpoint.clone(),
            cause.line.clone(),
        )
    };
    name(one) == name(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{self, EndpointSpec, WatchSpec};

    fn record() -> RunRecord {
        let mut record = synthetic::record(1, 5, 40, &[EndpointSpec::new("GET usage", 10.0)]);
        synthetic::add_watch(&mut record, WatchSpec::default());
        record
    }

    #[test]
    fn parts_add_up_over_blocks_and_causes_are_merged() {
        let record = record();
        let arms = watched(&record);
        let names: Vec<&str> = arms.iter().map(|arm| arm.arm.as_str()).collect();
        assert_eq!(names, ["before", "after"]);
        let before = &arms[0];
        assert_eq!(before.blocks, 5);
        let blocks = record.blocks.iter().filter(|block| block.arm == "before");
        let blocked_us: u64 = blocks
            .filter_map(|block| Some(block.watch.as_ref()?.blocked_us))
            .sum();
        assert_eq!(before.sum.blocked_us, blocked_us);
        let causes = &before.sum.causes;
        assert!(causes.is_sorted_by_key(|cause| std::cmp::Reverse(cause.total_us)));
        let of_blocking = causes.iter().filter(|cause| cause.is_blocking);
        let in_causes: u64 = of_blocking.map(|cause| cause.total_us).sum();
        assert_eq!(in_causes, blocked_us);
        let shares: f64 = [
            before.sum.idle_us,
            before.sum.running_us,
            before.sum.runqueue_us,
            before.sum.gil_us,
            before.sum.blocked_us,
        ]
        .iter()
        .filter_map(|part| before.share(*part))
        .sum();
        assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    }

    #[test]
    fn an_invalid_block_and_a_record_without_a_watch_say_nothing() {
        let mut record = record();
        for block in &mut record.blocks {
            block.validity.ok = false;
        }
        assert!(watched(&record).is_empty());
        let plain = synthetic::record(1, 5, 40, &[EndpointSpec::new("GET usage", 10.0)]);
        assert!(watched(&plain).is_empty());
    }

    #[test]
    fn one_block_that_only_looked_makes_the_sum_doubtful() {
        let mut record = record();
        let watch = record.blocks[0]
            .watch
            .as_mut()
            .expect("every block has one");
        "looks".clone_into(&mut watch.sleeps_by);
        let name = record.blocks[0].arm.clone();
        let arms = watched(&record);
        let arm = arms.iter().find(|arm| arm.arm == name).expect("the arm");
        assert_eq!(arm.sum.sleeps_by, "looks");
    }
}
