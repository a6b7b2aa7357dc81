//! The per-second series of a block: complete in time, flat in memory.
//!
//! Each generator thread keeps counts per second and one histogram, that of the
//! second it is in. When a second has passed it hands the histogram over: one
//! lock per thread and second, none per request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use unstall_results::histogram::LatencyHistogram;
use unstall_results::record::Second;

use super::progress::Progress;

/// What ended in one second of one endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointSecond {
    /// Since the block's start.
    pub second: u32,
    /// Index of the request in the plan.
    pub endpoint: usize,
    /// end − intended of those that completed.
    pub response: LatencyHistogram,
    /// Those that failed.
    pub errors: u64,
}

/// Counts of one second on one thread.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) offered: u64,
    pub(super) sent: u64,
    pub(super) completed: u64,
    pub(super) errors: u64,
}

/// One thread's part of the series.
#[derive(Debug)]
pub(super) struct ThreadSeries {
    begun: Instant,
    counts: Vec<Counts>,
    current: usize,
    /// Response times of the current second: by endpoint if that was asked for, else all in one.
    responses: Vec<LatencyHistogram>,
    /// The generator's worst lateness in the current second.
    lag_max: Duration,
    /// Second and endpoint → failures, if endpoints are told apart.
    failures: BTreeMap<(usize, usize), u64>,
}

impl ThreadSeries {
    pub(super) fn new(begun: Instant) -> Self {
        Self {
            begun,
            counts: Vec::new(),
            current: 0,
            responses: Vec::new(),
            lag_max: Duration::ZERO,
            failures: BTreeMap::new(),
        }
    }

    /// The counts of the second in which `moment` lies.
    pub(super) fn at(&mut self, moment: Instant) -> &mut Counts {
        let second = self.second_of(moment);
        if self.counts.len() <= second {
            self.counts.resize(second + 1, Counts::default());
        }
        &mut self.counts[second]
    }

    /// Notes how late a request was let go.
    pub(super) fn late(&mut self, lag: Duration) {
        self.lag_max = self.lag_max.max(lag);
    }

    /// Adds a request that completed at `moment`.
    pub(super) fn completed(
        &mut self,
        endpoint: usize,
        moment: Instant,
        response: Duration,
        shared: &SharedSeries,
    ) {
        let second = self.second_of(moment);
        if second > self.current {
            self.hand_over(shared);
            self.current = second;
        }
        self.at(moment).completed += 1;
        let place = if shared.by_endpoint { endpoint } else { 0 };
        if self.responses.len() <= place {
            self.responses.resize_with(place + 1, LatencyHistogram::new);
        }
        self.responses[place].record(response);
    }

    /// Adds a request that failed at `moment`.
    pub(super) fn failed(&mut self, endpoint: usize, moment: Instant, shared: &SharedSeries) {
        self.at(moment).errors += 1;
        if shared.by_endpoint {
            let place = (self.second_of(moment), endpoint);
            *self.failures.entry(place).or_default() += 1;
        }
    }

    /// Hands over what is left and returns the counts.
    pub(super) fn finish(mut self, shared: &SharedSeries) -> Vec<Counts> {
        self.hand_over(shared);
        shared.take_failures(&self.failures);
        self.counts
    }

    fn second_of(&self, moment: Instant) -> usize {
        // A block of 2^32 seconds is out of reach.
        moment.saturating_duration_since(self.begun).as_secs() as usize
    }

    fn hand_over(&mut self, shared: &SharedSeries) {
        let responses = std::mem::take(&mut self.responses);
        let lag_max = std::mem::take(&mut self.lag_max);
        if !responses.is_empty() {
            shared.take(self.current, &responses, lag_max);
        }
    }
}

/// What threads hand over, and the last seconds for the observer.
#[derive(Debug)]
pub(super) struct SharedSeries {
    progress: Arc<Progress>,
    by_endpoint: bool,
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    seconds: BTreeMap<usize, Response>,
    /// Second and endpoint → what was seen, if endpoints are told apart.
    details: BTreeMap<(usize, usize), EndpointSecond>,
}

/// A second is open as long as another thread may still add to it.
#[derive(Debug)]
enum Response {
    Open(LatencyHistogram),
    Closed(Summary),
}

#[derive(Debug, Clone, Copy, Default)]
struct Summary {
    p50_us: u64,
    p95_us: u64,
    max_us: u64,
}

/// Threads are at most this far apart before an open second is closed by force: it bounds memory.
const OPEN_SECONDS_MAX: usize = 16;

impl SharedSeries {
    /// `by_endpoint`: whether each second is kept for each endpoint by itself, too.
    pub(super) fn new(progress: Arc<Progress>, by_endpoint: bool) -> Self {
        Self {
            progress,
            by_endpoint,
            shared: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, second: usize, responses: &[LatencyHistogram], lag_max: Duration) {
        let response = LatencyHistogram::sum(responses);
        self.progress.last_second(&response, lag_max);
        let mut guard = self.lock();
        let shared = &mut *guard;
        if self.by_endpoint {
            for (endpoint, response) in responses.iter().enumerate() {
                shared.detail(second, endpoint).response.merge(response);
            }
        }
        match shared.seconds.get_mut(&second) {
            Some(Response::Open(open)) => open.merge(&response),
            // Beyond the bound: the summary of the earlier parts stands, but its maximum is kept true.
            Some(Response::Closed(summary)) => {
                summary.max_us = summary.max_us.max(response.max_us().unwrap_or(0));
            }
            None => {
                shared.seconds.insert(second, Response::Open(response));
            }
        }
        let last_open = second.saturating_sub(OPEN_SECONDS_MAX);
        for (_, entry) in shared.seconds.range_mut(..last_open) {
            entry.close();
        }
    }

    fn take_failures(&self, failures: &BTreeMap<(usize, usize), u64>) {
        let mut shared = self.lock();
        for ((second, endpoint), count) in failures {
            shared.detail(*second, *endpoint).errors += count;
        }
    }

    /// The seconds of each endpoint in which anything ended; empty unless that was asked for.
    pub(super) fn endpoint_seconds(&self) -> Vec<EndpointSecond> {
        let details = std::mem::take(&mut self.lock().details);
        let ended = |detail: &EndpointSecond| detail.errors > 0 || !detail.response.is_empty();
        details.into_values().filter(ended).collect()
    }

    /// Joins counts of all threads and the response times into the record's form.
    pub(super) fn join(&self, threads: &[Vec<Counts>]) -> Vec<Second> {
        let mut shared = self.lock();
        let length = threads.iter().map(Vec::len).max().unwrap_or(0);
        let mut series = Vec::with_capacity(length);
        let mut responses = std::mem::take(&mut shared.seconds);
        for index in 0..length {
            let mut second = Second {
                second: u32::try_from(index).unwrap_or(u32::MAX),
                ..Second::default()
            };
            for counts in threads.iter().filter_map(|thread| thread.get(index)) {
                second.offered += counts.offered;
                second.sent += counts.sent;
                second.completed += counts.completed;
                second.errors += counts.errors;
            }
            if let Some(mut entry) = responses.remove(&index) {
                let summary = entry.close();
                second.p50_us = Some(summary.p50_us);
                second.p95_us = Some(summary.p95_us);
                second.max_us = Some(summary.max_us);
            }
            series.push(second);
        }
        series
    }
}

impl Shared {
    fn detail(&mut self, second: usize, endpoint: usize) -> &mut EndpointSecond {
        let detail = self.details.entry((second, endpoint));
        detail.or_insert_with(|| EndpointSecond {
            second: u32::try_from(second).unwrap_or(u32::MAX),
            endpoint,
            response: LatencyHistogram::new(),
            errors: 0,
        })
    }
}

impl Response {
    fn close(&mut self) -> Summary {
        let summary = match self {
            Self::Closed(summary) => return *summary,
            Self::Open(histogram) => Summary {
                p50_us: quantile_us(histogram, 0.50),
                p95_us: quantile_us(histogram, 0.95),
                max_us: histogram.max_us().unwrap_or(0),
            },
        };
        *self = Self::Closed(summary);
        summary
    }
}

/// An open second has at least one value, so there is always a quantile.
fn quantile_us(histogram: &LatencyHistogram, q: f64) -> u64 {
    histogram.quantile_us(q).unwrap_or(0)
}
