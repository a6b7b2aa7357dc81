//! What others felt: the times of the bystander probe, which asked for a trivial route
//! beside the load. They need no instrumentation of the service, in any language.

use std::collections::{BTreeMap, BTreeSet};

use crate::comparison::Estimate;
use crate::histogram::LatencyHistogram;
use crate::level::Level;
use crate::measure::{blocked_us, percentile, probe_times};
use crate::record::{Block, ErrorKind, ProbeSamples, RunRecord};
use crate::validate::{saturating_sum, total};

/// Lateness of our own below this is no reason for doubt, µs: no stall that anybody looks for
/// is as short.
const LAG_P99_US_HARMLESS: u64 = 1_000;

/// What bystanders of one arm waited at one level, over its valid blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct Bystander {
    /// Key of [`RunRecord::arms`].
    pub arm: String,
    /// Concurrency or offered rate of the load meanwhile.
    pub level: Level,
    /// Blocks behind it.
    pub blocks: u64,
    /// Requests that were due.
    pub offered: u64,
    /// Answers.
    pub completed: u64,
    /// Failures by kind, only kinds that occurred.
    pub errors: BTreeMap<ErrorKind, u64>,
    /// Without an answer when their block ended.
    pub in_flight: u64,
    /// Median in ms, with its interval where the sample allows one.
    pub p50: Estimate,
    /// 90th percentile of the same.
    pub p90: Estimate,
    /// 99th percentile of the same.
    pub p99: Estimate,
    /// The longest that anybody waited, ms; a bound if it is that of a request without an
    /// answer. It has no interval.
    pub longest: Estimate,
    /// Our own lateness, 99th percentile in µs: part of the times above.
    pub lag_us_p99: Option<u64>,
    /// How long the probe's own route blocked the loop, ms per 1 000 of its requests, where a
    /// monitor counted it.
    pub blocked_ms_per_1000: Option<f64>,
    /// Why these numbers are doubtful, if they are, with what to do.
    pub doubt: Option<String>,
}

/// What bystanders waited, by arm and level; empty without a probe. Invalid blocks are left out.
pub fn bystanders(record: &RunRecord) -> Vec<Bystander> {
    let valid = || record.blocks.iter().filter(|block| block.validity.ok);
    let groups: BTreeSet<(bool, &str, u32)> = valid()
        .filter(|block| block.probe.is_some())
        .map(|block| (block.arm != "before", block.arm.as_str(), block.level))
        .collect();
    groups
        .into_iter()
        .map(|(_, arm, level)| {
            let blocks = valid().filter(|block| block.arm == arm && block.level == level);
            let probes: Vec<&ProbeSamples> =
                blocks.filter_map(|block| block.probe.as_ref()).collect();
            bystander(arm, Level::of(&record.load, level), &probes)
        })
        .collect()
}

/// Why a block's probe is doubtful, if it is, with what to do. The load beside it is as good
/// as without.
pub fn doubt(probe: &ProbeSamples) -> Option<String> {
    doubt_of(&[probe])
}

/// The same over the blocks of both arms of a comparison.
pub(crate) fn doubt_of_blocks(blocks: &[&Block]) -> Option<String> {
    let probes: Vec<&ProbeSamples> = blocks
        .iter()
        .filter_map(|block| block.probe.as_ref())
        .collect();
    doubt_of(&probes)
}

fn doubt_of(probes: &[&ProbeSamples]) -> Option<String> {
    if probes.iter().any(|probe| !probe.local_faults.is_empty()) {
        return Some(
            "some requests of the bystander probe found no free port or descriptor on this \
             machine, so its times are doubtful: raise `ulimit -n`, or use fewer users"
                .to_owned(),
        );
    }
    let lag_us = LatencyHistogram::sum(probes.iter().map(|probe| &probe.generator_lag));
    let lag_us = lag_us.quantile_us(0.99)?;
    let times = probe_times(probes).quantile(0.99)?;
    (lag_us > LAG_P99_US_HARMLESS && lag_us > times.us() / 2).then(|| {
        "the bystander probe was late itself, which makes up half of its p99 or more, so its \
         times are doubtful: free some CPU on this machine"
            .to_owned()
    })
}

fn bystander(arm: &str, level: Level, probes: &[&ProbeSamples]) -> Bystander {
    let sum = |of: fn(&ProbeSamples) -> u64| saturating_sum(probes.iter().map(|probe| of(probe)));
    let mut errors = BTreeMap::new();
    for (kind, count) in probes.iter().flat_map(|probe| &probe.errors) {
        if *count > 0 {
            let sum: &mut u64 = errors.entry(*kind).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
    let times = probe_times(probes);
    let lag = LatencyHistogram::sum(probes.iter().map(|probe| &probe.generator_lag));
    Bystander {
        arm: arm.to_owned(),
        level,
        blocks: probes.len() as u64,
        offered: sum(|probe| probe.offered),
        completed: sum(|probe| probe.completed),
        errors,
        in_flight: sum(|probe| probe.in_flight.count()),
        p50: percentile(&times, 0.5, Vec::new()),
        p90: percentile(&times, 0.9, Vec::new()),
        p99: percentile(&times, 0.99, Vec::new()),
        longest: longest(probes),
        lag_us_p99: lag.quantile_us(0.99),
        blocked_ms_per_1000: blocked_ms_per_1000(probes),
        doubt: doubt_of(probes),
    }
}

fn blocked_ms_per_1000(probes: &[&ProbeSamples]) -> Option<f64> {
    let seen = || probes.iter().filter_map(|probe| probe.monitor.as_ref());
    let requests = saturating_sum(seen().map(|route| route.requests));
    let blocked_us = saturating_sum(seen().map(blocked_us));
    (requests > 0).then(|| blocked_us as f64 / requests as f64)
}

/// A failure has waited, too, and would have gone on waiting.
fn longest(probes: &[&ProbeSamples]) -> Estimate {
    let max = |of: fn(&ProbeSamples) -> &LatencyHistogram| {
        let all = probes.iter().filter_map(|probe| of(probe).max_us());
        all.max().unwrap_or(0)
    };
    let answered_us = max(|probe| &probe.response);
    let unanswered_us = max(|probe| &probe.in_flight).max(max(|probe| &probe.failed));
    let n = saturating_sum(probes.iter().map(|probe| {
        saturating_sum([
            probe.completed,
            total(&probe.errors),
            probe.in_flight.count(),
        ])
    }));
    Estimate {
        value: (n > 0).then(|| answered_us.max(unanswered_us) as f64 / 1_000.0),
        at_least: unanswered_us > answered_us,
        n,
        ..Estimate::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::LocalFault;
    use crate::synthetic::{EndpointSpec, record};

    fn probe(times_us: &[u64], lag_us: u64) -> ProbeSamples {
        let mut probe = ProbeSamples {
            offered: times_us.len() as u64,
            completed: times_us.len() as u64,
            ..ProbeSamples::default()
        };
        for us in times_us {
            probe.response.record_us(*us);
            probe.generator_lag.record_us(lag_us);
        }
        probe
    }

    fn of(probes: Vec<ProbeSamples>) -> Bystander {
        let mut measured = record(1, 5, 50, &[EndpointSpec::new("GET a", 10.0)]);
        for block in &mut measured.blocks {
            block.probe = None;
        }
        let before = measured.blocks.iter_mut().filter(|b| b.arm == "before");
        for (block, probe) in before.zip(probes) {
            block.probe = Some(probe);
        }
        let mut found = bystanders(&measured);
        assert_eq!(found.len(), 1, "the other arm has none");
        found.remove(0)
    }

    #[test]
    fn blocks_are_pooled() {
        let fast: Vec<u64> = vec![1_000; 200];
        let slow: Vec<u64> = vec![20_000; 200];
        let seen = of(vec![probe(&fast, 10), probe(&slow, 10)]);
        assert_eq!((seen.arm.as_str(), seen.blocks), ("before", 2));
        assert_eq!((seen.offered, seen.completed), (400, 400));
        assert_eq!(seen.p50.value, Some(1.0));
        assert!(seen.p99.value.is_some_and(|ms| (19.9..20.1).contains(&ms)));
        assert!(seen.p99.low.is_some(), "400 suffice for an interval");
        assert!(!seen.longest.at_least);
        assert_eq!(seen.doubt, None);
    }

    #[test]
    fn who_never_got_an_answer_waited_longest() {
        let mut hung = probe(&[1_000; 50], 10);
        hung.in_flight.record_us(700_000);
        hung.offered += 1;
        let seen = of(vec![hung.clone()]);
        assert_eq!((seen.in_flight, seen.longest.at_least), (1, true));
        assert!(seen.longest.value.is_some_and(|ms| ms >= 700.0));
        assert_eq!(seen.p99.low, None, "51 are too few for an interval");
        // Failing fast is no short wait.
        hung.errors.insert(ErrorKind::Status, 10);
        for _ in 0..10 {
            hung.failed.record_us(300);
        }
        let seen = of(vec![hung]);
        assert_eq!((seen.p90.value, seen.p90.at_least), (Some(10_000.0), true));
    }

    #[test]
    fn lateness_of_our_own_is_told_where_it_is_what_one_sees() {
        assert_eq!(of(vec![probe(&[900; 100], 800)]).doubt, None, "harmless");
        assert_eq!(of(vec![probe(&[20_000; 100], 5_000)]).doubt, None);
        let late = of(vec![probe(&[6_000; 100], 5_000)]).doubt;
        assert!(late.is_some_and(|text| text.contains("late itself")));
        let mut faulty = probe(&[1_000; 100], 10);
        faulty.local_faults.insert(LocalFault::NoPorts, 1);
        assert!(doubt(&faulty).is_some());
    }
}
