//! An objective judged on the after version, with the evidence of its blocks.
//!
//! Requests within a block are correlated, so blocks are counted and not requests:
//! - a *percentile* is met if so many blocks are below the limit by themselves that a version
//!   whose typical block is not would show as many with probability α at most, and missed if as
//!   many are not below it: the sign test, whose interval is that of the median over blocks by
//!   order statistics. It asks for no distribution, and failures, which reach into a percentile as
//!   bounds, are above any limit;
//! - *errors* are the share of all requests, since most blocks of a good service have none. The
//!   interval is Wilson's (1927) with Student's quantile of the blocks, on a sample that is
//!   smaller by the design effect: how much more the blocks' shares vary than independent
//!   requests would (Kish, *Survey Sampling*, 1965, §8.2);
//! - *max* is about each request: one that took longer is proof, and none says no more than that.
//!
//! Met is judged at α, since a pass asks all to be met. Missed is judged at α divided by the
//! number of objectives, since one is enough to fail.

use std::collections::BTreeSet;

use super::{Measure, Objective, Percentile, SloFinding, SloOutcome, subjects};
use crate::design::pairs_min;
use crate::hodges_lehmann::{median_of_sorted, normal_quantile};
use crate::level::Level;
use crate::need::{PAIRS_ADVISED_MAX, POWER_Z};
use crate::order_statistics::requests_needed;
use crate::policy::{Policy, SloRule};
use crate::record::{Block, RunRecord};
use crate::saturation::Saturation;
use crate::student::student_quantile;
use crate::validate::saturating_sum;
use crate::wilson::wilson;
use crate::wording;

/// With fewer blocks nothing is said of a share: Student's quantile is too large to be useful, and
/// its expansion too small.
const BLOCKS_MIN: usize = 5;

/// All that the policy wants held, in the order of the file, each endpoint and level by itself. Each
/// has its row: one that nothing was measured of can't be told, and nothing passes by it.
///
/// With `first_look`, the pairs of a look that is still to come, only what one request proves is
/// said: whatever counts blocks would be a look.
pub(crate) fn judge(
    policy: &Policy,
    record: &RunRecord,
    before: &[&Block],
    after: &[&Block],
    saturation: &[Saturation],
    first_look: Option<u32>,
) -> Vec<SloFinding> {
    // Of either version: what doesn't stream any more is no reason not to ask for its first item.
    let blocks = || before.iter().chain(after).copied();
    let streams = |name: &str| is_streamed(blocks(), name);
    let levels: BTreeSet<u32> = blocks().map(|block| block.level).collect();
    let mut asked: Vec<(Objective, u32)> = Vec::new();
    for rule in &policy.slos {
        for (objective, level) in expand(rule, record, &levels, &streams) {
            if !asked.contains(&(objective.clone(), level)) {
                asked.push((objective, level));
            }
        }
    }
    let trial = Trial {
        record,
        is_imported: record.arms.values().any(|arm| arm.imported.is_some()),
        alpha: policy.alpha,
        alpha_missed: policy.alpha / asked.len().max(1) as f64,
    };
    asked
        .into_iter()
        .map(|(objective, key)| {
            let level = Level::of(&record.load, key);
            let piled_up = saturation
                .iter()
                .any(|found| found.level == level && found.after);
            let (before, after) = (at_level(before, key), at_level(after, key));
            let mut finding = trial.finding(&objective, level, &before, &after, piled_up);
            if let Some(pairs) = first_look.filter(|_| !objective.measure.is_longest()) {
                finding.hold_back(pairs);
            }
            finding
        })
        .collect()
}

fn at_level<'b>(blocks: &[&'b Block], key: u32) -> Vec<&'b Block> {
    let own = blocks.iter().filter(|block| block.level == key);
    own.copied().collect()
}

/// Each objective of a rule on each endpoint and at each level.
fn expand(
    rule: &SloRule,
    record: &RunRecord,
    levels: &BTreeSet<u32>,
    streams: &dyn Fn(&str) -> bool,
) -> Vec<(Objective, u32)> {
    let objectives = rule.slo.objectives().iter();
    let concrete: Vec<Objective> = objectives
        .flat_map(|objective| subjects(rule, objective, &record.scenario, streams))
        .collect();
    let levels = levels
        .iter()
        .filter(|key| rule.is_at(Level::of(&record.load, **key)));
    levels
        .flat_map(|key| concrete.iter().map(|of| (of.clone(), *key)))
        .collect()
}

/// Whether an endpoint answered by a stream in any of these blocks.
pub(crate) fn is_streamed<'b>(blocks: impl IntoIterator<Item = &'b Block>, name: &str) -> bool {
    let samples = blocks.into_iter().filter_map(|of| of.endpoints.get(name));
    samples.into_iter().any(|samples| samples.ttft.is_some())
}

/// What all objectives have in common.
struct Trial<'r> {
    /// Holds the after version.
    record: &'r RunRecord,
    /// The after version was measured by another tool.
    is_imported: bool,
    alpha: f64,
    alpha_missed: f64,
}

/// One block's say.
struct Said {
    /// µs, or a share; infinite where nothing was measured.
    value: f64,
    at_least: bool,
    holds: bool,
    requests: u64,
    failed: u64,
}

impl Trial<'_> {
    fn finding(
        &self,
        objective: &Objective,
        level: Level,
        before: &[&Block],
        after: &[&Block],
        piled_up: bool,
    ) -> SloFinding {
        let said = self.said(objective, after, true);
        let scale = match objective.measure {
            Measure::Errors => 100.0,
            _ => 1e-3,
        };
        let earlier = self.said(objective, before, false);
        let shown = |value: f64| value.is_finite().then_some(value * scale);
        let typical_of = |said: &[Said]| typical(objective.measure, said);
        let value = typical_of(&said);
        let mut finding = SloFinding {
            objective: Objective {
                endpoint: None,
                ..objective.clone()
            }
            .to_string(),
            endpoint: objective.endpoint.clone(),
            level,
            value: value.and_then(|(value, _)| shown(value)),
            at_least: value.is_some_and(|(_, at_least)| at_least),
            low: None,
            high: None,
            limit: objective.limit * scale,
            is_share: objective.measure == Measure::Errors,
            before: typical_of(&earlier).and_then(|(value, _)| shown(value)),
            blocks: said.len() as u64,
            blocks_within: said.iter().filter(|block| block.holds).count() as u64,
            requests: saturating_sum(said.iter().map(|block| block.requests)),
            outcome: undecided(),
            note: None,
        };
        self.conclude(&mut finding, objective, &said, piled_up);
        if self.is_imported && finding.outcome == SloOutcome::Missed {
            finding.outcome = undecided();
            finding.note =
                Some("Another tool's numbers: advice, and nothing is missed by it.".into());
        }
        finding
    }

    fn conclude(
        &self,
        finding: &mut SloFinding,
        objective: &Objective,
        said: &[Said],
        piled_up: bool,
    ) {
        let is_share = objective.measure == Measure::Errors;
        match objective.measure {
            _ if said.iter().all(|block| block.requests == 0) => {
                finding.note = Some("No block has a request of it, so nothing tells.".to_owned());
            }
            _ if piled_up && !is_share => {
                finding.outcome = SloOutcome::Missed;
                let note = "Arrivals piled up at this rate: a queue that only grows breaks any \
                            limit of a time.";
                finding.note = Some(note.to_owned());
            }
            Measure::Errors => self.judge_share(finding, objective.limit, said),
            Measure::Response(Percentile::Max) | Measure::Ttft(Percentile::Max) => {
                judge_longest(finding, said);
            }
            Measure::Response(Percentile::Of(q)) | Measure::Ttft(Percentile::Of(q)) => {
                self.judge_percentile(finding, q, said);
            }
        }
    }

    /// Only the after version's arm is in the record for certain.
    fn said(&self, objective: &Objective, blocks: &[&Block], is_after: bool) -> Vec<Said> {
        let endpoints = &self.record.scenario.endpoints;
        let of_block = |block: &&Block| {
            let mut reading = objective.read(block, endpoints).into_iter().next()?;
            if reading.value.is_none() && is_after {
                reading.value = self.stated(objective, block);
                reading.holds = reading.value.is_some_and(|value| value < objective.limit);
            }
            let (requests, failed) = objective.requests(block);
            Some(Said {
                value: reading.value.unwrap_or(f64::INFINITY),
                at_least: reading.at_least,
                holds: reading.holds,
                requests,
                failed,
            })
        };
        blocks.iter().filter_map(of_block).collect()
    }

    /// A time in µs that another tool stated instead of the times behind it.
    fn stated(&self, objective: &Objective, block: &Block) -> Option<f64> {
        let share = match objective.measure {
            Measure::Response(Percentile::Of(q)) => q,
            Measure::Response(Percentile::Max) => 1.0,
            Measure::Ttft(_) | Measure::Errors => return None,
        };
        let imported = self.record.arms.get(&block.arm)?.imported.as_ref()?;
        let stated = imported.percentiles.get(objective.endpoint.as_ref()?)?;
        let same = stated.iter().find(|of| (of.share - share).abs() < 1e-9)?;
        Some(same.us)
    }

    fn judge_percentile(&self, finding: &mut SloFinding, q: f64, said: &[Said]) {
        let needed = requests_needed(q);
        let fewest = said.iter().map(|block| block.requests).min().unwrap_or(0);
        if fewest < needed {
            finding.outcome = SloOutcome::CantTell {
                pairs_needed: None,
                requests_needed: Some(needed),
            };
            finding.note = Some(format!(
                "Insufficient data: {} requests per block, judged from {}.",
                wording::count(fewest),
                wording::count(needed)
            ));
            return;
        }
        // A bound may lie anywhere above.
        let mut values: Vec<f64> = said
            .iter()
            .map(|block| match block.at_least {
                true => f64::INFINITY,
                false => block.value / 1_000.0,
            })
            .collect();
        values.sort_by(f64::total_cmp);
        let count = values.len();
        if let Some(needed) = blocks_needed(count, self.alpha) {
            let end = |value: f64| value.is_finite().then_some(value);
            finding.low = end(values[count - needed]);
            finding.high = end(values[needed - 1]);
        }
        let within = said.iter().filter(|block| block.holds).count();
        let reaches = |blocks: usize, alpha: f64| {
            blocks_needed(count, alpha).is_some_and(|needed| blocks >= needed)
        };
        finding.outcome = if reaches(within, self.alpha) {
            SloOutcome::Met
        } else if reaches(count - within, self.alpha_missed) {
            SloOutcome::Missed
        } else {
            let share = within as f64 / count as f64;
            SloOutcome::CantTell {
                pairs_needed: self.pairs_needed(share, count),
                requests_needed: None,
            }
        };
    }

    /// Blocks with which so many of them on one side would probably settle it.
    fn pairs_needed(&self, share_within: f64, blocks: usize) -> Option<u32> {
        let alpha = match share_within > 0.5 {
            true => self.alpha,
            false => self.alpha_missed,
        };
        let z = normal_quantile(1.0 - alpha) + POWER_Z;
        let needed = (z * 0.5 / (share_within - 0.5).abs()).powi(2).ceil();
        let least = f64::from(pairs_min(alpha)).max(blocks as f64 + 1.0);
        let needed = needed.max(least);
        // Half of the blocks on each side: infinitely many would not settle it.
        (needed <= PAIRS_ADVISED_MAX).then_some(needed as u32)
    }

    fn judge_share(&self, finding: &mut SloFinding, limit: f64, said: &[Said]) {
        let (Some((low, high)), Some((low_missed, _))) = (
            share_interval(said, self.alpha),
            share_interval(said, self.alpha_missed),
        ) else {
            finding.outcome = SloOutcome::CantTell {
                pairs_needed: Some(BLOCKS_MIN as u32),
                requests_needed: None,
            };
            finding.note = Some(format!(
                "It takes {BLOCKS_MIN} blocks with requests to tell."
            ));
            return;
        };
        (finding.low, finding.high) = (Some(low * 100.0), Some(high * 100.0));
        finding.outcome = if high < limit {
            SloOutcome::Met
        } else if low_missed >= limit {
            SloOutcome::Missed
        } else {
            SloOutcome::CantTell {
                pairs_needed: share_pairs_needed(said, limit, self.alpha),
                requests_needed: None,
            }
        };
    }
}

fn undecided() -> SloOutcome {
    SloOutcome::CantTell {
        pairs_needed: None,
        requests_needed: None,
    }
}

/// One request that took longer is proof, and so is one that failed; a block in which none was
/// made is no proof of anything.
fn judge_longest(finding: &mut SloFinding, said: &[Said]) {
    let is_empty = |block: &Said| block.value.is_infinite() && !block.at_least;
    let (note, outcome) = if said.iter().any(|block| !block.holds && !is_empty(block)) {
        (None, SloOutcome::Missed)
    } else if said.iter().any(is_empty) {
        let note = "In some block no request of it was made.";
        (Some(note), undecided())
    } else {
        let note = "Said of the requests that were measured, and of no others.";
        (Some(note), SloOutcome::Met)
    };
    finding.outcome = outcome;
    finding.note = note.map(str::to_owned);
}

/// The value of all blocks together, and whether it is only a bound.
fn typical(measure: Measure, said: &[Said]) -> Option<(f64, bool)> {
    if said.is_empty() {
        return None;
    }
    match measure {
        Measure::Errors => {
            let (share, _) = pooled(said)?;
            Some((share, false))
        }
        Measure::Response(Percentile::Max) | Measure::Ttft(Percentile::Max) => {
            let seen = said.iter().map(|block| block.value);
            let longest = seen.filter(|value| value.is_finite());
            let longest = longest.fold(f64::NEG_INFINITY, f64::max);
            Some((longest, said.iter().any(|block| block.at_least)))
        }
        Measure::Response(Percentile::Of(_)) | Measure::Ttft(Percentile::Of(_)) => {
            let mut values: Vec<f64> = said.iter().map(|block| block.value).collect();
            values.sort_by(f64::total_cmp);
            let median = median_of_sorted(&values);
            let at_least = |block: &Said| block.at_least && block.value <= median;
            Some((median, said.iter().any(at_least)))
        }
    }
}

/// How many of `blocks` must lie on one side of the limit, so that a median on the other side or
/// on it shows as many with probability `alpha` at most; `None` if not even all of them suffice.
fn blocks_needed(blocks: usize, alpha: f64) -> Option<usize> {
    // P(X ≥ k) for X ~ Binomial(n, ½), from the top down, each term from the one before.
    let n = blocks as f64;
    let mut mass = 0.5f64.powf(n);
    let mut tail = 0.0;
    let mut needed = None;
    for on_one_side in (1..=blocks).rev() {
        tail += mass;
        if tail > alpha {
            break;
        }
        needed = Some(on_one_side);
        let k = on_one_side as f64;
        mass *= k / (n - k + 1.0);
    }
    needed
}

/// Failed requests as a share of all, and how many there are.
fn pooled(said: &[Said]) -> Option<(f64, f64)> {
    let requests = saturating_sum(said.iter().map(|block| block.requests)) as f64;
    let failed = saturating_sum(said.iter().map(|block| block.failed)) as f64;
    (requests > 0.0).then(|| ((failed / requests).min(1.0), requests))
}

/// Requests as good as independent ones: all of them, divided by the design effect.
fn effective_requests(said: &[Said]) -> Option<f64> {
    let (share, requests) = pooled(said)?;
    let blocks = said.len() as f64;
    // Squared deviations of the blocks' shares in units of what independent requests vary.
    let spread = said.iter().map(|block| {
        let expected = share * block.requests as f64;
        let variance = expected * (1.0 - share);
        match variance > 0.0 {
            true => (block.failed as f64 - expected).powi(2) / variance,
            false => 0.0,
        }
    });
    let design_effect = (spread.sum::<f64>() / (blocks - 1.0).max(1.0)).max(1.0);
    Some(requests / design_effect)
}

/// Ends of the interval of the share, each one-sided at `alpha`; `None` with blocks too few.
fn share_interval(said: &[Said], alpha: f64) -> Option<(f64, f64)> {
    let with_requests = said.iter().filter(|block| block.requests > 0).count();
    if with_requests < BLOCKS_MIN {
        return None;
    }
    let (share, _) = pooled(said)?;
    let n = effective_requests(said)?;
    let t = student_quantile(1.0 - alpha, with_requests as u32 - 1);
    Some(wilson(share, n, t))
}

/// Pairs from which on, if the share is what it seems, the interval would leave the limit out.
fn share_pairs_needed(said: &[Said], limit: f64, alpha: f64) -> Option<u32> {
    let (share, _) = pooled(said)?;
    let per_block = effective_requests(said)? / said.len() as f64;
    let more = said.len() as u32 + 1;
    (more..=PAIRS_ADVISED_MAX as u32).find(|blocks| {
        let n = per_block * f64::from(*blocks);
        let t = student_quantile(1.0 - alpha, *blocks - 1);
        let (low, high) = wilson(share, n, t + POWER_Z);
        high < limit || low >= limit
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::ChaCha8Rng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn blocks_needed_is_the_sign_test() {
        // Tables of the sign test, one-sided (Conover, Practical Nonparametric Statistics).
        for (blocks, alpha, needed) in [
            (4, 0.05, None),
            (5, 0.05, Some(5)),
            (7, 0.05, Some(7)),
            (8, 0.05, Some(7)),
            (10, 0.05, Some(9)),
            (16, 0.05, Some(12)),
            (20, 0.05, Some(15)),
            (10, 0.01, Some(10)),
            (6, 0.01, None),
            (1_000, 0.05, Some(527)),
        ] {
            assert_eq!(blocks_needed(blocks, alpha), needed, "{blocks} at {alpha}");
        }
    }

    /// Blocks whose own shares vary around the true one, more than independent requests would.
    fn varied(share: f64, blocks: usize, requests: u64, rng: &mut ChaCha8Rng) -> Vec<Said> {
        let block = |rng: &mut ChaCha8Rng| {
            let own = share * rng.random_range(0.5..1.5);
            let failed = (0..requests).filter(|_| rng.random::<f64>() < own).count();
            Said {
                value: 0.0,
                at_least: false,
                holds: true,
                requests,
                failed: failed as u64,
            }
        };
        (0..blocks).map(|_| block(rng)).collect()
    }

    #[test]
    fn a_share_at_its_limit_is_seldom_met_or_missed() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let repetitions = 500;
        for (share, blocks, requests) in [(0.05, 10, 400), (0.02, 6, 400), (0.1, 20, 100)] {
            let (mut met, mut missed) = (0, 0);
            for _ in 0..repetitions {
                let said = varied(share, blocks, requests, &mut rng);
                let (low, high) = share_interval(&said, 0.05).expect("enough blocks");
                met += u32::from(high < share);
                missed += u32::from(low >= share);
            }
            // 5 % is promised of each; 8 % is three standard errors above.
            let most = repetitions * 8 / 100;
            assert!(
                met <= most && missed <= most,
                "{share}, {blocks} × {requests}: {met} met and {missed} missed of {repetitions}"
            );
        }
    }

    #[test]
    fn blocks_that_differ_are_worth_fewer_requests() {
        let said = |failed: [u64; 6]| -> Vec<Said> {
            let block = |failed| Said {
                value: 0.0,
                at_least: false,
                holds: true,
                requests: 1_000,
                failed,
            };
            failed.into_iter().map(block).collect()
        };
        let even = effective_requests(&said([20; 6])).expect("requests");
        assert_eq!(even, 6_000.0);
        let uneven = effective_requests(&said([0, 0, 0, 0, 0, 120])).expect("requests");
        assert!(uneven < 100.0, "{uneven}");
        assert_eq!(effective_requests(&said([0; 6])), Some(6_000.0));
        assert_eq!(share_interval(&said([0; 6])[..4], 0.05), None);
    }
}
