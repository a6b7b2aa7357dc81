//! From blocks to numbers: what each metric is in one block, and over all blocks
//! of an arm.

use std::time::Duration;

use crate::comparison::{Estimate, Metric};
use crate::error_adjusted::{ErrorAdjusted, Quantile};
use crate::histogram::LatencyHistogram;
use crate::record::{
    Block, EndpointIdentity, EndpointSamples, MonitorEndpoint, PROBE_TIMEOUT_MS, ProbeSamples,
};
use crate::validate::{saturating_sum, total};
use crate::wilson::wilson;

/// Standard deviations on either side of an interval of 95 %.
const DEVIATIONS: f64 = 1.959_964;

/// What is measured: one endpoint, or the whole service.
pub(crate) type Subject<'a> = Option<&'a EndpointIdentity>;

/// One metric in one block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reading {
    /// In the metric's unit.
    pub(crate) value: f64,
    /// True when it is only a lower bound.
    pub(crate) at_least: bool,
    /// So many of the requests failed that it is one whatever the others would have been.
    pub(crate) is_surely_bound: bool,
    /// Requests behind it.
    pub(crate) n: u64,
}

/// A metric of one block; `None` where it was not measured.
pub(crate) fn reading(block: &Block, subject: Subject<'_>, metric: Metric) -> Option<Reading> {
    let exactly = |value: f64, n: u64| Reading {
        value,
        at_least: false,
        is_surely_bound: false,
        n,
    };
    if let Some(q) = metric.quantile() {
        let times = times(&[block], subject, metric)?;
        let quantile = times.quantile(q)?;
        return Some(Reading {
            value: milliseconds(quantile),
            at_least: quantile.is_bound(),
            is_surely_bound: times.is_surely_bound(q),
            n: times.count(),
        });
    }
    let requests = ended(block, subject)?;
    let per_request = |us: u64, requests: u64| {
        (requests > 0).then(|| exactly(us as f64 / requests as f64, requests))
    };
    match metric {
        Metric::ErrorRate => {
            let failed = failed(block, subject)?;
            (requests > 0).then(|| exactly(100.0 * failed as f64 / requests as f64, requests))
        }
        Metric::BlockedMsPer1000 => {
            let monitor = block.monitor.as_ref()?;
            if !monitor.measures_blocked() {
                return None;
            }
            match subject {
                Some(endpoint) => {
                    let seen = monitor.endpoints.get(&endpoint.name)?;
                    per_request(blocked_us(seen), seen.requests)
                }
                // What no endpoint could be charged with counts here, so that it counts somewhere.
                None => {
                    let us = monitor.endpoints.values().map(blocked_us);
                    let us = us.fold(monitor.unattributed_blocked_us, u64::saturating_add);
                    per_request(us, requests)
                }
            }
        }
        Metric::CpuUsPerRequest => match subject {
            Some(endpoint) => {
                let monitor = block.monitor.as_ref()?;
                let seen = monitor.endpoints.get(&endpoint.name)?;
                (monitor.mode == "full-split")
                    .then(|| per_request(seen.cpu_us, seen.requests))
                    .flatten()
            }
            None => per_request(block.process.as_ref()?.cpu_us, requests),
        },
        Metric::Threads => threads(block).map(|count| exactly(count as f64, 1)),
        Metric::RssMib => {
            let kib = block.process.as_ref()?.rss_kib_max;
            Some(exactly(kib as f64 / 1_024.0, 1))
        }
        Metric::Throughput => {
            let seconds = Duration::from_nanos(block.wall_ns).as_secs_f64();
            (seconds > 0.0).then(|| exactly(block.completed as f64 / seconds, block.completed))
        }
        // Percentiles were dealt with above.
        _ => None,
    }
}

/// A metric over all blocks of an arm: percentiles and error rates of all
/// requests together, the mean of the blocks for the rest.
///
/// The interval of a percentile or error rate takes requests as independent, which
/// within a block they are not: it shows what the sample's size allows, and is no
/// test. Tests use blocks.
pub(crate) fn estimate(blocks: &[&Block], subject: Subject<'_>, metric: Metric) -> Estimate {
    let readings: Vec<Reading> = blocks
        .iter()
        .filter_map(|block| reading(block, subject, metric))
        .collect();
    let per_block: Vec<f64> = readings.iter().map(|reading| reading.value).collect();
    let n = saturating_sum(readings.iter().map(|reading| reading.n));
    if readings.is_empty() {
        return Estimate::default();
    }
    if let (Some(q), Some(times)) = (metric.quantile(), times(blocks, subject, metric)) {
        return percentile(&times, q, per_block);
    }
    let mean = per_block.iter().sum::<f64>() / per_block.len() as f64;
    let mut estimate = Estimate {
        value: Some(mean),
        n,
        per_block,
        ..Estimate::default()
    };
    if metric == Metric::ErrorRate {
        let failures = blocks.iter().filter_map(|block| failed(block, subject));
        let rate = saturating_sum(failures) as f64 / n.max(1) as f64;
        let (low, high) = wilson(rate, n as f64, DEVIATIONS);
        estimate.value = Some(rate * 100.0);
        estimate.low = Some(low * 100.0);
        estimate.high = Some(high * 100.0);
    }
    estimate
}

/// The times that a percentile is taken from; `None` where there are none.
fn times(blocks: &[&Block], subject: Subject<'_>, metric: Metric) -> Option<ErrorAdjusted> {
    match (subject, metric) {
        (None, Metric::ProbeP90) => {
            let probes: Vec<&ProbeSamples> = blocks
                .iter()
                .filter_map(|block| block.probe.as_ref())
                .collect();
            (!probes.is_empty()).then(|| probe_times(&probes))
        }
        (Some(_), Metric::ProbeP90) | (None, _) => None,
        (Some(endpoint), _) => {
            let samples = blocks
                .iter()
                .filter_map(|block| block.endpoints.get(&endpoint.name));
            Some(Times::of(samples, metric)?.adjusted(endpoint))
        }
    }
}

/// What bystanders waited, all blocks together: a failure counts as having taken the timeout.
pub(crate) fn probe_times(probes: &[&ProbeSamples]) -> ErrorAdjusted {
    let sum = |of: fn(&ProbeSamples) -> &LatencyHistogram| {
        LatencyHistogram::sum(probes.iter().map(|probe| of(probe)))
    };
    let failed = saturating_sum(probes.iter().map(|probe| total(&probe.errors)));
    ErrorAdjusted::new(
        &sum(|probe| &probe.response),
        &sum(|probe| &probe.in_flight),
        failed,
        PROBE_TIMEOUT_MS * 1_000,
    )
}

/// A percentile in ms with its interval.
pub(crate) fn percentile(times: &ErrorAdjusted, q: f64, per_block: Vec<f64>) -> Estimate {
    let quantile = times.quantile(q);
    let interval = times.interval(q);
    Estimate {
        value: quantile.map(milliseconds),
        low: interval.map(|(low, _)| milliseconds(low)),
        // A bound has no upper end.
        high: interval.and_then(|(_, high)| (!high.is_bound()).then(|| milliseconds(high))),
        at_least: quantile.is_some_and(Quantile::is_bound),
        n: times.count(),
        per_block,
    }
}

/// Times of the requests of one endpoint, with those that have none.
pub(crate) struct Times {
    successes: LatencyHistogram,
    in_flight: LatencyHistogram,
    failed: u64,
}

impl Times {
    /// The times that a percentile of this metric is taken from; `None` without
    /// samples, or without streams for a first item's time.
    pub(crate) fn of<'a>(
        samples: impl IntoIterator<Item = &'a EndpointSamples>,
        metric: Metric,
    ) -> Option<Self> {
        let (mut successes, mut in_flight) = (Vec::new(), Vec::new());
        let mut failed: u64 = 0;
        for samples in samples {
            let failures = total(&samples.errors);
            if matches!(metric, Metric::TtftP50 | Metric::TtftP95) {
                let first_items = samples.ttft.as_ref()?;
                let open = &samples.in_flight;
                // Records of before 1.1 don't tell which streams in flight had theirs.
                let waiting = samples.ttft_in_flight.as_ref().unwrap_or(open);
                successes.push(first_items);
                in_flight.push(waiting);
                // A failed stream may have had its first item: it counts once.
                let all = saturating_sum([samples.completed, failures, open.count()]);
                let known = saturating_sum([first_items.count(), waiting.count()]);
                failed = failed.saturating_add(all.saturating_sub(known));
            } else {
                successes.push(&samples.response);
                in_flight.push(&samples.in_flight);
                failed = failed.saturating_add(failures);
            }
        }
        (!successes.is_empty()).then(|| Self {
            // All at once: one after the other costs a pass over the sum for each.
            successes: LatencyHistogram::sum(successes),
            in_flight: LatencyHistogram::sum(in_flight),
            failed,
        })
    }

    /// The longest success.
    pub(crate) fn longest_us(&self) -> Option<u64> {
        self.successes.max_us()
    }

    /// Their error-adjusted distribution.
    pub(crate) fn adjusted(&self, endpoint: &EndpointIdentity) -> ErrorAdjusted {
        let timeout_us = endpoint.timeout_ms.saturating_mul(1_000);
        ErrorAdjusted::new(&self.successes, &self.in_flight, self.failed, timeout_us)
    }
}

fn milliseconds(quantile: Quantile) -> f64 {
    quantile.us() as f64 / 1_000.0
}

pub(crate) fn blocked_us(endpoint: &MonitorEndpoint) -> u64 {
    endpoint
        .blocked_us
        .slept
        .saturating_add(endpoint.blocked_us.fault)
}

/// Requests that ended, well or badly.
fn ended(block: &Block, subject: Subject<'_>) -> Option<u64> {
    match subject {
        Some(endpoint) => {
            let samples = block.endpoints.get(&endpoint.name)?;
            Some(samples.completed.saturating_add(total(&samples.errors)))
        }
        None => Some(block.completed.saturating_add(total(&block.errors))),
    }
}

fn failed(block: &Block, subject: Subject<'_>) -> Option<u64> {
    match subject {
        Some(endpoint) => Some(total(&block.endpoints.get(&endpoint.name)?.errors)),
        None => Some(total(&block.errors)),
    }
}

/// The kernel's count of the whole group where the service was started here,
/// else the monitor's own.
fn threads(block: &Block) -> Option<u64> {
    let kernel = block.process.as_ref().map(|process| process.threads_max);
    kernel.or_else(|| {
        let threads = block.monitor.as_ref()?.threads;
        Some(saturating_sum([
            threads.workers,
            threads.pool,
            threads.other,
        ]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;
    use crate::policy::Policy;
    use crate::record::ErrorKind;
    use crate::summary::summarise;
    use crate::synthetic::{EndpointSpec, record};
    use std::collections::BTreeMap;

    #[test]
    fn blocked_time_is_per_request_and_counts_what_nobody_is_charged_with() {
        let spec = EndpointSpec::new("GET a", 10.0);
        let mut measured = record(1, 5, 100, &[spec]);
        let endpoint = measured.scenario.endpoints[0].clone();
        let block = &mut measured.blocks[0];
        let monitor = block.monitor.as_mut().unwrap();
        let seen = monitor.endpoints.get_mut("GET a").unwrap();
        seen.blocked_us.slept = 20_000;
        seen.blocked_us.fault = 2_000;
        monitor.unattributed_blocked_us = 1_000;
        let blocked = |subject| reading(block, subject, Metric::BlockedMsPer1000).map(|r| r.value);
        assert_eq!(blocked(Some(&endpoint)), Some(220.0));
        assert_eq!(blocked(None), Some(230.0));
    }

    #[test]
    fn holds_alone_are_no_blocked_time_of_zero() {
        let mut measured = record(1, 5, 100, &[EndpointSpec::new("GET a", 10.0)]);
        let endpoint = measured.scenario.endpoints[0].clone();
        let block = &mut measured.blocks[0];
        assert!(reading(block, Some(&endpoint), Metric::BlockedMsPer1000).is_some());
        block.monitor.as_mut().unwrap().mode = "holds".to_owned();
        for subject in [Some(&endpoint), None] {
            assert_eq!(reading(block, subject, Metric::BlockedMsPer1000), None);
        }
    }

    #[test]
    fn what_was_not_measured_has_no_reading() {
        let mut measured = record(1, 5, 100, &[EndpointSpec::new("GET a", 10.0)]);
        let endpoint = measured.scenario.endpoints[0].clone();
        let block = &mut measured.blocks[0];
        block.monitor = None;
        block.process = None;
        block.endpoints.clear();
        block.completed = 0;
        block.wall_ns = 0;
        for metric in Metric::ALL {
            assert_eq!(reading(block, Some(&endpoint), metric), None, "{metric:?}");
            assert_eq!(reading(block, None, metric), None, "{metric:?}");
        }
    }

    #[test]
    fn failures_are_a_share_of_what_ended() {
        let mut measured = record(1, 5, 100, &[EndpointSpec::new("GET a", 10.0)]);
        let block = &mut measured.blocks[0];
        block.errors.insert(ErrorKind::Timeout, 25);
        assert_eq!(reading(block, None, Metric::ErrorRate).unwrap().value, 20.0);
    }

    #[test]
    fn a_stream_in_flight_that_had_its_first_item_counts_with_it() {
        let samples = |had_it: u64, waiting: u64| {
            let mut samples = EndpointSamples {
                completed: 1,
                errors: BTreeMap::from([(ErrorKind::Truncated, 1)]),
                ttft: Some(LatencyHistogram::new()),
                ttft_in_flight: Some(LatencyHistogram::new()),
                ..EndpointSamples::default()
            };
            let record = |slot: &mut Option<LatencyHistogram>, count: u64, us: u64| {
                (0..count).for_each(|_| slot.get_or_insert_default().record_us(us));
            };
            record(&mut samples.ttft, 1 + had_it, 50_000);
            record(&mut samples.ttft_in_flight, waiting, 900_000);
            (0..had_it + waiting).for_each(|_| samples.in_flight.record_us(900_000));
            samples
        };
        let endpoint = record(1, 1, 1, &[EndpointSpec::new("GET a", 10.0)])
            .scenario
            .endpoints
            .remove(0);
        let times = |samples: &EndpointSamples| {
            let times = Times::of([samples], Metric::TtftP95).expect("a stream");
            assert_eq!(times.failed, 1, "the truncated one");
            times.adjusted(&endpoint)
        };
        let served = times(&samples(98, 0));
        assert_eq!(served.count(), 100);
        let p95 = served.quantile(0.95).expect("streams");
        assert!(!p95.is_bound() && p95.us() < 51_000, "{p95:?}");
        let waiting = times(&samples(0, 98));
        assert_eq!(waiting.count(), 100);
        assert!(waiting.quantile(0.95).is_some_and(Quantile::is_bound));
        // A record that doesn't tell: as before.
        let mut silent = samples(0, 98);
        silent.ttft_in_flight = None;
        assert_eq!(times(&silent).count(), 100);
    }

    #[test]
    fn forged_counts_do_not_overflow() {
        let mut forged = record(1, 8, 400, &[EndpointSpec::new("GET a", 10.0)]);
        for block in &mut forged.blocks {
            (block.offered, block.completed, block.wall_ns) = (u64::MAX, u64::MAX, u64::MAX);
            block.errors = BTreeMap::from([(ErrorKind::Timeout, u64::MAX)]);
            let samples = block.endpoints.get_mut("GET a").unwrap();
            samples.completed = u64::MAX;
            samples.errors = block.errors.clone();
            samples.ttft = Some(samples.response.clone());
            let process = block.process.as_mut().unwrap();
            (process.cpu_us, process.rss_kib_max) = (u64::MAX, u64::MAX);
            process.threads_max = u64::MAX;
            let monitor = block.monitor.as_mut().unwrap();
            monitor.unattributed_blocked_us = u64::MAX;
            monitor.threads.workers = u64::MAX;
            let seen = monitor.endpoints.get_mut("GET a").unwrap();
            (seen.requests, seen.cpu_us) = (u64::MAX, u64::MAX);
            (seen.blocked_us.slept, seen.blocked_us.fault) = (u64::MAX, u64::MAX);
        }
        let blocks: Vec<&Block> = forged.blocks.iter().collect();
        let rate = estimate(&blocks, None, Metric::ErrorRate);
        assert_eq!((rate.n, rate.value), (u64::MAX, Some(100.0)));
        assert_eq!(threads(blocks[0]), Some(u64::MAX));
        // The whole way, for the sums elsewhere.
        compare(&forged, &Policy::default()).unwrap();
        for block in &mut forged.blocks {
            block.process = None;
        }
        compare(&forged, &Policy::default()).unwrap();
        summarise(&forged);
    }
}
