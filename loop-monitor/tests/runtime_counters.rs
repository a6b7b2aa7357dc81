//! What the runtime counts by itself, as the snapshot tells it: only growing, nothing made up.
#![expect(clippy::disallowed_methods, reason = "the work is planted")]

use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle};
use unstall_loop_monitor::wire::RuntimeMetrics;
use unstall_loop_monitor::{Monitor, Snapshot};

const ROUNDS: u32 = 5;
/// What each round keeps a worker busy with; to the runtime a blocked worker is a busy one.
const WORK: Duration = Duration::from_millis(10);
const WORK_NS: u64 = 10_000_000;

/// Works on the loop, rests, and waits until Tokio itself has counted both.
async fn work_and_rest() {
    let before = by_tokio();
    let work = tokio::spawn(async { thread::sleep(WORK) });
    work.await.expect("no panic");
    let counted = async {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let now = by_tokio();
            if now.busy_ns >= before.busy_ns + WORK_NS && now.parks > before.parks {
                break;
            }
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), counted).await;
    waited.expect("Tokio counts work and parks");
}

async fn rounds(monitor: &Monitor) -> Vec<Snapshot> {
    let mut snapshots = vec![monitor.snapshot()];
    for _ in 0..ROUNDS {
        work_and_rest().await;
        // Two readers, as a harness and Prometheus would be: neither takes from the other.
        snapshots.push(monitor.snapshot());
        snapshots.push(monitor.snapshot());
    }
    snapshots
}

/// What Tokio says, from the runtime's start.
fn by_tokio() -> RuntimeMetrics {
    let metrics = Handle::current().metrics();
    let workers = 0..metrics.num_workers();
    let busy = workers
        .clone()
        .map(|worker| metrics.worker_total_busy_duration(worker));
    RuntimeMetrics {
        busy_ns: u64::try_from(busy.sum::<Duration>().as_nanos()).expect("a short test"),
        parks: workers
            .map(|worker| metrics.worker_park_count(worker))
            .sum(),
        ..RuntimeMetrics::default()
    }
}

#[test]
fn counters_only_grow_with_the_work_and_never_beyond_it() {
    for (mut builder, workers) in [
        (Builder::new_current_thread(), 1),
        (Builder::new_multi_thread(), 2),
    ] {
        let monitor = Monitor::builder().build();
        monitor.install(builder.worker_threads(workers).enable_all());
        let begun = Instant::now();
        let runtime = builder.build().expect("a runtime");
        let (snapshots, tokio) = runtime.block_on(async {
            let snapshots = rounds(&monitor).await;
            (snapshots, by_tokio())
        });
        let told: Vec<RuntimeMetrics> = snapshots
            .into_iter()
            .map(|snapshot| snapshot.runtime_metrics)
            .collect();
        let case = format!("{workers} workers: {told:?}, Tokio: {tokio:?}");
        for pair in told.windows(2) {
            assert!(pair[0].busy_ns <= pair[1].busy_ns, "{case}");
            assert!(pair[0].parks <= pair[1].parks, "{case}");
        }
        let (first, last) = (&told[0], &told[told.len() - 1]);
        let grown_ns = last.busy_ns - first.busy_ns;
        assert!(grown_ns >= u64::from(ROUNDS) * WORK_NS, "{case}");
        assert!(last.parks - first.parks >= u64::from(ROUNDS), "{case}");
        // Each snapshot adds what is new, once.
        assert!(last.busy_ns <= tokio.busy_ns, "{case}");
        assert!(last.parks <= tokio.parks, "{case}");
        let capacity = begun.elapsed().as_nanos() * workers as u128;
        assert!(u128::from(last.busy_ns) <= capacity, "{case}");
    }
}

#[test]
fn tasks_that_are_alive_come_and_go() {
    let monitor = Monitor::builder().build();
    let mut builder = Builder::new_current_thread();
    monitor.install(builder.enable_all());
    let runtime = builder.build().expect("a runtime");
    let alive = || monitor.snapshot().runtime_metrics.alive_tasks;
    runtime.block_on(async {
        assert_eq!(alive(), 0);
        let waiting: Vec<_> = (0..3)
            .map(|_| tokio::spawn(std::future::pending::<()>()))
            .collect();
        assert_eq!(alive(), 3);
        for task in &waiting {
            task.abort();
        }
        for task in waiting {
            assert!(task.await.expect_err("aborted").is_cancelled());
        }
        assert_eq!(alive(), 0);
    });
}

#[test]
fn without_a_runtime_there_is_nothing_to_count() {
    let snapshot = Monitor::builder().build().snapshot();
    assert_eq!(snapshot.runtime_metrics, RuntimeMetrics::default());
    assert_eq!(snapshot.loops, 0);
}
