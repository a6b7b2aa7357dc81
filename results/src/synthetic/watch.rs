//! A watch from outside on a made-up service.

use crate::record::{RunRecord, Watched, WatchedCause};

/// Shares of a loop's time, each 0 to 1; what is left is idle.
#[derive(Debug, Clone, Copy)]
pub struct WatchSpec {
    /// On a core.
    pub running: f64,
    /// Waiting for a core.
    pub runqueue: f64,
    /// Kept before.
    pub blocked_before: f64,
    /// Kept after.
    pub blocked_after: f64,
}

impl Default for WatchSpec {
    fn default() -> Self {
        Self {
            running: 0.22,
            runqueue: 0.04,
            blocked_before: 0.58,
            blocked_after: 0.0,
        }
    }
}

/// Who kept the loop, and for which share of the blocked time.
const CAUSES: [(&str, &str, &str, &str, f64); 3] = [
    (
        "io",
        "recvfrom",
        "redis (REDIS_URL) at 127.0.0.1:6379",
        "usage_today at app/stores.py:41",
        0.7,
    ),
    (
        "io",
        "poll",
        "postgresql (DATABASE_URL) at 127.0.0.1:5432",
        "<lambda> at app/stores.py:77",
        0.25,
    ),
    (
        "sleep",
        "clock_nanosleep",
        "",
        "retry at app/retry.py:9",
        0.05,
    ),
];

/// Adds a watch to every block of a record.
pub fn add_watch(record: &mut RunRecord, spec: WatchSpec) {
    for block in &mut record.blocks {
        let blocked = if block.arm == "after" {
            spec.blocked_after
        } else {
            spec.blocked_before
        };
        let watched_us = block.wall_ns as f64 / 1e3;
        let part = |share: f64| (watched_us * share) as u64;
        let causes: Vec<WatchedCause> = CAUSES
            .iter()
            .map(|(class, syscall, target, line, share)| WatchedCause {
                class: (*class).to_owned(),
                syscall: Some((*syscall).to_owned()),
                target: (!target.is_empty()).then(|| (*target).to_owned()),
                endpoint: None,
                line: Some((*line).to_owned()),
                is_blocking: true,
                count: block.completed,
                total_us: part(blocked * share),
                longest_us: 2_400,
            })
            .filter(|cause| cause.total_us > 0)
            .collect();
        block.watch = Some(Watched {
            runtime: "asyncio".to_owned(),
            sleeps_by: "switches".to_owned(),
            loops: 1,
            idle_us: part(1.0 - spec.running - spec.runqueue - blocked),
            running_us: part(spec.running),
            runqueue_us: part(spec.runqueue),
            gil_us: 0,
            blocked_us: causes.iter().map(|cause| cause.total_us).sum(),
            causes,
            others_us: 0,
            notes: Vec::new(),
        });
    }
}
