//! What a service's monitor counted between the edges of a block, by endpoint of the scenario.

use std::collections::BTreeMap;

use unstall_loop_monitor::wire;
use unstall_results::histogram::LatencyHistogram;
use unstall_results::record::{
    BlockedTime, EndpointSamples, MonitorDelta, MonitorEndpoint, ThreadCount,
};
use unstall_scenarios::plan::{Plan, Request};

use crate::monitor_client::Edge;
use crate::route_template::best_route;

/// What came of two edges.
#[derive(Debug, Clone, PartialEq)]
pub enum Difference {
    /// One process served the whole block.
    Of(Box<Delta>),
    /// Another process answered at the end.
    Restarted,
    /// Several processes answer behind one port.
    SeveralWorkers,
}

/// What one process counted during a block.
#[derive(Debug, Clone, PartialEq)]
pub struct Delta {
    /// For the record, without the route of the probe.
    pub monitor: MonitorDelta,
    /// What the service itself counted, by name; `None` from a monitor that doesn't tell.
    pub service_counters: Option<BTreeMap<String, u64>>,
    /// The route of the probe, if no endpoint of the scenario shares it.
    pub probe: Option<MonitorEndpoint>,
    /// The scenario's endpoint that shares its route with the probe, so that the monitor counts
    /// both together.
    pub shared_with_probe: Option<String>,
}

/// What the monitor counted between two edges, by the scenario's endpoints. What the probe
/// at `probe_path` caused is kept apart: it is no part of the load.
pub fn difference(
    before: &Edge,
    after: &Edge,
    plan: &Plan,
    probe_path: Option<&str>,
) -> Difference {
    if before.start_ids.len() > 1 || after.start_ids.len() > 1 {
        return Difference::SeveralWorkers;
    }
    if before.start_ids != after.start_ids {
        return Difference::Restarted;
    }
    let (old, new) = (&before.snapshot, &after.snapshot);
    let nothing = wire::Endpoint::default();
    let probed = probe_path.and_then(|path| best_route("GET", path, names(&new.endpoints)));
    let mut endpoints = BTreeMap::new();
    let mut probe = None;
    let mut shared_with_probe = None;
    for (route, counters) in &new.endpoints {
        let delta = endpoint_delta(old.endpoints.get(route).unwrap_or(&nothing), counters);
        // What did nothing in this block is not part of it.
        if delta.requests == 0 && delta.polls == 0 {
            continue;
        }
        let mut sharing = requests_of(route, &new.endpoints, plan).map(|(_, request)| request);
        match (probed == Some(route), sharing.next()) {
            (true, None) => probe = Some(delta),
            (is_probed, first) => {
                shared_with_probe = shared_with_probe
                    .or_else(|| first.filter(|_| is_probed).map(|one| one.name.clone()));
                // Time on a shared route can't be charged to one of two.
                let name = match (first, sharing.next()) {
                    (Some(request), None) => request.name.clone(),
                    _ => route.clone(),
                };
                endpoints.insert(name, delta);
            }
        }
    }
    let monitor = MonitorDelta {
        mode: match new.mode {
            wire::Mode::Counters => "counters",
            wire::Mode::FullSplit => "full-split",
            wire::Mode::Holds => "holds",
        }
        .to_owned(),
        endpoints,
        unattributed_blocked_us: us(
            blocked_ns(&new.unattributed).saturating_sub(blocked_ns(&old.unattributed))
        ),
        loop_lag: lag_delta(old.loop_lag.as_ref(), new.loop_lag.as_ref()),
        threads: ThreadCount {
            workers: new.threads.workers,
            pool: new.threads.pool,
            other: new.threads.other,
        },
    };
    Difference::Of(Box::new(Delta {
        monitor,
        service_counters: counters_delta(old.counters.as_ref(), new.counters.as_ref()),
        probe,
        shared_with_probe,
    }))
}

/// Whether the monitor counted fewer requests of an endpoint than were answered: then another
/// process answered the rest, although none showed itself at the edges.
pub fn misses_requests(seen: &MonitorDelta, answered: &BTreeMap<String, EndpointSamples>) -> bool {
    answered.iter().any(|(name, samples)| {
        let endpoint = seen.endpoints.get(name);
        endpoint.is_some_and(|endpoint| endpoint.requests < samples.completed)
    })
}

/// Also of those that didn't grow: that a fault wasn't met is a finding. One that the service
/// made since the first edge began at 0.
fn counters_delta(
    old: Option<&BTreeMap<String, u64>>,
    new: Option<&BTreeMap<String, u64>>,
) -> Option<BTreeMap<String, u64>> {
    let before = |name| old.and_then(|old| old.get(name)).copied().unwrap_or(0);
    let grown = new?
        .iter()
        .map(|(name, &value)| (name.clone(), value.saturating_sub(before(name))));
    Some(grown.collect())
}

fn endpoint_delta(old: &wire::Endpoint, new: &wire::Endpoint) -> MonitorEndpoint {
    let slept_ns = new.blocked.slept_ns.saturating_sub(old.blocked.slept_ns);
    let fault_ns = new.blocked.fault_ns.saturating_sub(old.blocked.fault_ns);
    let hold_us_max = hold_max_us(old, new);
    MonitorEndpoint {
        requests: new.requests.saturating_sub(old.requests),
        polls: new.polls.saturating_sub(old.polls),
        hold_us_sum: us(new.hold_ns_sum.saturating_sub(old.hold_ns_sum)),
        hold_us_max,
        holds_over_100ms: new.holds_over.ms_100.saturating_sub(old.holds_over.ms_100),
        cpu_us: us(new.cpu_ns.saturating_sub(old.cpu_ns)),
        runqueue_us: us(new.runqueue_ns.saturating_sub(old.runqueue_ns)),
        blocked_us: BlockedTime {
            slept: us(slept_ns),
            fault: us(fault_ns),
        },
        blocks_over_200us: new
            .blocked
            .events_over_200us
            .saturating_sub(old.blocked.events_over_200us),
        blocked_us_max: us(if new.blocked.ns_max > old.blocked.ns_max {
            new.blocked.ns_max
        } else {
            // The record was set before this block; it, the block's sum and its longest poll
            // bound what was in it.
            let bound_ns = slept_ns.saturating_add(fault_ns);
            let bound_ns = bound_ns.min(hold_us_max.saturating_mul(1_000));
            new.blocked.ns_max.min(bound_ns)
        }),
    }
}

/// The longest poll of the block: exact if it set a record, else the upper end of the
/// highest bucket that grew, which is at most twice the truth.
fn hold_max_us(old: &wire::Endpoint, new: &wire::Endpoint) -> u64 {
    if new.hold_ns_max > old.hold_ns_max {
        return us(new.hold_ns_max);
    }
    let grown = histogram_delta(Some(&old.hold), &new.hold);
    let bound = grown
        .last()
        .map_or(0, |&(bucket, _)| 1_u64 << (bucket + 1).min(63));
    bound.min(us(new.hold_ns_max))
}

/// Buckets that grew, with by how much.
fn histogram_delta(old: Option<&wire::Histogram>, new: &wire::Histogram) -> Vec<(usize, u64)> {
    let before = |bucket| {
        old.and_then(|old| old.log2_us.get(bucket))
            .copied()
            .unwrap_or(0)
    };
    new.log2_us
        .iter()
        .enumerate()
        .map(|(bucket, &count)| (bucket, count.saturating_sub(before(bucket))))
        .filter(|&(_, count)| count > 0)
        .collect()
}

/// Each value stands in the middle of its bucket: it is known no better than by a factor of two.
fn lag_delta(
    old: Option<&wire::Histogram>,
    new: Option<&wire::Histogram>,
) -> Option<LatencyHistogram> {
    // 49 days of ticks of 1 ms: what is more was not counted, and could not be written down.
    const COUNT_MAX: u64 = u32::MAX as u64;
    let mut lag = LatencyHistogram::new();
    for (bucket, count) in histogram_delta(old, new?) {
        let middle_us = if bucket == 0 {
            1
        } else {
            3_u64 << (bucket - 1).min(61)
        };
        // At once: the count is the service's word, and may be any number.
        lag.record_us_times(middle_us, count.min(COUNT_MAX));
    }
    Some(lag)
}

fn blocked_ns(blocked: &wire::Blocked) -> u64 {
    blocked.slept_ns.saturating_add(blocked.fault_ns)
}

/// Nanoseconds to the nearest microsecond.
fn us(ns: u64) -> u64 {
    ns.saturating_add(500) / 1_000
}

fn names(routes: &BTreeMap<String, wire::Endpoint>) -> impl Iterator<Item = &str> {
    routes.keys().map(String::as_str)
}

/// The scenario's requests that a monitored route stands for, with their places in the plan: it is
/// the best match of each.
pub(crate) fn requests_of<'p>(
    route: &str,
    routes: &BTreeMap<String, wire::Endpoint>,
    plan: &'p Plan,
) -> impl Iterator<Item = (usize, &'p Request)> {
    // The monitor is the target's; other hosts' requests may have routes of the same name.
    let of_target = plan
        .requests
        .iter()
        .enumerate()
        .filter(|(_, request)| request.host.is_none());
    of_target.filter(move |(_, request)| {
        best_route(&request.method, &request.path.to_string(), names(routes)) == Some(route)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_counts_only_what_came_between() {
        let old = wire::Endpoint {
            requests: 10,
            polls: 20,
            hold_ns_sum: 5_000_000,
            hold_ns_max: 4_000_000,
            hold: wire::Histogram {
                log2_us: vec![0, 3, 0, 1],
            },
            blocked: wire::Blocked {
                slept_ns: 1_000_000,
                ns_max: 900_000,
                ..wire::Blocked::default()
            },
            ..wire::Endpoint::default()
        };
        let mut new = old.clone();
        new.requests = 15;
        new.hold_ns_sum = 5_100_400;
        new.hold.log2_us[1] = 5;
        new.blocked.slept_ns = 1_300_000;
        let delta = endpoint_delta(&old, &new);
        assert_eq!(delta.requests, 5);
        assert_eq!(delta.hold_us_sum, 100);
        assert_eq!(
            delta.hold_us_max, 4,
            "the bucket 2 to 4 µs grew, no record was set"
        );
        assert_eq!(delta.blocked_us.slept, 300);
        assert_eq!(delta.blocked_us_max, 4, "no poll was longer");
        new.hold.log2_us[3] = 2;
        let delta = endpoint_delta(&old, &new);
        assert_eq!(delta.blocked_us_max, 16, "nor was this one");
        new.hold.log2_us.resize(12, 0);
        new.hold.log2_us[11] = 1;
        let delta = endpoint_delta(&old, &new);
        assert_eq!(delta.blocked_us_max, 300, "bounded by the sum");
    }

    #[test]
    fn what_a_service_counts_is_told_of_every_counter() {
        let counters = |values: &[(&str, u64)]| -> BTreeMap<String, u64> {
            let named = values.iter();
            named
                .map(|&(name, value)| (name.to_owned(), value))
                .collect()
        };
        let old = counters(&[("grown", 3), ("still", 5)]);
        let new = counters(&[("grown", 10), ("still", 5), ("made since", 2)]);
        let grown = counters(&[("grown", 7), ("still", 0), ("made since", 2)]);
        assert_eq!(counters_delta(Some(&old), Some(&new)), Some(grown));
        assert_eq!(counters_delta(None, None), None, "an older monitor");
    }

    #[test]
    fn a_forged_count_takes_no_time_and_can_be_written() {
        let new = wire::Histogram {
            log2_us: vec![2, u64::MAX, 0, 1],
        };
        let lag = lag_delta(None, Some(&new)).expect("there is one");
        assert_eq!(lag.count(), u64::from(u32::MAX) + 3);
        assert_eq!(lag.max_us(), Some(12));
        assert!(serde_json::to_string(&lag).is_ok());
    }

    #[test]
    fn counters_at_their_end_do_not_overflow() {
        let old = wire::Endpoint::default();
        let new = wire::Endpoint {
            blocked: wire::Blocked {
                slept_ns: u64::MAX,
                fault_ns: u64::MAX,
                ..wire::Blocked::default()
            },
            ..wire::Endpoint::default()
        };
        assert_eq!(endpoint_delta(&old, &new).blocked_us.slept, us(u64::MAX));
        assert_eq!(blocked_ns(&new.blocked), u64::MAX);
    }
}
