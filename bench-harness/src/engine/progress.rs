//! What an observer may sample while a block runs: counters without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// Written by the engine, sampled by a progress bar. One may serve several blocks in turn.
#[derive(Debug, Default)]
pub struct Progress {
    total: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    /// Updated about once per second; 0 until the first answer.
    p95_us: AtomicU64,
    phase: AtomicU64,
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
    /// 95th percentile of response time so far; `None` until one is known.
    pub p95_us: Option<u64>,
}

impl Progress {
    /// An observer's side, all zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads all counters; they may be some requests apart from each other.
    pub fn look(&self) -> ProgressLook {
        let p95_us = self.p95_us.load(Ordering::Relaxed);
        ProgressLook {
            phase: match self.phase.load(Ordering::Relaxed) {
                0 => Phase::Idle,
                1 => Phase::WarmUp,
                2 => Phase::Measuring,
                _ => Phase::Done,
            },
            total: self.total.load(Ordering::Relaxed),
            done: self.done.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            p95_us: (p95_us > 0).then_some(p95_us),
        }
    }

    pub(super) fn begin(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
        self.p95_us.store(0, Ordering::Relaxed);
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

    pub(super) fn ended(&self, failed: bool) {
        self.done.fetch_add(1, Ordering::Relaxed);
        if failed {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn p95(&self, p95_us: u64) {
        self.p95_us.store(p95_us, Ordering::Relaxed);
    }
}
