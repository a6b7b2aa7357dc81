//! The per-second series of a block: complete in time, flat in memory.
//!
//! Each generator thread keeps counts per second and one histogram, that of the
//! second it is in. When a second has passed it hands the histogram over: one
//! lock per thread and second, none per request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use unstall_results::histogram::LatencyHistogram;
use unstall_results::record::Second;

use super::progress::Progress;

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
    response: LatencyHistogram,
}

impl ThreadSeries {
    pub(super) fn new(begun: Instant) -> Self {
        Self {
            begun,
            counts: Vec::new(),
            current: 0,
            response: LatencyHistogram::new(),
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

    /// Adds the response time of a request that completed at `moment`.
    pub(super) fn completed(&mut self, moment: Instant, response: Duration, shared: &SharedSeries) {
        let second = self.second_of(moment);
        if second > self.current {
            self.hand_over(shared);
            self.current = second;
        }
        self.response.record(response);
    }

    /// Hands over what is left and returns the counts.
    pub(super) fn finish(mut self, shared: &SharedSeries) -> Vec<Counts> {
        self.hand_over(shared);
        self.counts
    }

    fn second_of(&self, moment: Instant) -> usize {
        // A block of 2^32 seconds is out of reach.
        moment.saturating_duration_since(self.begun).as_secs() as usize
    }

    fn hand_over(&mut self, shared: &SharedSeries) {
        if self.response.count() > 0 {
            let response = std::mem::take(&mut self.response);
            shared.take(self.current, response);
        }
    }
}

/// What threads hand over, and the 95th percentile so far for the observer.
#[derive(Debug)]
pub(super) struct SharedSeries {
    progress: Arc<Progress>,
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    so_far: LatencyHistogram,
    seconds: BTreeMap<usize, Response>,
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
    pub(super) fn new(progress: Arc<Progress>) -> Self {
        Self {
            progress,
            shared: Mutex::default(),
        }
    }

    fn take(&self, second: usize, response: LatencyHistogram) {
        let mut guard = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = &mut *guard;
        shared.so_far.merge(&response);
        self.progress.p95(quantile_us(&shared.so_far, 0.95));
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

    /// Joins counts of all threads and the response times into the record's form.
    pub(super) fn join(&self, threads: &[Vec<Counts>]) -> Vec<Second> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
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
