//! What must hold between the fields of a record, beyond their types.
//!
//! Checked when a record is read, so that statistics need not distrust every
//! sum, and offered to whoever builds one.

use std::collections::{BTreeMap, BTreeSet};

use crate::histogram::LatencyHistogram;
use crate::level;
use crate::record::{
    Block, EndpointSamples, ErrorKind, OpenBlock, ProbeSamples, RunRecord, StatedPercentile,
};

/// The first thing that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{json_path}: {message}")]
pub struct Violation {
    /// Where, for example `blocks[3].arm`.
    pub json_path: String,
    /// What was found and what was expected.
    pub message: String,
}

/// As many as the command line accepts: beyond it, tests would take memory for nothing.
pub(crate) const PAIRS_MAX: u32 = 1_000;

fn violation<T>(json_path: String, message: String) -> Result<T, Violation> {
    Err(Violation { json_path, message })
}

impl RunRecord {
    /// Checks that the parts of the record agree with each other.
    ///
    /// # Errors
    /// The first [`Violation`], with its place.
    pub fn validate(&self) -> Result<(), Violation> {
        self.validate_arms()?;
        self.validate_load()?;
        self.validate_imports()?;
        if self.scenario.endpoints.is_empty() {
            return violation(
                "scenario.endpoints".to_owned(),
                "empty, expected at least one endpoint".to_owned(),
            );
        }
        if self.blocks.is_empty() && !self.interrupted {
            return violation(
                "blocks".to_owned(),
                "empty, expected at least one block in a record that was not interrupted"
                    .to_owned(),
            );
        }
        let mut seen = BTreeMap::new();
        for (index, block) in self.blocks.iter().enumerate() {
            self.validate_block(index, block)?;
            let key = (block.pair, block.level, block.arm.as_str());
            if block.validity.ok
                && let Some(earlier) = seen.insert(key, index)
            {
                return violation(
                    format!("blocks[{index}]"),
                    format!(
                        "a second valid block of pair {}, level {}, arm {:?}: blocks[{earlier}] \
                         is the first, expected one",
                        block.pair, block.level, block.arm
                    ),
                );
            }
        }
        Ok(())
    }

    /// An open load says how it came, and only an open one does.
    fn validate_load(&self) -> Result<(), Violation> {
        if let Some(capacity) = &self.load.capacity {
            capacity.validate("load.capacity")?;
        }
        self.validate_looks()?;
        let is_open = self.load.model == level::OPEN;
        if is_open == self.load.open.is_some() {
            return Ok(());
        }
        let found = if is_open { "missing" } else { "present" };
        violation(
            "load.open".to_owned(),
            format!(
                "{found} although the model is {:?}; an open load has it, others don't",
                self.load.model
            ),
        )
    }

    /// Looks come one after the other, the last after all pairs.
    fn validate_looks(&self) -> Result<(), Violation> {
        let looks = &self.load.looks;
        let ascending = looks
            .iter()
            .zip([0].iter().chain(looks))
            .all(|(next, one)| next > one);
        let last = looks.last().is_none_or(|last| *last == self.load.pairs);
        if ascending && last {
            return Ok(());
        }
        violation(
            "load.looks".to_owned(),
            format!(
                "{looks:?}, expected numbers of pairs in ascending order up to the {} planned",
                self.load.pairs
            ),
        )
    }

    /// Stated percentiles are what their name says.
    fn validate_imports(&self) -> Result<(), Violation> {
        for (name, arm) in &self.arms {
            let Some(imported) = &arm.imported else {
                continue;
            };
            for (endpoint, stated) in &imported.percentiles {
                let is_percentile = |of: &StatedPercentile| {
                    (0.0..=1.0).contains(&of.share) && of.us.is_finite() && of.us >= 0.0
                };
                let ascends = |one: &StatedPercentile, other: &StatedPercentile| {
                    one.share <= other.share && one.us <= other.us
                };
                if !stated.iter().all(is_percentile) || !stated.is_sorted_by(ascends) {
                    return violation(
                        format!("arms.{name}.imported.percentiles.{endpoint}"),
                        "expected shares between 0 and 1 and times, both ascending".to_owned(),
                    );
                }
            }
        }
        Ok(())
    }

    fn validate_arms(&self) -> Result<(), Violation> {
        let names: Vec<&str> = self.arms.keys().map(String::as_str).collect();
        match names[..] {
            [_] | ["after", "before"] | ["after", "before", "start"] => Ok(()),
            _ => violation(
                "arms".to_owned(),
                format!(
                    "{names:?}, expected one arm, or \"before\" and \"after\" with or without \
                     \"start\""
                ),
            ),
        }
    }

    fn validate_block(&self, index: usize, block: &Block) -> Result<(), Violation> {
        let place = |field: &str| format!("blocks[{index}].{field}");
        if !self.arms.contains_key(&block.arm) {
            let names: Vec<&String> = self.arms.keys().collect();
            return violation(
                place("arm"),
                format!("{:?}, expected one of {names:?}", block.arm),
            );
        }
        if !self.load.levels.is_empty() && !self.load.levels.contains(&block.level) {
            return violation(
                place("level"),
                format!("{}, expected one of {:?}", block.level, self.load.levels),
            );
        }
        // Only a comparison pairs blocks: a record of one version may have more.
        if block.pair >= PAIRS_MAX && self.arms.len() > 1 {
            return violation(
                place("pair"),
                format!(
                    "{}, expected at most {}: a comparison has up to {PAIRS_MAX} pairs, counted \
                     from 0",
                    block.pair,
                    PAIRS_MAX - 1
                ),
            );
        }
        let last = if self.arms.len() > 2 { 2 } else { 1 };
        if block.position > last {
            let expected = if last == 2 { "0, 1 or 2" } else { "0 or 1" };
            return violation(
                place("position"),
                format!("{}, expected {expected}", block.position),
            );
        }
        let shares = [
            ("steal_share", block.steal_share),
            ("generator_busy_share", block.generator_busy_share),
            ("cpu_pressure_share", block.cpu_pressure_share),
        ];
        let is_no_share = |share: f64| !(0.0..=1.0).contains(&share);
        if let Some((name, _)) = shares
            .iter()
            .find(|(_, share)| share.is_some_and(is_no_share))
        {
            return violation(place(name), "expected a share between 0 and 1".to_owned());
        }
        if let Some(open) = &block.open {
            validate_open(&place("open"), open)?;
        }
        if block.wall_ns == 0 && block.completed > 0 {
            return violation(
                place("wall_ns"),
                "0 although requests were completed".to_owned(),
            );
        }
        self.validate_endpoints(index, block)?;
        if let Some(probe) = &block.probe {
            validate_probe(&place("probe"), probe)?;
        }
        validate_sums(index, block)
    }

    fn validate_endpoints(&self, index: usize, block: &Block) -> Result<(), Violation> {
        let known: BTreeSet<&str> = self
            .scenario
            .endpoints
            .iter()
            .map(|endpoint| endpoint.name.as_str())
            .collect();
        for (name, samples) in &block.endpoints {
            let place = format!("blocks[{index}].endpoints.{name}");
            if !known.contains(name.as_str()) {
                return violation(
                    place,
                    format!("unknown endpoint, expected one of scenario.endpoints {known:?}"),
                );
            }
            // Another tool may have stated percentiles instead of times.
            let imported = self
                .arms
                .get(&block.arm)
                .and_then(|arm| arm.imported.as_ref());
            if imported.is_some_and(|of| of.percentiles.contains_key(name)) {
                validate_counts(&place, [("response", &samples.response, 0)])?;
                continue;
            }
            validate_samples(&place, samples)?;
        }
        Ok(())
    }
}

fn validate_samples(place: &str, samples: &EndpointSamples) -> Result<(), Violation> {
    if samples.items_coalesced > samples.items {
        return violation(
            format!("{place}.items_coalesced"),
            format!(
                "{}, expected at most the {} of items",
                samples.items_coalesced, samples.items
            ),
        );
    }
    let waiting = samples.ttft_in_flight.as_ref().map_or(0, |of| of.count());
    if waiting > samples.in_flight.count() {
        return violation(
            format!("{place}.ttft_in_flight"),
            format!(
                "holds {waiting} requests, expected at most the {} of in_flight",
                samples.in_flight.count()
            ),
        );
    }
    validate_counts(
        place,
        [
            ("response", &samples.response, samples.completed),
            ("failed", &samples.failed, total(&samples.errors)),
        ],
    )
}

fn validate_open(place: &str, open: &OpenBlock) -> Result<(), Violation> {
    let parts = [
        ("begun", open.begun.saturating_add(open.queued_at_end)),
        ("ended_in_time", open.ended_in_time),
        ("arrivals_fourth_quarter", open.arrivals_fourth_quarter),
    ];
    for (field, count) in parts {
        if count > open.arrivals {
            return violation(
                format!("{place}.{field}"),
                format!(
                    "stands for {count} arrivals, expected at most the {} that came",
                    open.arrivals
                ),
            );
        }
    }
    Ok(())
}

fn validate_probe(place: &str, probe: &ProbeSamples) -> Result<(), Violation> {
    let failed = total(&probe.errors);
    let local = saturating_sum(probe.local_faults.values().copied());
    let ended = saturating_sum([probe.completed, failed, local, probe.in_flight.count()]);
    if ended > probe.offered {
        return violation(
            format!("{place}.offered"),
            format!(
                "{}, expected at least the {ended} requests that ended or were in flight",
                probe.offered
            ),
        );
    }
    validate_counts(
        place,
        [
            ("response", &probe.response, probe.completed),
            ("failed", &probe.failed, failed),
        ],
    )
}

/// Each histogram holds as many requests as are counted beside it.
fn validate_counts<const N: usize>(
    place: &str,
    counted: [(&str, &LatencyHistogram, u64); N],
) -> Result<(), Violation> {
    for (field, histogram, expected) in counted {
        if histogram.count() != expected {
            return violation(
                format!("{place}.{field}"),
                format!(
                    "holds {} requests, expected {expected} as counted beside it",
                    histogram.count()
                ),
            );
        }
    }
    Ok(())
}

fn validate_sums(index: usize, block: &Block) -> Result<(), Violation> {
    let completed = saturating_sum(block.endpoints.values().map(|samples| samples.completed));
    if completed != block.completed {
        return violation(
            format!("blocks[{index}].completed"),
            format!(
                "{}, expected {completed} as the endpoints add up",
                block.completed
            ),
        );
    }
    let mut errors: BTreeMap<ErrorKind, u64> = BTreeMap::new();
    for (kind, count) in block.endpoints.values().flat_map(|samples| &samples.errors) {
        let sum = errors.entry(*kind).or_insert(0);
        *sum = sum.saturating_add(*count);
    }
    let nonzero = |errors: &BTreeMap<ErrorKind, u64>| -> BTreeMap<ErrorKind, u64> {
        let counted = errors.iter().filter(|(_, count)| **count > 0);
        counted.map(|(kind, count)| (*kind, *count)).collect()
    };
    if nonzero(&errors) != nonzero(&block.errors) {
        return violation(
            format!("blocks[{index}].errors"),
            format!(
                "{} failures, expected {} as the endpoints add up by kind",
                total(&block.errors),
                total(&errors)
            ),
        );
    }
    let in_flight = block
        .endpoints
        .values()
        .map(|samples| samples.in_flight.count());
    let ended = saturating_sum([completed, total(&errors), saturating_sum(in_flight)]);
    if ended > block.offered {
        return violation(
            format!("blocks[{index}].offered"),
            format!(
                "{}, expected at least the {ended} requests that ended or were in flight",
                block.offered
            ),
        );
    }
    Ok(())
}

/// All failures, whatever their kind.
pub(crate) fn total(errors: &BTreeMap<ErrorKind, u64>) -> u64 {
    saturating_sum(errors.values().copied())
}

/// A sum that stays at the largest number where it would go beyond: counts are read
/// from files.
pub(crate) fn saturating_sum(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}
