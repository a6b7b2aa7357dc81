//! How much a service can take: the highest rate of arrivals at which an objective holds.
//!
//! A record of `unstall capacity` holds blocks at many rates, each of which held the objective or
//! didn't. [`Search`] chooses the rates, [`find`] says what a record shows. Both know nothing but
//! the trials, so a record that is judged again says the same.

use crate::comparison::Verdict;
use crate::level::Level;
use crate::policy::{GENERATOR_BUSY_SHARE_MAX, STEAL_SHARE_MAX};
use crate::record::{Block, CapacityLoad, EndpointIdentity, RunRecord};
use crate::saturation;
use crate::slo::{Reading, Slo, SloError};

pub use ratio::{Goal, HARM_RATIO_MIN, PROMISED_PERCENT, Ratio, goal_ratio};
pub use search::{Bounds, CONFIDENCE, Capacity, Ceiling, Search, Step, Trial, TrialEnd};

mod belief;
mod normal;
mod ratio;
mod search;
mod sentence;

/// What a record says of capacity.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What had to hold.
    pub slo: Slo,
    /// Each version, the old one first.
    pub arms: Vec<ArmFinding>,
    /// After ÷ before, where both are known well enough.
    pub ratio: Option<Ratio>,
    /// How much more the new version is to bear, in percent, from which to which.
    pub promised_percent: [u32; 2],
    /// The judgement of two versions; of one only that its numbers can't be used.
    pub verdict: Option<Verdict>,
    /// What was found, for people: the answer first.
    pub headline: String,
    /// What to do next.
    pub next_action: String,
    /// It was stopped, or could not go on, before it was over.
    pub is_stopped: bool,
    /// What a reader must know besides, a sentence each.
    pub notes: Vec<String>,
}

/// What was found of one version.
#[derive(Debug, Clone, PartialEq)]
pub struct ArmFinding {
    /// Key of [`RunRecord::arms`].
    pub arm: String,
    /// Its capacity, in arrivals per second.
    pub capacity: Capacity,
    /// Its blocks in the order in which they ran.
    pub trials: Vec<SeenTrial>,
}

/// One block of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenTrial {
    /// Offered, arrivals per second.
    pub rate: f64,
    /// Ended within the schedule, arrivals per second.
    pub ended_per_second: Option<f64>,
    /// What came of it.
    pub end: TrialEnd,
    /// Arrivals piled up until the end, so that the times depend on how long it lasted.
    pub is_saturated: bool,
    /// As many were served at once as were allowed; those beyond waited on this side.
    pub is_capped: bool,
    /// Each objective on each endpoint.
    pub readings: Vec<Reading>,
}

/// What one block says.
///
/// It holds the objective if every part of it does *and* arrivals don't pile up: a queue that only
/// grows breaks any limit in time, also where the block was too short to show it.
pub fn read_block(slo: &Slo, block: &Block, endpoints: &[EndpointIdentity]) -> SeenTrial {
    let readings = slo.read(block, endpoints);
    let is_saturated = block.open.as_ref().is_some_and(saturation::is_saturated);
    let holds = !is_saturated && readings.iter().all(|reading| reading.holds);
    SeenTrial {
        rate: rate_of(block),
        ended_per_second: block.open.as_ref().and_then(|open| open.ended_per_second()),
        end: match (block.validity.ok, holds) {
            (ok, true) if readings.is_empty() && (ok || block.local_faults.is_empty()) => {
                TrialEnd::Idle
            }
            // Our own lateness only adds to the times, so what holds in spite of it holds. What
            // could not be sent at all was not offered.
            (ok, true) if ok || block.local_faults.is_empty() => TrialEnd::Held,
            // Neither can lateness alone make arrivals pile up to the end.
            (ok, _) if ok || (is_saturated && could_offer(block)) => TrialEnd::Failed,
            _ => TrialEnd::Spoilt,
        },
        is_saturated,
        is_capped: block.open.as_ref().is_some_and(|open| {
            open.queued_at_end > 0 || open.in_flight_most >= u64::from(open.in_flight_max)
        }),
        readings,
    }
}

impl SeenTrial {
    /// As the search sees it.
    pub fn trial(&self) -> Trial {
        Trial {
            rate: self.rate,
            end: self.end,
        }
    }
}

/// Whether this side had all that it takes to send, however late.
fn could_offer(block: &Block) -> bool {
    let within = |share: Option<f64>, most: f64| share.is_none_or(|share| share <= most);
    block.local_faults.is_empty()
        && within(block.generator_busy_share, GENERATOR_BUSY_SHARE_MAX)
        && within(block.steal_share, STEAL_SHARE_MAX)
}

/// The rate of an open block.
fn rate_of(block: &Block) -> f64 {
    f64::from(Level::MilliRate(block.level).key()) / 1_000.0
}

/// What a record shows; `None` if it is not one of a search.
///
/// # Errors
/// An objective that can't be read.
pub fn find(record: &RunRecord) -> Result<Option<Finding>, SloError> {
    let Some(load) = &record.load.capacity else {
        return Ok(None);
    };
    let slo = Slo::parse(&load.slo)?;
    let mut names: Vec<&String> = record.arms.keys().collect();
    names.sort_by_key(|name| name.as_str() != "before");
    let mut searches = Vec::new();
    let mut arms = Vec::new();
    for name in names {
        let (search, arm) = of_arm(record, load, &slo, name);
        searches.push(search);
        arms.push(arm);
    }
    let ratio = match searches.as_slice() {
        [before, after] => Ratio::of(before, after),
        _ => None,
    };
    let verdict = match arms.as_slice() {
        // What is not over decides nothing.
        [_, _] if record.interrupted => Some(Verdict::Inconclusive),
        [before, after] => Some(ratio::verdict(
            before.capacity,
            after.capacity,
            ratio,
            load.precision,
        )),
        // Nothing could be offered: a fault of our own.
        [only] if only.capacity == Capacity::Unknown && !only.trials.is_empty() => {
            Some(if record.interrupted {
                Verdict::Inconclusive
            } else {
                Verdict::Invalid
            })
        }
        _ => None,
    };
    Ok(Some(sentence::tell(Finding {
        slo,
        arms,
        ratio,
        promised_percent: load.promised_percent,
        verdict,
        headline: String::new(),
        next_action: String::new(),
        is_stopped: record.interrupted,
        notes: Vec::new(),
    })))
}

/// Whether the only thing known is that nothing was sent that the objective is about.
fn is_idle(arm: &ArmFinding) -> bool {
    arm.capacity == Capacity::Unknown && arm.trials.iter().any(|of| of.end == TrialEnd::Idle)
}

fn of_arm(record: &RunRecord, load: &CapacityLoad, slo: &Slo, name: &str) -> (Search, ArmFinding) {
    let mut search = Search::new(load.bounds());
    let blocks = record.blocks.iter().filter(|block| block.arm == name);
    let trials: Vec<SeenTrial> = blocks
        .map(|block| read_block(slo, block, &record.scenario.endpoints))
        .collect();
    for trial in &trials {
        search.learn(trial.trial());
    }
    let finding = ArmFinding {
        arm: name.to_owned(),
        capacity: search.close(),
        trials,
    };
    (search, finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::LocalFault;
    use crate::synthetic::{CapacitySpec, EndpointSpec, capacity_record, run_record};

    fn found(before: f64, after: Option<f64>, highest: f64) -> Finding {
        let spec = CapacitySpec {
            before,
            after,
            highest,
        };
        let record = capacity_record(1, spec);
        assert_eq!(record.validate(), Ok(()));
        let finding = find(&record).expect("an objective");
        finding.expect("a search")
    }

    #[test]
    fn what_was_found_is_said() {
        let cases = [
            found(400.0, None, 5_000.0),
            found(4_000.0, None, 500.0),
            found(5.0, None, 5_000.0),
            found(400.0, Some(600.0), 5_000.0),
            found(400.0, Some(300.0), 5_000.0),
            found(400.0, Some(404.0), 5_000.0),
            found(400.0, Some(4_000.0), 600.0),
            found(400.0, Some(5.0), 600.0),
        ];
        let said: Vec<String> = cases
            .iter()
            .map(|finding| {
                format!(
                    "{:?}: {}\n  {}\n  next: {}\n",
                    finding.verdict,
                    finding.headline,
                    finding.notes.join("\n  "),
                    finding.next_action
                )
            })
            .collect();
        insta::assert_snapshot!(said.join("\n"));
    }

    #[test]
    fn a_record_of_another_kind_has_no_capacity() {
        let record = run_record(1, 10, &[EndpointSpec::new("GET a", 10.0)]);
        assert_eq!(find(&record), Ok(None));
    }

    #[test]
    fn an_invalid_block_says_nothing_of_the_service() {
        let spec = CapacitySpec {
            before: 400.0,
            after: None,
            highest: 5_000.0,
        };
        let mut record = capacity_record(1, spec);
        for block in &mut record.blocks {
            block.validity.ok = false;
        }
        // What holds although we are late holds, and what piles up is not of our making.
        let finding = find(&record).expect("an objective").expect("a search");
        let ends = finding.arms[0]
            .trials
            .iter()
            .map(|of| (of.is_saturated, of.end));
        for (is_saturated, end) in ends {
            assert_eq!(is_saturated, end == TrialEnd::Failed);
        }
        for block in &mut record.blocks {
            block.local_faults.insert(LocalFault::NoPorts, 1);
        }
        let finding = find(&record).expect("an objective").expect("a search");
        assert_eq!(finding.arms[0].capacity, Capacity::Unknown);
        assert_eq!(finding.verdict, Some(Verdict::Invalid));
    }
}
