//! Jobs for the blocking pool: how long they wait for a thread, and how long they keep it.
//!
//! The pool is where blocking calls belong, and it is not endless: when all of its threads are
//! taken, jobs wait, and the requests that wait for them with them. Tokio tells neither on stable.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use tokio::task::JoinHandle;

use crate::endpoints::{NAME_BYTES_MAX, OTHER_NAME};
use crate::histogram::HistogramCells;
use crate::monitor::Monitor;
use crate::readings::nanoseconds;
use crate::wire;

/// Tokio's own, unless its builder is told otherwise (`Builder::max_blocking_threads`).
const TOKIO_THREADS_MAX: usize = 512;

impl Monitor {
    /// As [`tokio::task::spawn_blocking`], with the job's wait and run counted under `name` in the
    /// snapshot's `pool`.
    ///
    /// The name must be one of few, as a task's.
    ///
    /// # Panics
    /// Outside of a runtime, as Tokio's.
    #[track_caller]
    pub fn spawn_blocking<F, T>(&self, name: &str, job: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let mut handed_over = HandedOver::new(self.clone(), self.inner.pool.resolve(name));
        tokio::task::spawn_blocking(move || {
            handed_over.begin();
            job()
            // `handed_over` ends here, also when the job panics, and unbegun if it never runs.
        })
    }
}

/// Every name of a job seen, at most as many as allowed.
#[derive(Debug)]
pub(crate) struct PoolCells {
    names_max: usize,
    threads_max: Option<usize>,
    queued: Level,
    running: Level,
    by_name: RwLock<HashMap<Box<str>, Arc<JobCells>>>,
    other: Arc<JobCells>,
}

/// How many there are now, and the most there ever were at once.
#[derive(Debug, Default)]
struct Level {
    now: AtomicU64,
    max: AtomicU64,
}

/// Jobs of one name.
#[derive(Debug, Default)]
pub(crate) struct JobCells {
    submitted: AtomicU64,
    begun: AtomicU64,
    finished: AtomicU64,
    cancelled: AtomicU64,
    wait: DurationCells,
    run: DurationCells,
}

#[derive(Debug, Default)]
struct DurationCells {
    histogram: HistogramCells,
    ns_sum: AtomicU64,
    ns_max: AtomicU64,
}

/// A job on its way through the pool.
struct HandedOver {
    monitor: Monitor,
    cells: Arc<JobCells>,
    at: Instant,
    begun: Option<Instant>,
}

impl PoolCells {
    /// `threads_max` is what the runtime's builder is told, if anything.
    pub(crate) fn new(names_max: usize, threads_max: Option<usize>) -> Self {
        Self {
            names_max,
            threads_max,
            queued: Level::default(),
            running: Level::default(),
            by_name: RwLock::default(),
            other: Arc::default(),
        }
    }

    /// What the runtime's builder is to be told.
    pub(crate) fn threads_max(&self) -> Option<usize> {
        self.threads_max
    }

    fn resolve(&self, name: &str) -> Arc<JobCells> {
        if name.len() > NAME_BYTES_MAX {
            return Arc::clone(&self.other);
        }
        {
            let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(cells) = by_name.get(name) {
                return Arc::clone(cells);
            }
            if by_name.len() >= self.names_max {
                return Arc::clone(&self.other);
            }
        }
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been here between the two locks.
        if !by_name.contains_key(name) && by_name.len() >= self.names_max {
            return Arc::clone(&self.other);
        }
        Arc::clone(by_name.entry(name.into()).or_default())
    }

    pub(crate) fn to_wire(&self) -> wire::Pool {
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        let mut jobs: BTreeMap<String, wire::PoolJobs> = by_name
            .iter()
            .map(|(name, cells)| (name.to_string(), cells.to_wire()))
            .collect();
        let other = self.other.to_wire();
        if other.submitted > 0 {
            jobs.insert(OTHER_NAME.to_owned(), other);
        }
        let threads_max = self.threads_max.unwrap_or(TOKIO_THREADS_MAX);
        let running = self.running.now.load(Relaxed);
        wire::Pool {
            threads_max: u64::try_from(threads_max).unwrap_or(u64::MAX),
            saturation: running as f64 / threads_max as f64,
            running,
            running_max: self.running.max.load(Relaxed),
            queued: self.queued.now.load(Relaxed),
            queued_max: self.queued.max.load(Relaxed),
            jobs,
        }
    }
}

impl Level {
    fn rise(&self) {
        let before = self.now.fetch_add(1, Relaxed);
        self.max.fetch_max(before + 1, Relaxed);
    }

    fn fall(&self) {
        self.now.fetch_sub(1, Relaxed);
    }
}

impl JobCells {
    fn to_wire(&self) -> wire::PoolJobs {
        // Read against the order in which they are written, so that no difference is negative; the
        // saturating one is for an order that the processor chose.
        let finished = self.finished.load(Relaxed);
        let cancelled = self.cancelled.load(Relaxed);
        let begun = self.begun.load(Relaxed);
        let submitted = self.submitted.load(Relaxed);
        wire::PoolJobs {
            submitted,
            finished,
            cancelled,
            queued: submitted.saturating_sub(begun).saturating_sub(cancelled),
            running: begun.saturating_sub(finished),
            wait: self.wait.histogram.to_wire(),
            wait_ns_sum: self.wait.ns_sum.load(Relaxed),
            wait_ns_max: self.wait.ns_max.load(Relaxed),
            run: self.run.histogram.to_wire(),
            run_ns_sum: self.run.ns_sum.load(Relaxed),
            run_ns_max: self.run.ns_max.load(Relaxed),
        }
    }
}

impl DurationCells {
    fn record(&self, ns: u64) {
        self.histogram.record(ns);
        self.ns_sum.fetch_add(ns, Relaxed);
        self.ns_max.fetch_max(ns, Relaxed);
    }
}

impl HandedOver {
    fn new(monitor: Monitor, cells: Arc<JobCells>) -> Self {
        cells.submitted.fetch_add(1, Relaxed);
        monitor.inner.pool.queued.rise();
        Self {
            monitor,
            cells,
            at: Instant::now(),
            begun: None,
        }
    }

    /// A thread of the pool has taken it.
    fn begin(&mut self) {
        let now = Instant::now();
        let pool = &self.monitor.inner.pool;
        pool.running.rise();
        pool.queued.fall();
        self.cells.begun.fetch_add(1, Relaxed);
        let wait = now.saturating_duration_since(self.at);
        self.cells.wait.record(nanoseconds(wait));
        self.begun = Some(now);
    }
}

impl Drop for HandedOver {
    fn drop(&mut self) {
        let pool = &self.monitor.inner.pool;
        if let Some(begun) = self.begun {
            self.cells.run.record(nanoseconds(begun.elapsed()));
            self.cells.finished.fetch_add(1, Relaxed);
            pool.running.fall();
        } else {
            self.cells.cancelled.fetch_add(1, Relaxed);
            pool.queued.fall();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_cap_share_a_bucket_and_known_ones_stay() {
        let pool = PoolCells::new(2, Some(4));
        let first = pool.resolve("a");
        pool.resolve("b");
        for beyond in ["c", "d", &"x".repeat(NAME_BYTES_MAX + 1)] {
            assert!(Arc::ptr_eq(&pool.resolve(beyond), &pool.other), "{beyond}");
        }
        assert!(Arc::ptr_eq(&pool.resolve("a"), &first));
    }
}
