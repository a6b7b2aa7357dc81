//! What one version's record says, endpoint by endpoint, without a comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::comparison::{Estimate, Metric};
use crate::level::Level;
use crate::measure::{Subject, Times, estimate};
use crate::order_statistics::requests_needed;
use crate::record::{Block, ErrorKind, OpenBlock, RunRecord};
use crate::saturation;
use crate::stated;
use crate::wording;

/// One arm × level × endpoint of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Key of [`RunRecord::arms`].
    pub arm: String,
    /// Concurrency or offered rate.
    pub level: Level,
    /// Endpoint, or `None` for the whole service.
    pub endpoint: Option<String>,
    /// Valid blocks behind it.
    pub blocks: u64,
    /// Requests that ended well or badly.
    pub requests: u64,
    /// Those that ended well.
    pub completed: u64,
    /// Failures by kind, only kinds that occurred.
    pub errors: BTreeMap<ErrorKind, u64>,
    /// Successes per second of the blocks' wall time.
    pub throughput_per_second: f64,
    /// What the service did with an open load's arrivals, in words, of its worst block; only of
    /// the whole service.
    pub arrivals: Option<String>,
    /// In most of its blocks the service could not keep up with the arrivals.
    pub is_saturated: bool,
    /// Response percentiles in ms; empty for the whole service, whose requests are
    /// not alike.
    pub percentiles: Vec<Percentile>,
    /// Longest successful response.
    pub response_us_max: Option<u64>,
    /// Blocked loop time, ms per 1 000 requests, where a monitor counted it.
    pub blocked_ms_per_1000: Option<f64>,
    /// CPU of the service, µs per request.
    pub cpu_us_per_request: Option<f64>,
    /// Most threads seen, mean of the blocks.
    pub threads: Option<f64>,
    /// Highest resident set, mean of the blocks.
    pub rss_mib: Option<f64>,
}

/// One percentile with what may be said about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Percentile {
    /// 0.5, 0.95 or 0.99.
    pub q: f64,
    /// In ms, with its interval where the sample allows one.
    pub estimate: Estimate,
    /// Requests per block from which it would be judged, if there are fewer.
    pub insufficient: Option<u64>,
}

/// Summaries of all arms, levels and endpoints, in the scenario's order, the whole
/// service after its endpoints. Invalid blocks are left out.
pub fn summarise(record: &RunRecord) -> Vec<Summary> {
    let groups: BTreeSet<(&str, u32)> = record
        .blocks
        .iter()
        .filter(|block| block.validity.ok)
        .map(|block| (block.arm.as_str(), block.level))
        .collect();
    // "before" stands before "after".
    let ordered = groups.into_iter().rev();
    let mut summaries = Vec::new();
    for (arm, level) in ordered {
        let blocks: Vec<&Block> = record
            .blocks
            .iter()
            .filter(|block| block.validity.ok && block.arm == arm && block.level == level)
            .collect();
        let subjects = record.scenario.endpoints.iter().map(Some).chain([None]);
        let level = Level::of(&record.load, level);
        summaries.extend(subjects.map(|subject| summary(record, arm, level, &blocks, subject)));
    }
    summaries.sort_by_key(|summary| (summary.arm != "before", summary.level));
    summaries
}

fn summary(
    record: &RunRecord,
    arm: &str,
    level: Level,
    blocks: &[&Block],
    subject: Subject<'_>,
) -> Summary {
    let mut completed = 0u64;
    let mut errors: BTreeMap<ErrorKind, u64> = BTreeMap::new();
    for block in blocks {
        let counts = match subject {
            Some(endpoint) => block
                .endpoints
                .get(&endpoint.name)
                .map(|samples| (samples.completed, &samples.errors)),
            None => Some((block.completed, &block.errors)),
        };
        let Some((successes, failures)) = counts else {
            continue;
        };
        completed = completed.saturating_add(successes);
        for (kind, count) in failures.iter().filter(|(_, count)| **count > 0) {
            let sum = errors.entry(*kind).or_insert(0);
            *sum = sum.saturating_add(*count);
        }
    }
    let wall_ns = blocks
        .iter()
        .fold(0u64, |sum, block| sum.saturating_add(block.wall_ns));
    let seconds = Duration::from_nanos(wall_ns).as_secs_f64();
    let value = |metric| estimate(blocks, subject, metric).value;
    let samples = blocks
        .iter()
        .filter_map(|block| block.endpoints.get(&subject?.name));
    Summary {
        arm: arm.to_owned(),
        level,
        endpoint: subject.map(|endpoint| endpoint.name.clone()),
        blocks: blocks.len() as u64,
        requests: errors
            .values()
            .fold(completed, |sum, count| sum.saturating_add(*count)),
        completed,
        errors,
        throughput_per_second: if seconds > 0.0 {
            completed as f64 / seconds
        } else {
            0.0
        },
        arrivals: subject.is_none().then(|| arrivals(blocks)).flatten(),
        is_saturated: saturation::mostly(blocks),
        percentiles: percentiles(record, blocks, subject),
        response_us_max: Times::of(samples, Metric::ResponseP50)
            .and_then(|times| times.longest_us())
            .or_else(|| stated::longest_us(record.arms.get(arm)?, subject)),
        blocked_ms_per_1000: value(Metric::BlockedMsPer1000),
        cpu_us_per_request: value(Metric::CpuUsPerRequest),
        threads: subject.is_none().then(|| value(Metric::Threads)).flatten(),
        rss_mib: subject.is_none().then(|| value(Metric::RssMib)).flatten(),
    }
}

/// Of the block that served the smallest share.
fn arrivals(blocks: &[&Block]) -> Option<String> {
    let open = blocks.iter().filter_map(|block| block.open.as_ref());
    let share = |block: &OpenBlock| block.ended_in_time as f64 / block.arrivals.max(1) as f64;
    let worst = open.min_by(|one, other| share(one).total_cmp(&share(other)))?;
    saturation::sentence(worst)
}

fn percentiles(record: &RunRecord, blocks: &[&Block], subject: Subject<'_>) -> Vec<Percentile> {
    if subject.is_none() {
        return Vec::new();
    }
    [
        Metric::ResponseP50,
        Metric::ResponseP95,
        Metric::ResponseP99,
    ]
    .into_iter()
    .filter_map(|metric| Some((metric, metric.quantile()?)))
    .map(|(metric, q)| {
        let estimate = stated::estimate(record, blocks, subject, metric)
            .unwrap_or_else(|| estimate(blocks, subject, metric));
        let needed = requests_needed(q);
        let per_block = estimate.n / estimate.per_block.len().max(1) as u64;
        Percentile {
            q,
            estimate,
            insufficient: (per_block < needed).then_some(needed),
        }
    })
    .collect()
}

/// Endpoints that were answered about as fast as a server that does nothing, with what that
/// means; empty where the floor is not known.
pub fn near_the_floor(record: &RunRecord) -> Vec<String> {
    const TIMES_FLOOR: f64 = 2.0;
    let Some(floor) = &record.floor else {
        return Vec::new();
    };
    let floor_ms = floor.response_us_p50 as f64 / 1_000.0;
    let mut near: Vec<(String, f64)> = Vec::new();
    for summary in summarise(record) {
        let median = summary.percentiles.first();
        let value = median.and_then(|median| median.estimate.value);
        let (Some(endpoint), Some(ms)) = (summary.endpoint, value) else {
            continue;
        };
        if ms >= TIMES_FLOOR * floor_ms {
            continue;
        }
        match near.iter_mut().find(|(name, _)| *name == endpoint) {
            Some((_, least)) => *least = least.min(ms),
            None => near.push((endpoint, ms)),
        }
    }
    near.into_iter()
        .map(|(endpoint, ms)| {
            format!(
                "{endpoint}: its p50 of {} ms is hardly more than the {} ms of a server that does \
                 nothing on this machine: mostly the machine was measured.",
                wording::number(ms),
                wording::number(floor_ms)
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::MachineFloor;
    use crate::synthetic::{EndpointSpec, record, run_record};

    #[test]
    fn one_version() {
        let specs = [
            EndpointSpec {
                errors_before: 0.02,
                blocked_before_ms: 100.0,
                ..EndpointSpec::new("GET a", 10.0)
            },
            EndpointSpec::new("GET b", 20.0),
        ];
        let found = summarise(&run_record(1, 400, &specs));
        let text: Vec<String> = found
            .iter()
            .map(|row| {
                let shown = |p: &Percentile| {
                    format!(
                        "p{:.0} {}{:.1} [{:?} {:?}] insufficient {:?}",
                        p.q * 100.0,
                        if p.estimate.at_least { "> " } else { "" },
                        p.estimate.value.unwrap(),
                        p.estimate.low,
                        p.estimate.high,
                        p.insufficient
                    )
                };
                let percentiles: Vec<String> = row.percentiles.iter().map(shown).collect();
                format!(
                    "{} {} {:?}: {} of {} ok, {:?}, {:.0}/s, max {:?}, blocked {:?}, threads {:?}\n  {}",
                    row.arm,
                    row.level,
                    row.endpoint,
                    row.completed,
                    row.requests,
                    row.errors,
                    row.throughput_per_second,
                    row.response_us_max,
                    row.blocked_ms_per_1000,
                    row.threads,
                    percentiles.join("\n  ")
                )
            })
            .collect();
        insta::assert_snapshot!(text.join("\n"));
    }

    #[test]
    fn what_is_as_fast_as_nothing_is_named() {
        let specs = [
            EndpointSpec::new("GET a", 0.1),
            EndpointSpec::new("GET b", 20.0),
        ];
        let mut measured = run_record(1, 400, &specs);
        assert_eq!(near_the_floor(&measured), Vec::<String>::new());
        measured.floor = Some(MachineFloor {
            response_us_p50: 80,
            response_us_p99: 400,
            requests_per_second: 20_000.0,
        });
        let near = near_the_floor(&measured);
        assert_eq!(near.len(), 1, "{near:?}");
        assert!(near[0].starts_with("GET a: its p50 of 0."), "{near:?}");
    }

    #[test]
    fn two_versions_and_no_valid_block() {
        let mut two = record(1, 5, 50, &[EndpointSpec::new("GET a", 10.0)]);
        let found = summarise(&two);
        let arms: Vec<&str> = found.iter().map(|row| row.arm.as_str()).collect();
        assert_eq!(arms, ["before", "before", "after", "after"]);
        assert_eq!(found[0].requests, 250);
        for block in &mut two.blocks {
            block.validity.ok = false;
        }
        assert_eq!(summarise(&two), Vec::new());
    }
}
