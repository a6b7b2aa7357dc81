//! The blocking pool: how long jobs wait for a thread, how long they keep it, and how full it is.
#![expect(clippy::disallowed_methods, reason = "the pool's threads may block")]

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use unstall_loop_monitor::wire::Pool;
use unstall_loop_monitor::{Monitor, OTHER_NAME};

const SLEEP: Duration = Duration::from_millis(5);

fn runtime(monitor: &Monitor) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all();
    monitor.install(&mut builder);
    builder.build().expect("a runtime")
}

fn pool(monitor: &Monitor) -> Pool {
    monitor.snapshot().pool.expect("Tokio has a pool")
}

#[test]
fn a_job_that_waits_for_a_thread_is_told_from_one_that_runs_long() {
    let monitor = Monitor::builder().pool_threads_max(1).build();
    let runtime = runtime(&monitor);
    let (release, released) = mpsc::channel::<()>();
    let (tell_begun, begun) = mpsc::channel();
    let (first, second) = runtime.block_on(async {
        let first = monitor.spawn_blocking("report", move || {
            tell_begun.send(()).expect("awaited");
            released.recv().expect("released");
            1
        });
        begun.recv().expect("begun");
        (first, monitor.spawn_blocking("thumbnail", || 2))
    });
    let full = pool(&monitor);
    assert_eq!((full.running, full.queued), (1, 1), "{full:?}");
    assert_eq!(full.threads_max, 1);
    assert!((full.saturation - 1.0).abs() < 1e-9, "{full:?}");
    let waiting = &full.jobs["thumbnail"];
    assert_eq!(
        (waiting.queued, waiting.running, waiting.submitted),
        (1, 0, 1)
    );
    let running = &full.jobs["report"];
    assert_eq!(
        (running.queued, running.running, running.finished),
        (0, 1, 0)
    );

    thread::sleep(SLEEP);
    release.send(()).expect("it waits");
    let results = runtime.block_on(async { (first.await, second.await) });
    assert_eq!((results.0.ok(), results.1.ok()), (Some(1), Some(2)));
    // Each is counted just after its result is there.
    while pool(&monitor).running > 0 {
        thread::yield_now();
    }
    let empty = pool(&monitor);
    assert_eq!((empty.running, empty.queued), (0, 0), "{empty:?}");
    assert_eq!((empty.running_max, empty.queued_max), (1, 1), "{empty:?}");
    assert!(empty.saturation.abs() < 1e-9, "{empty:?}");
    let waited = &empty.jobs["thumbnail"];
    assert!(waited.wait_ns_max >= 5_000_000, "{waited:?}");
    assert_eq!(waited.wait_ns_sum, waited.wait_ns_max);
    assert_eq!(waited.wait.log2_us.iter().sum::<u64>(), 1);
    let ran = &empty.jobs["report"];
    assert!(ran.run_ns_max >= 5_000_000, "{ran:?}");
    assert_eq!((ran.finished, ran.cancelled), (1, 0));
}

#[test]
fn panics_and_cancelled_jobs_leave_the_pool_as_empty_as_it_was() {
    let monitor = Monitor::builder().pool_threads_max(1).build();
    let runtime = runtime(&monitor);
    let (release, released) = mpsc::channel::<()>();
    runtime.block_on(async {
        let blocker = monitor.spawn_blocking("blocker", move || {
            released.recv().expect("released");
        });
        let given_up = monitor.spawn_blocking("given-up", || ());
        given_up.abort();
        release.send(()).expect("it waits");
        blocker.await.expect("no panic");
        assert!(given_up.await.expect_err("aborted").is_cancelled());
        let bomb = monitor.spawn_blocking("bomb", || {
            if true {
                panic!("planted");
            }
        });
        assert!(bomb.await.expect_err("it panicked").is_panic());
    });
    drop(runtime);
    let pool = pool(&monitor);
    assert_eq!((pool.running, pool.queued), (0, 0), "{pool:?}");
    let given_up = &pool.jobs["given-up"];
    assert_eq!((given_up.cancelled, given_up.finished), (1, 0), "{pool:?}");
    assert_eq!((given_up.queued, given_up.running), (0, 0), "{pool:?}");
    assert_eq!(pool.jobs["bomb"].finished, 1, "{pool:?}");
}

#[test]
fn names_have_a_cap_and_an_untold_limit_is_said() {
    let monitor = Monitor::builder().endpoint_cap(2).build();
    let runtime = runtime(&monitor);
    runtime.block_on(async {
        for id in 0..20 {
            let job = monitor.spawn_blocking(&format!("user-{id}"), || ());
            job.await.expect("no panic");
        }
    });
    let jobs = pool(&monitor).jobs;
    assert_eq!(jobs.len(), 3, "{:?}", jobs.keys());
    assert_eq!(jobs[OTHER_NAME].submitted, 18);
    assert_eq!(pool(&monitor).threads_max, 512);
    let says_so = |monitor: &Monitor| {
        let told = monitor.snapshot().not_covered.concat();
        told.contains("default of 512")
    };
    assert!(says_so(&monitor));
    assert!(!says_so(&Monitor::builder().pool_threads_max(9).build()));
}
