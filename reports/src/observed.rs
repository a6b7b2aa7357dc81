//! What charts and route tables show, summed over the blocks of a record.
//!
//! Blocks that a fault of our own spoilt are left out, as they are from the
//! comparison; a record without a single good block shows all of them, since
//! seeing why is then the point.

use std::collections::{BTreeMap, HashSet};

use unstall_results::histogram::LatencyHistogram;
use unstall_results::level::Level;
use unstall_results::record::{Block, ErrorKind, RunRecord, Second};

use crate::numbers::{self, as_f64};

/// Fewer observations than this beyond a percentile say nothing about it.
const TAIL_OBSERVATIONS_MIN: f64 = 5.0;

/// A sum that stays at the largest number instead of overflowing: a record may
/// come from anywhere.
pub(crate) fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// The arms of a record in reading order: before, after, then any other.
pub(crate) fn arms(record: &RunRecord) -> Vec<&str> {
    let mut arms: Vec<&str> = record.arms.keys().map(String::as_str).collect();
    for block in &record.blocks {
        if !arms.contains(&block.arm.as_str()) {
            arms.push(&block.arm);
        }
    }
    arms.sort_by_key(|arm| match *arm {
        "before" => 0,
        "after" => 1,
        _ => 2,
    });
    arms
}

/// The arms of a record that are not among those that were seen, in reading order.
pub(crate) fn unseen<'r>(record: &'r RunRecord, seen: &[&str]) -> Vec<&'r str> {
    let mut arms = arms(record);
    arms.retain(|arm| !seen.contains(arm));
    arms
}

/// The blocks that count.
pub(crate) fn blocks(record: &RunRecord) -> Vec<&Block> {
    let valid: Vec<&Block> = record
        .blocks
        .iter()
        .filter(|block| block.validity.ok)
        .collect();
    if valid.is_empty() {
        record.blocks.iter().collect()
    } else {
        valid
    }
}

/// Levels that were measured, ascending.
pub(crate) fn levels(record: &RunRecord) -> Vec<Level> {
    let blocks = record.blocks.iter();
    let mut levels: Vec<Level> = blocks
        .map(|block| Level::of(&record.load, block.level))
        .collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

/// Endpoint names: the scenario's order first, then any that only blocks know.
pub(crate) fn endpoints(record: &RunRecord) -> Vec<&str> {
    let mut names: Vec<&str> = record
        .scenario
        .endpoints
        .iter()
        .map(|endpoint| endpoint.name.as_str())
        .collect();
    // Of tens of thousands of names, too.
    let mut known: HashSet<&str> = names.iter().copied().collect();
    for block in &record.blocks {
        for name in block.endpoints.keys() {
            if known.insert(name) {
                names.push(name);
            }
        }
    }
    names
}

/// Times of one kind, over the good blocks of one arm at one level.
#[derive(Debug, Default)]
pub(crate) struct Times<'r> {
    /// Those of all blocks together.
    pub(crate) all: LatencyHistogram,
    /// The same of each block.
    pub(crate) per_block: Vec<&'r LatencyHistogram>,
}

impl Times<'_> {
    /// A percentile for a table: a dash where the sample ends before it.
    pub(crate) fn quantile_text(&self, quantile: f64) -> String {
        quantile_us(&self.all, quantile).map_or_else(|| "–".to_owned(), numbers::ms_from_us)
    }

    /// The largest value for a table.
    pub(crate) fn max_text(&self) -> String {
        self.all
            .max_us()
            .map_or_else(|| "–".to_owned(), numbers::ms_from_us)
    }
}

/// Collects what `of` finds in each good block.
pub(crate) fn times<'r>(
    record: &'r RunRecord,
    arm: &str,
    level: Level,
    of: impl Fn(&'r Block) -> Option<&'r LatencyHistogram>,
) -> Times<'r> {
    let per_block: Vec<&LatencyHistogram> = blocks(record)
        .into_iter()
        .filter(|block| block.arm == arm && block.level == level.key())
        .filter_map(of)
        .collect();
    Times {
        all: LatencyHistogram::sum(per_block.iter().copied()),
        per_block,
    }
}

/// Failures of one endpoint, over the good blocks of one arm at one level.
pub(crate) fn failed(record: &RunRecord, arm: &str, level: Level, endpoint: &str) -> u64 {
    let blocks = blocks(record).into_iter();
    let measured = blocks
        .filter(|block| block.arm == arm && block.level == level.key())
        .filter_map(|block| block.endpoints.get(endpoint));
    total(measured.flat_map(|samples| samples.errors.values().copied()))
}

/// The same of the bystander probe.
pub(crate) fn failed_bystanders(record: &RunRecord, arm: &str, level: Level) -> u64 {
    let blocks = blocks(record).into_iter();
    let measured = blocks
        .filter(|block| block.arm == arm && block.level == level.key())
        .filter_map(|block| block.probe.as_ref());
    total(measured.flat_map(|probe| probe.errors.values().copied()))
}

/// The highest quantile that a sample of this size supports.
pub(crate) fn quantile_max(count: u64) -> Option<f64> {
    let quantile = 1.0 - TAIL_OBSERVATIONS_MIN / as_f64(count);
    (quantile > 0.0).then_some(quantile)
}

/// A percentile in µs, or `None` where the sample ends before it.
pub(crate) fn quantile_us(histogram: &LatencyHistogram, quantile: f64) -> Option<u64> {
    let max = quantile_max(histogram.count())?;
    // The comparison allows for the rounding of 1 − 5/n.
    (quantile <= max + 1e-9)
        .then(|| histogram.quantile_us(quantile))
        .flatten()
}

/// What one route did to the event loop, over the good blocks of one arm.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct RouteLoop {
    /// Requests that reached the service.
    pub(crate) requests: u64,
    /// No monitor counted blocked time in some block: the zeros in its place mean nothing.
    pub(crate) is_blocked_unknown: bool,
    /// Blocked time, all classes.
    pub(crate) blocked_us: u64,
    /// Longest blocked time in one poll.
    pub(crate) blocked_us_max: u64,
    /// Polls with blocked time of at least 200 µs.
    pub(crate) blocks_over_200us: u64,
    /// Wall time inside polls.
    pub(crate) hold_us_sum: u64,
    /// Longest single poll.
    pub(crate) hold_us_max: u64,
    /// CPU inside polls, where the monitor split it.
    pub(crate) cpu_us: u64,
}

impl RouteLoop {
    /// Blocked ms per 1 000 requests; numerically µs per request.
    pub(crate) fn blocked_ms_per_1000(&self) -> Option<f64> {
        (self.requests > 0 && !self.is_blocked_unknown)
            .then(|| as_f64(self.blocked_us) / as_f64(self.requests))
    }

    /// Held ms per 1 000 requests; numerically µs per request.
    pub(crate) fn held_ms_per_1000(&self) -> Option<f64> {
        (self.requests > 0).then(|| as_f64(self.hold_us_sum) / as_f64(self.requests))
    }

    /// CPU µs per request inside polls; `None` where the monitor did not split it.
    pub(crate) fn cpu_us_per_request(&self) -> Option<f64> {
        (self.requests > 0 && self.cpu_us > 0).then(|| as_f64(self.cpu_us) / as_f64(self.requests))
    }
}

/// Route → what it did, for one arm; empty when the service has no monitor.
pub(crate) fn routes<'r>(record: &'r RunRecord, arm: &str) -> BTreeMap<&'r str, RouteLoop> {
    let mut routes: BTreeMap<&str, RouteLoop> = BTreeMap::new();
    for block in blocks(record).into_iter().filter(|block| block.arm == arm) {
        let Some(monitor) = &block.monitor else {
            continue;
        };
        for (route, seen) in &monitor.endpoints {
            let sum = routes.entry(route).or_default();
            sum.requests = sum.requests.saturating_add(seen.requests);
            sum.is_blocked_unknown |= !monitor.measures_blocked();
            sum.blocked_us = sum
                .blocked_us
                .saturating_add(seen.blocked_us.slept)
                .saturating_add(seen.blocked_us.fault);
            sum.blocked_us_max = sum.blocked_us_max.max(seen.blocked_us_max);
            sum.blocks_over_200us = sum.blocks_over_200us.saturating_add(seen.blocks_over_200us);
            sum.hold_us_sum = sum.hold_us_sum.saturating_add(seen.hold_us_sum);
            sum.hold_us_max = sum.hold_us_max.max(seen.hold_us_max);
            sum.cpu_us = sum.cpu_us.saturating_add(seen.cpu_us);
        }
    }
    routes
}

/// Blocked time that no route could be charged with, µs; `None` if no block of the arm had it
/// measured.
pub(crate) fn unattributed_us(record: &RunRecord, arm: &str) -> Option<u64> {
    let mut monitored = blocks(record)
        .into_iter()
        .filter(|block| block.arm == arm)
        .filter_map(|block| block.monitor.as_ref())
        .filter(|monitor| monitor.measures_blocked())
        .peekable();
    monitored.peek()?;
    Some(total(
        monitored.map(|monitor| monitor.unattributed_blocked_us),
    ))
}

/// Failures of a whole record by arm and kind.
pub(crate) fn errors(record: &RunRecord) -> BTreeMap<(&str, ErrorKind), u64> {
    let mut errors = BTreeMap::new();
    for block in blocks(record) {
        for (kind, count) in &block.errors {
            if *count > 0 {
                let sum: &mut u64 = errors.entry((block.arm.as_str(), *kind)).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
    }
    errors
}

/// The median in µs over all endpoints of each block, in run order.
pub(crate) fn block_medians_us(record: &RunRecord) -> Vec<Option<u64>> {
    record
        .blocks
        .iter()
        .map(|block| {
            let endpoints = block.endpoints.values();
            let all = LatencyHistogram::sum(endpoints.map(|endpoint| &endpoint.response));
            quantile_us(&all, 0.5)
        })
        .collect()
}

/// What happened per second, over one second or as a mean of several.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rates {
    /// Intended.
    pub(crate) offered: f64,
    /// Answered as they should be.
    pub(crate) completed: f64,
    /// Failed.
    pub(crate) failed: f64,
}

/// One second since the blocks' begin, of one arm, or several that make one point.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SecondOfArm<'r> {
    /// From 0; the first of several.
    pub(crate) second: u32,
    /// Name of the arm.
    pub(crate) arm: &'r str,
    /// Good blocks that lasted until its end.
    pub(crate) blocks: usize,
    /// Their mean.
    pub(crate) rates: Rates,
    /// The median of their p95, where any had answers.
    pub(crate) p95_us: Option<u64>,
    /// For how long a loop was held, mean of the blocks whose monitor told it.
    pub(crate) held_ms: Option<f64>,
}

/// The seconds that a block lasted for in full: its last one is cut, and would look like a fall.
pub(crate) fn full_seconds(block: &Block) -> impl Iterator<Item = &Second> {
    let full = block.wall_ns / 1_000_000_000;
    let is_full = move |second: &&Second| u64::from(second.second) < full;
    block.series.iter().filter(is_full)
}

/// Points that a chart of seconds has of each arm at most.
const BINS_MAX: u32 = 120;

/// Over how many seconds each point of a chart goes, so that there are no more than [`BINS_MAX`].
pub(crate) fn seconds_per_point(record: &RunRecord, level: Level) -> u32 {
    let of_level = |block: &&Block| block.level == level.key();
    let blocks = blocks(record).into_iter().filter(of_level);
    let last = blocks.filter_map(|block| full_seconds(block).map(|second| second.second).max());
    let seconds = last.max().map_or(0, |last| last.saturating_add(1));
    seconds.div_ceil(BINS_MAX).max(1)
}

/// Every full second of one level, or as many together as a point has, by second and then in the order
/// of the arms.
pub(crate) fn seconds(record: &RunRecord, level: Level) -> Vec<SecondOfArm<'_>> {
    let mut found: BTreeMap<(u32, usize), Vec<(&Block, &Second)>> = BTreeMap::new();
    let arms = arms(record);
    let per_point = seconds_per_point(record, level);
    for block in blocks(record) {
        let arm = arms.iter().position(|arm| *arm == block.arm);
        let (Some(arm), true) = (arm, block.level == level.key()) else {
            continue;
        };
        for second in full_seconds(block) {
            let first = second.second / per_point * per_point;
            let of_blocks = found.entry((first, arm)).or_default();
            of_blocks.push((block, second));
        }
    }
    let of_arm = |((second, arm), of_blocks): ((u32, usize), Vec<(&Block, &Second)>)| {
        let entries = as_f64(u64::try_from(of_blocks.len()).unwrap_or(u64::MAX));
        let mean = |of: fn(&Second) -> u64| {
            as_f64(total(of_blocks.iter().map(|(_, second)| of(second)))) / entries
        };
        // A block's seconds come one after the other.
        let mut blocks: Vec<*const Block> = of_blocks
            .iter()
            .map(|(block, _)| std::ptr::from_ref(*block))
            .collect();
        blocks.dedup();
        SecondOfArm {
            second,
            arm: arms[arm],
            blocks: blocks.len(),
            rates: Rates {
                offered: mean(|second| second.offered),
                completed: mean(|second| second.completed),
                failed: mean(|second| second.errors),
            },
            p95_us: median(of_blocks.iter().filter_map(|(_, second)| second.p95_us)),
            held_ms: held_ms(&of_blocks),
        }
    };
    found.into_iter().map(of_arm).collect()
}

/// The middle one, or the mean of the two in the middle.
fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(lower.midpoint(upper))
}

/// The mean over the seconds of which a block's monitor told its holds.
fn held_ms(seconds: &[(&Block, &Second)]) -> Option<f64> {
    let held_us: Vec<u64> = seconds
        .iter()
        .filter_map(|(block, second)| {
            let stalls = block.stalls.as_ref()?;
            // What isn't known is no zero.
            let is_known = u64::from(second.second) * 1_000_000 >= stalls.known_from_us;
            let place = usize::try_from(second.second).ok().filter(|_| is_known)?;
            stalls.by_second_us.get(place).copied()
        })
        .collect();
    let count = u64::try_from(held_us.len())
        .ok()
        .filter(|count| *count > 0)?;
    Some(as_f64(total(held_us.into_iter())) / as_f64(count) / 1_000.0)
}

/// Arm, and for each point of a chart what `of` finds in its full seconds, of the first `blocks_max`
/// good blocks at one level.
pub(crate) fn points_by_block(
    record: &RunRecord,
    level: Level,
    blocks_max: usize,
    of: impl Fn(&[&Second]) -> Option<f64>,
) -> Vec<(&str, Vec<(u32, f64)>)> {
    let per_point = seconds_per_point(record, level);
    let of_level = blocks(record)
        .into_iter()
        .filter(|block| block.level == level.key());
    of_level
        .take(blocks_max)
        .map(|block| {
            let seconds: Vec<&Second> = full_seconds(block).collect();
            let points = seconds.chunk_by(|a, b| a.second / per_point == b.second / per_point);
            let points = points.filter_map(|chunk| {
                let first = chunk.first()?.second / per_point * per_point;
                Some((first, of(chunk)?))
            });
            (block.arm.as_str(), points.collect())
        })
        .collect()
}

/// Answers per second, the mean of a point.
pub(crate) fn completed(seconds: &[&Second]) -> Option<f64> {
    let count = u64::try_from(seconds.len())
        .ok()
        .filter(|count| *count > 0)?;
    let sum = total(seconds.iter().map(|second| second.completed));
    Some(as_f64(sum) / as_f64(count))
}

/// The highest p95 of a point's seconds, ms: a mean would hide the one that matters.
pub(crate) fn highest_p95_ms(seconds: &[&Second]) -> Option<f64> {
    let highest = seconds.iter().filter_map(|second| second.p95_us).max()?;
    Some(as_f64(highest) / 1_000.0)
}

/// Which spoilt blocks were measured again: per block, in run order, the index of the one that took its
/// place.
pub(crate) fn redone(record: &RunRecord) -> Vec<Option<usize>> {
    let key = |block: &Block| (block.arm.clone(), block.pair, block.level);
    let blocks = &record.blocks;
    let mut last = BTreeMap::new();
    let mut taken = vec![None; blocks.len()];
    for (index, block) in blocks.iter().enumerate() {
        if let Some(earlier) = last.insert(key(block), index)
            && !blocks[earlier].validity.ok
        {
            taken[earlier] = Some(index);
        }
    }
    taken
}
