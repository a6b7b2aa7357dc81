//! Whether a service kept up with an open load. That it didn't is a result, not a fault.
//!
//! A block's service is saturated if arrivals were left without a user, or if its backlog (what
//! had arrived and not ended) never came down any more: the least backlog that arrivals of the
//! fourth quarter of the schedule met is above that of the third by more than [`GROWTH_SHARE`]
//! of the arrivals of a quarter, and by more than [`GROWTH_SIGMAS`] standard deviations of what
//! chance does. The *least* of a quarter, because a service that stalls and catches up is no
//! saturated one; the second half, because responses of up to half the block's length have
//! filled the pipe by then. The standard deviation is the smaller one of two: that of a Poisson
//! number of arrivals in a quarter (all a saturated service lets grow), and that of the
//! difference of two Poisson backlogs of this size (all that varies where nobody waits: M/G/∞).

use std::collections::BTreeMap;

use crate::comparison::{Family, Metric, Outcome};
use crate::level::Level;
use crate::pairing::Pairing;
use crate::record::{Block, Load, OpenBlock};
use crate::wording;

/// Backlog may grow by this share of what arrives, without being called saturation.
pub const GROWTH_SHARE: f64 = 0.05;
/// Growth that chance makes is below so many standard deviations.
pub const GROWTH_SIGMAS: f64 = 2.0;

/// Whether the service of this block did not keep up with what was offered.
pub fn is_saturated(block: &OpenBlock) -> bool {
    if block.queued_at_end > 0 {
        return true;
    }
    let third = block.backlog_least_third_quarter as f64;
    let growth = block.backlog_least_fourth_quarter as f64 - third;
    let arrivals = block.arrivals_fourth_quarter as f64;
    let sigma = arrivals.sqrt().min((2.0 * third + 1.0).sqrt());
    growth > GROWTH_SHARE * arrivals && growth > GROWTH_SIGMAS * sigma
}

/// Whether most of these blocks were saturated.
pub(crate) fn mostly(blocks: &[&Block]) -> bool {
    let open = || blocks.iter().filter_map(|block| block.open.as_ref());
    2 * open().filter(|block| is_saturated(block)).count() > open().count()
}

/// What a block's service did with the arrivals, in words; `None` without an open load.
pub fn sentence(block: &OpenBlock) -> Option<String> {
    let (offered, ended) = (block.offered_per_second()?, block.ended_per_second()?);
    let mut text = format!(
        "{} of {} arrivals per second served",
        wording::number(ended),
        wording::number(offered)
    );
    if block.queued_at_end > 0 {
        text.push_str(&format!(
            ", {} still waiting at the end for one of {} users",
            wording::count(block.queued_at_end),
            wording::count(u64::from(block.in_flight_max))
        ));
    } else if is_saturated(block) {
        text.push_str(&format!(
            ", and the backlog grew to {}",
            wording::count(block.backlog_least_fourth_quarter)
        ));
    }
    Some(text)
}

/// Which versions were saturated at one level, by most of their blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Saturation {
    /// At which rate.
    pub level: Level,
    /// The version before.
    pub before: bool,
    /// The version after.
    pub after: bool,
    /// Arrivals per second, mean of the blocks of both versions.
    pub offered_per_second: f64,
    /// Arrivals per second that the version before served within the schedule, mean.
    pub before_per_second: f64,
    /// The same of the version after.
    pub after_per_second: f64,
}

impl Saturation {
    /// True if anybody was.
    pub fn is_any(&self) -> bool {
        self.before || self.after
    }

    /// What follows for a metric, and why; `None` where nothing does. A latency of a saturated
    /// version is no measurement of it but of how long it was overloaded.
    pub(crate) fn outcome(&self, metric: Metric) -> Option<(Outcome, String)> {
        if !self.is_any() {
            return None;
        }
        if metric.family() == Family::Latency || metric == Metric::ProbeP90 {
            let note = "Not compared: a version was saturated, so this grows with the run.";
            return Some((Outcome::Saturated, note.to_owned()));
        }
        let outcome = match (self.before, self.after) {
            _ if metric != Metric::Throughput => return None,
            (false, _) => Outcome::Regression,
            (true, false) => Outcome::Improvement,
            (true, true) => Outcome::Inconclusive { pairs_needed: None },
        };
        Some((outcome, self.sentence()))
    }

    /// One sentence.
    pub fn sentence(&self) -> String {
        let offered = wording::number(self.offered_per_second);
        let (before, after) = (
            wording::number(self.before_per_second),
            wording::number(self.after_per_second),
        );
        match (self.before, self.after) {
            (false, false) => format!("Both versions keep up with {offered} arrivals per second."),
            (false, true) => format!(
                "The new version can't keep up with {offered} arrivals per second (it serves \
                 {after}); the old one can."
            ),
            (true, false) => format!(
                "The new version keeps up with {offered} arrivals per second; the old one can't \
                 (it serves {before})."
            ),
            (true, true) => format!(
                "Neither version keeps up with {offered} arrivals per second (they serve {before} \
                 and {after}): compare their capacity."
            ),
        }
    }
}

/// Of each level of an open load, which version was saturated.
pub(crate) fn by_level(load: &Load, pairing: &Pairing<'_>) -> BTreeMap<u32, Saturation> {
    let levels = pairing.levels.iter();
    levels
        .filter_map(|(level, pairs)| {
            let before: Vec<&Block> = pairs.iter().map(|pair| pair.before).collect();
            let after: Vec<&Block> = pairs.iter().map(|pair| pair.after).collect();
            let found = of(Level::of(load, *level), &before, &after)?;
            Some((*level, found))
        })
        .collect()
}

/// Which of two versions was saturated at one level; `None` unless both had open blocks.
pub(crate) fn of(level: Level, before: &[&Block], after: &[&Block]) -> Option<Saturation> {
    let (before, after) = (Arm::of(before)?, Arm::of(after)?);
    Some(Saturation {
        level,
        before: before.is_saturated,
        after: after.is_saturated,
        offered_per_second: (before.offered + after.offered) / 2.0,
        before_per_second: before.served,
        after_per_second: after.served,
    })
}

struct Arm {
    is_saturated: bool,
    offered: f64,
    served: f64,
}

impl Arm {
    fn of(blocks: &[&Block]) -> Option<Self> {
        let open: Vec<&OpenBlock> = blocks
            .iter()
            .filter_map(|block| block.open.as_ref())
            .collect();
        let mean = |of: fn(&OpenBlock) -> Option<f64>| {
            let values: Vec<f64> = open.iter().filter_map(|block| of(block)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        Some(Self {
            is_saturated: mostly(blocks),
            offered: mean(OpenBlock::offered_per_second)?,
            served: mean(OpenBlock::ended_per_second)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(third: u64, fourth: u64, arrivals: u64) -> OpenBlock {
        OpenBlock {
            arrivals: arrivals * 4,
            begun: arrivals * 4,
            ended_in_time: arrivals * 4 - fourth,
            duration_ms: 10_000,
            in_flight_max: 1_000,
            backlog_least_third_quarter: third,
            backlog_least_fourth_quarter: fourth,
            arrivals_fourth_quarter: arrivals,
            ..OpenBlock::default()
        }
    }

    #[test]
    fn a_backlog_that_grows_is_saturation() {
        // 600 per second offered for 10 s, 500 served: 500 and 750 behind at the quarters' begin.
        assert!(is_saturated(&block(500, 750, 1_500)));
        // Twice of what it can at 10 per second: 25 and 37.
        assert!(is_saturated(&block(25, 37, 25)));
        // 3 % more than it can is below what is looked for.
        assert!(!is_saturated(&block(75, 112, 1_250)));
    }

    #[test]
    fn a_backlog_that_only_varies_is_none() {
        assert!(!is_saturated(&block(0, 0, 1_000)));
        assert!(!is_saturated(&block(1, 4, 25)), "few, and chance");
        // Slow answers: 100 per second that take 2 s each.
        assert!(!is_saturated(&block(185, 205, 250)));
        // A stalled block that was left has no fourth quarter.
        assert!(!is_saturated(&block(300, 0, 0)));
    }

    #[test]
    fn who_waits_for_a_user_at_the_end_has_not_been_served() {
        let cut = OpenBlock {
            queued_at_end: 1_200,
            ..block(1_000, 1_000, 1_500)
        };
        assert!(is_saturated(&cut));
        assert_eq!(
            sentence(&cut)
                .expect("an open block")
                .replace('\u{a0}', " "),
            "500 of 600 arrivals per second served, 1 200 still waiting at the end for one of \
             1 000 users"
        );
        assert_eq!(
            sentence(&block(2, 3, 250)).expect("an open block"),
            "99.7 of 100 arrivals per second served"
        );
        assert_eq!(sentence(&OpenBlock::default()), None);
    }
}
