//! Puts a [`Snapshot`] together from the shared counters, the runtime and the process.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use crate::cells::Subject;
use crate::monitor::MonitorState;
use crate::readings;
use crate::runtime_totals::WatchedRuntime;
use crate::stalls::Wanted;
use crate::watcher::Watch;
use crate::wire::{
    Mode, SCHEMA_MAJOR, SCHEMA_MINOR, SCHEMA_NAME, Schema, Snapshot, Threads, Worker,
};

pub(crate) fn take(state: &MonitorState, stalls: Wanted) -> Snapshot {
    let runtime = state.runtime.get();
    // A monitor that hasn't met a runtime has nothing to count.
    let counts = runtime.map(WatchedRuntime::count).unwrap_or_default();
    let mut endpoints = BTreeMap::new();
    let mut tasks = BTreeMap::new();
    for cells in state.meter.endpoints().all() {
        let counters = cells.to_wire();
        // The buckets exist from the start and mean nothing until they are used.
        if counters.requests == 0 {
            continue;
        }
        match cells.subject {
            Subject::Requests => endpoints.insert(cells.key(), counters),
            Subject::Tasks => tasks.insert(cells.route.to_string(), counters),
        };
    }
    let blocked_known = state.kernel.see_sleeps;
    let stalls = state
        .stalls
        .to_wire(stalls, state.meter.endpoints(), blocked_known);
    Snapshot {
        schema: Schema {
            name: SCHEMA_NAME.to_owned(),
            major: SCHEMA_MAJOR,
            minor: SCHEMA_MINOR,
        },
        start_id: state.start_id.clone(),
        mono_ns: readings::monotonic_ns(),
        runtime: "tokio".to_owned(),
        mode: state.mode,
        loops: counts.workers,
        endpoints,
        tasks,
        unattributed: state.meter.unattributed().to_wire(),
        loop_lag: state.lag_probed.load(Relaxed).then(|| state.lag.to_wire()),
        workers: workers(state),
        pool: Some(state.pool.to_wire()),
        counters: Some(state.counters.to_wire()),
        causes: state.watch.as_ref().map(Watch::causes),
        stalls: Some(stalls),
        threads: threads(state, counts.workers),
        runtime_metrics: counts.metrics,
        not_covered: not_covered(state),
    }
}

/// By worker, those outside of a loop at the end.
fn workers(state: &MonitorState) -> Vec<Worker> {
    let now_ns = readings::monotonic_ns();
    let mut workers: Vec<Worker> = state
        .meter
        .threads()
        .into_iter()
        .map(|thread| Worker {
            thread_id: thread.thread_id,
            worker: thread
                .worker
                .map(|worker| u64::try_from(worker).unwrap_or(u64::MAX)),
            poll_age_ns: thread
                .poll
                .as_ref()
                .map(|poll| now_ns.saturating_sub(poll.began_ns)),
            endpoint: thread.poll.map(|poll| poll.endpoint.key()),
        })
        .collect();
    workers.sort_by_key(|worker| (worker.worker.unwrap_or(u64::MAX), worker.thread_id));
    workers
}

/// Tokio's workers run on threads of its pool, and `on_thread_start` runs on both; the loop of a
/// current-thread runtime runs on the caller's thread, where it doesn't.
fn threads(state: &MonitorState, workers: u64) -> Threads {
    let started = state.threads_started.load(Relaxed);
    let single = state.runtime.get().is_some_and(WatchedRuntime::is_single);
    let pool = if single {
        started
    } else {
        started.saturating_sub(workers)
    };
    Threads {
        workers,
        pool,
        other: process_threads().saturating_sub(workers + pool),
    }
}

/// Links of a directory of procfs: one per thread, and two for itself. 0 where there is no procfs.
#[expect(
    clippy::disallowed_methods,
    reason = "one stat of procfs, which is in memory"
)]
fn process_threads() -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/task").map_or(0, |tasks| tasks.nlink().saturating_sub(2))
}

fn not_covered(state: &MonitorState) -> Vec<String> {
    let mut sentences = vec![
        "Code between monitored polls (tasks that weren't spawned through the monitor, middleware \
         outside of its layer, a service's `poll_ready`, the connection's own reads and writes) has no \
         endpoint: what blocked \
         there is in `unattributed`, and no stall.",
        "A poll is counted when it ends; until then it shows in `workers` only. A stalled loop \
         can't send this page: where it is the only one, nothing shows before the stall ends.",
        "A busy loop that runs no monitored poll is accounted for when it parks.",
        "On a thread that `block_in_place` has given its loop away from, polls are counted but not \
         timed, until that thread runs a loop again; the job in `block_in_place` isn't in `pool`.",
        "Jobs that reach the blocking pool in another way than through the monitor (`tokio::fs`, \
         lookups of names) aren't in `pool`, and not in its saturation.",
    ];
    if state.pool.threads_max().is_none() {
        sentences.push(
            "The monitor wasn't told how many threads the blocking pool may have: its saturation \
             is a share of Tokio's default of 512.",
        );
    }
    if state
        .runtime
        .get()
        .is_some_and(|runtime| !runtime.is_single())
    {
        sentences.push(
            "The future given to `block_on` of a multi-thread runtime parks without the monitor's \
             knowledge: only monitored polls in it are measured, nothing between them.",
        );
    }
    if state.mode == Mode::Counters {
        sentences.push(
            "Until a thread is first caught blocking, waits below 0.1 ms are charged to the longest \
             poll since the kernel's counters were last read (at most 10 ms of busy loop, marked \
             `shared_ns`), not to the poll that waited.",
        );
        sentences.push("CPU and run-queue time per endpoint are measured in full split only.");
    }
    if !state.installed.load(Relaxed) {
        sentences.push(
            "The monitor isn't installed into the runtime's builder: parks and threads are unknown \
             and only monitored polls are measured.",
        );
    }
    if !state.kernel.see_sleeps {
        sentences.push(
            "This kernel's per-thread counters did not show a sleep when the monitor started: \
             blocked time can't be measured here and 0 means nothing.",
        );
    }
    if !state.kernel.know_run_delay {
        sentences.push(
            "This kernel doesn't tell how long a thread waits for a core \
             (/proc/thread-self/schedstat): on a busy machine blocked time is too high.",
        );
    }
    let mut sentences: Vec<String> = sentences.into_iter().map(str::to_owned).collect();
    sentences.extend(state.watch.iter().flat_map(Watch::troubles));
    sentences
}
