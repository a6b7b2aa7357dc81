//! How often the comparison is right: sessions of which the truth is known, judged by exactly the
//! rule that is shipped, and by the rules that people use instead.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::naive::{Rule, passes_at_margin};
use super::{EndpointSpec, SessionSpec};
use crate::compare::{CompareError, compare};
use crate::comparison::{Comparison, Metric, Verdict};
use crate::policy::Policy;
use crate::record::RunRecord;

/// Median of every endpoint, so long that the margin of each percentile is above its floor: a floor
/// would keep cells from alarming that are exactly at δ.
const P50_MS: f64 = 60.0;
/// Amplitude of what comes and goes on the machine, in the logarithm of times.
const RHYTHM: f64 = 0.02;
/// What being second adds to the logarithm of times.
const POSITION: f64 = 0.01;

/// How sessions are measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Pairs after which it is judged; one number for one look.
    pub looks: Vec<u32>,
    /// Per endpoint and block.
    pub requests: u64,
    /// Endpoints, alike.
    pub endpoints: usize,
}

/// What is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Truth {
    /// Both versions are the same.
    Same,
    /// Every percentile of every endpoint is slower by exactly its margin.
    AtMargin,
    /// The first endpoint is slower by so many percent.
    OneSlower(u32),
    /// The same, while every other one takes half the time.
    OneSlowerOthersFaster(u32),
}

impl Truth {
    /// In a few words.
    pub fn describe(self) -> String {
        match self {
            Self::Same => "identical".to_owned(),
            Self::AtMargin => "all exactly at δ".to_owned(),
            Self::OneSlower(percent) => format!("one +{percent} %"),
            Self::OneSlowerOthersFaster(percent) => {
                format!("one +{percent} %, the others twice as fast")
            }
        }
    }

    fn endpoint(self, index: usize, policy: &Policy) -> EndpointSpec {
        let alike = EndpointSpec::new(&format!("GET {index}"), P50_MS);
        let slower = |percent: u32| 1.0 + f64::from(percent) / 100.0;
        match (self, index) {
            (Self::Same, _) | (Self::OneSlower(_), 1..) => alike,
            (Self::OneSlower(percent) | Self::OneSlowerOthersFaster(percent), 0) => EndpointSpec {
                ratio: slower(percent),
                ..alike
            },
            (Self::OneSlowerOthersFaster(_), _) => EndpointSpec {
                ratio: 0.5,
                ..alike
            },
            (Self::AtMargin, _) => {
                let metrics = [
                    Metric::ResponseP50,
                    Metric::ResponseP95,
                    Metric::ResponseP99,
                ];
                let margins = metrics.map(|metric| 1.0 + policy.margin(None, metric).regression);
                EndpointSpec {
                    percentile_ratios: Some(margins),
                    ..alike
                }
            }
        }
    }
}

/// Of many sessions, how many were judged how.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// All of them.
    pub sessions: u32,
    /// Called a regression.
    pub regressions: u32,
    /// Passed.
    pub passes: u32,
    /// Called invalid.
    pub invalid: u32,
    /// Pairs that were measured in all, fewer than planned where a look ended it.
    pub pairs: u64,
    /// Would pass if the margin were the limit, too.
    pub passes_at_margin: u32,
    /// Called a regression by the other rules.
    pub alarms: BTreeMap<Rule, u32>,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.regressions += other.regressions;
        self.passes += other.passes;
        self.invalid += other.invalid;
        self.pairs += other.pairs;
        self.passes_at_margin += other.passes_at_margin;
        for (rule, count) in &other.alarms {
            *self.alarms.entry(*rule).or_insert(0) += count;
        }
    }
}

/// Sessions to be made up and judged.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// How they are measured.
    pub plan: Plan,
    /// What is true.
    pub truth: Truth,
    /// How they are judged.
    pub policy: Policy,
    /// Whether the other rules judge them, too.
    pub with_other_rules: bool,
}

impl Simulation {
    /// Judges sessions with the seeds from 0 on, on all cores: the counts are the same on every
    /// machine.
    ///
    /// # Errors
    /// [`CompareError`] does not occur with records of two arms, as these are.
    pub fn run(&self, sessions: u32) -> Result<Tally, CompareError> {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let next = AtomicU32::new(0);
        let work = || -> Result<Tally, CompareError> {
            let mut tally = Tally::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= sessions {
                    return Ok(tally);
                }
                tally.add(&self.session(u64::from(seed))?);
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            let mut all = Tally::default();
            for worker in workers {
                let tally = worker.join().unwrap_or_else(|panic| {
                    // It says what happened already.
                    std::panic::resume_unwind(panic)
                });
                all.add(&tally?);
            }
            Ok(all)
        })
    }

    fn session(&self, seed: u64) -> Result<Tally, CompareError> {
        let endpoints: Vec<EndpointSpec> = (0..self.plan.endpoints)
            .map(|index| self.truth.endpoint(index, &self.policy))
            .collect();
        let spec = SessionSpec {
            looks: self.plan.looks.clone(),
            rhythm: RHYTHM,
            position: POSITION,
            is_complete: false,
            ..SessionSpec::new(seed, 0, self.plan.requests, &endpoints)
        };
        let record = spec.record();
        let (judged, comparison) = self.judge(record)?;
        let mut tally = Tally {
            sessions: 1,
            regressions: u32::from(comparison.verdict == Verdict::Regression),
            passes: u32::from(comparison.verdict == Verdict::Pass),
            invalid: u32::from(comparison.verdict == Verdict::Invalid),
            pairs: u64::from(comparison.pairs),
            ..Tally::default()
        };
        if self.with_other_rules {
            tally.passes_at_margin = u32::from(
                comparison.verdict == Verdict::Pass && passes_at_margin(&comparison, &self.policy),
            );
            for rule in Rule::ALL {
                let alarms = rule.alarms(&judged, &comparison, &self.policy);
                tally.alarms.insert(rule, u32::from(alarms));
            }
        }
        Ok(tally)
    }

    /// As a session does it: look after look, until one settles it.
    fn judge(&self, mut record: RunRecord) -> Result<(RunRecord, Comparison), CompareError> {
        let all = std::mem::take(&mut record.blocks);
        let mut all = all.into_iter();
        let mut begun = 0;
        let mut found = None;
        for pairs in &self.plan.looks {
            let blocks = (pairs - begun) as usize * 2;
            record.blocks.extend(all.by_ref().take(blocks));
            begun = *pairs;
            let comparison = compare(&record, &self.policy)?;
            let is_settled = comparison.verdict.is_settled();
            found = Some(comparison);
            if is_settled {
                break;
            }
        }
        // A plan without looks has no session.
        let comparison = match found {
            Some(comparison) => comparison,
            None => compare(&record, &self.policy)?,
        };
        Ok((record, comparison))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seeds_give_the_same_counts_on_any_number_of_cores() {
        let simulation = Simulation {
            plan: Plan {
                looks: vec![7, 10],
                requests: 60,
                endpoints: 2,
            },
            truth: Truth::OneSlower(40),
            policy: Policy::default(),
            with_other_rules: true,
        };
        let once = simulation.run(12).unwrap();
        let mut by_hand = Tally::default();
        for seed in 0..12 {
            by_hand.add(&simulation.session(seed).unwrap());
        }
        assert_eq!(once, by_hand);
        assert_eq!(once.sessions, 12);
    }
}
