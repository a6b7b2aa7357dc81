//! What an observer may sample while a block runs: counters without a lock, and the last seconds
//! behind one that is taken once per second and thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use unstall_results::histogram::LatencyHistogram;

/// How far back [`Recent`] looks.
const RECENT: Duration = Duration::from_secs(5);

/// Written by the engine, sampled by a progress bar. One may serve several blocks in turn.
#[derive(Debug, Default)]
pub struct Progress {
    total: AtomicU64,
    begun: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    phase: AtomicU64,
    seconds: Mutex<VecDeque<LastSecond>>,
}

/// What one thread saw in a second.
#[derive(Debug)]
struct LastSecond {
    told: Instant,
    response: LatencyHistogram,
    lag_max: Duration,
}

/// What the engine is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing yet.
    Idle,
    /// Setup requests and warm-up: not measured.
    WarmUp,
    /// Measured load.
    Measuring,
    /// The block is over.
    Done,
}

/// One look at [`Progress`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgressLook {
    /// What the engine is doing.
    pub phase: Phase,
    /// Measured requests of the block; 0 where time ends it.
    pub total: u64,
    /// Measured requests that have ended, well or badly.
    pub done: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Requests that are out.
    pub in_flight: u64,
    /// The last seconds; `None` until one is over, and when nothing was answered in them.
    pub recent: Option<Recent>,
}

/// The last five seconds of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recent {
    /// Median response time.
    pub p50_us: u64,
    /// 95th percentile of it.
    pub p95_us: u64,
    /// 99th percentile of it.
    pub p99_us: u64,
    /// The generator's worst lateness.
    pub lag_us_max: u64,
}

impl Progress {
    /// An observer's side, all zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads all counters; they may be some requests apart from each other.
    pub fn look(&self) -> ProgressLook {
        let (begun, done) = (
            self.begun.load(Ordering::Relaxed),
            self.done.load(Ordering::Relaxed),
        );
        ProgressLook {
            phase: match self.phase.load(Ordering::Relaxed) {
                0 => Phase::Idle,
                1 => Phase::WarmUp,
                2 => Phase::Measuring,
                _ => Phase::Done,
            },
            total: self.total.load(Ordering::Relaxed),
            done,
            failed: self.failed.load(Ordering::Relaxed),
            in_flight: begun.saturating_sub(done),
            recent: self.recent(),
        }
    }

    fn recent(&self) -> Option<Recent> {
        let seconds = self.seconds();
        let recent = seconds.iter().filter(|of| of.told.elapsed() <= RECENT);
        let response = LatencyHistogram::sum(recent.clone().map(|second| &second.response));
        let lag_max = recent.map(|second| second.lag_max).max()?;
        Some(Recent {
            p50_us: response.quantile_us(0.50)?,
            p95_us: response.quantile_us(0.95)?,
            p99_us: response.quantile_us(0.99)?,
            lag_us_max: u64::try_from(lag_max.as_micros()).unwrap_or(u64::MAX),
        })
    }

    fn seconds(&self) -> MutexGuard<'_, VecDeque<LastSecond>> {
        self.seconds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
        self.begun.store(0, Ordering::Relaxed);
        self.seconds().clear();
        self.enter(Phase::WarmUp);
    }

    pub(super) fn enter(&self, phase: Phase) {
        let number = match phase {
            Phase::Idle => 0,
            Phase::WarmUp => 1,
            Phase::Measuring => 2,
            Phase::Done => 3,
        };
        self.phase.store(number, Ordering::Relaxed);
    }

    /// A measured request goes out.
    pub(super) fn begun(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn ended(&self, failed: bool) {
        self.done.fetch_add(1, Ordering::Relaxed);
        if failed {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A second of one thread is over.
    pub(super) fn last_second(&self, response: &LatencyHistogram, lag_max: Duration) {
        let told = Instant::now();
        let mut seconds = self.seconds();
        while seconds.front().is_some_and(|of| of.told + RECENT < told) {
            seconds.pop_front();
        }
        seconds.push_back(LastSecond {
            told,
            response: response.clone(),
            lag_max,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observer_sees_the_last_seconds() {
        let progress = Progress::new();
        assert_eq!(progress.look().recent, None);
        progress.begin(10);
        progress.begun();
        progress.begun();
        progress.ended(true);
        let mut response = LatencyHistogram::new();
        response.record_us(1_000);
        progress.last_second(&response, Duration::from_micros(7));
        progress.last_second(&response, Duration::from_micros(5));
        let look = progress.look();
        assert_eq!((look.done, look.failed, look.in_flight), (1, 1, 1));
        let recent = look.recent.expect("two seconds were told");
        assert_eq!((recent.p50_us, recent.lag_us_max), (1_000, 7));
        progress.begin(10);
        assert_eq!(progress.look().recent, None);
    }
}
