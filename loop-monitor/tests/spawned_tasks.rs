//! Tasks that a handler spawns: counted by name, apart from the request and from each other.
#![expect(
    clippy::disallowed_methods,
    reason = "the blocking calls are the canaries"
)]

mod monitored_server;

use std::thread;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use monitored_server::{Loops, MonitoredServer};
use tokio::runtime::Builder;
use unstall_loop_monitor::wire::Endpoint;
use unstall_loop_monitor::{Mode, Monitor, OTHER_NAME};

const REQUESTS: u64 = 10;
const SLEEP: Duration = Duration::from_millis(5);
const SLEPT_NS: u64 = REQUESTS * 5_000_000;
const MODES: [Mode; 2] = [Mode::Counters, Mode::FullSplit];

fn task(monitor: &Monitor, name: &str) -> Endpoint {
    let mut snapshot = monitor.snapshot();
    snapshot.tasks.remove(name).unwrap_or_default()
}

#[test]
fn what_blocks_in_a_spawned_task_is_charged_to_its_name() {
    for mode in MODES {
        for loops in [Loops::CurrentThread, Loops::Workers(1), Loops::Workers(2)] {
            let monitor = Monitor::builder().mode(mode).build();
            let spawner = get(|State(monitor): State<Monitor>| async move {
                let task = monitor.spawn("mailer", async {
                    tokio::time::sleep(SLEEP).await;
                    thread::sleep(SLEEP);
                });
                task.await.expect("no panic");
                "spawned"
            });
            let routes = Router::new()
                .route("/canary", spawner)
                .with_state(monitor.clone());
            let server = MonitoredServer::start(monitor, loops, routes);
            server.get_times("/canary", REQUESTS);
            let mailer = task(&server.monitor, "mailer");
            let canary = server.endpoint("GET /canary");
            let unattributed = server.monitor.snapshot().unattributed;
            let case = format!("{mode:?} {loops:?}: {mailer:?} {canary:?} {unattributed:?}");
            assert_eq!(mailer.requests, REQUESTS, "{case}");
            // Before and after its wait at an await, which is no blocking.
            assert_eq!(mailer.polls, 2 * REQUESTS, "{case}");
            assert!(mailer.blocked.slept_ns >= SLEPT_NS / 10 * 9, "{case}");
            assert!(mailer.blocked.slept_ns <= mailer.hold_ns_sum, "{case}");
            assert_eq!(mailer.parts.handler.polls, 2 * REQUESTS, "{case}");
            assert!(canary.blocked.slept_ns < SLEPT_NS / 10, "{case}");
            assert!(unattributed.slept_ns < SLEPT_NS / 10, "{case}");
            assert!(
                !server
                    .monitor
                    .snapshot()
                    .endpoints
                    .contains_key("TASK mailer")
            );
        }
    }
}

#[test]
fn a_wrapped_future_that_a_request_awaits_is_a_part_of_it() {
    let monitor = Monitor::builder().build();
    let awaiter = get(|State(monitor): State<Monitor>| async move {
        monitor.task("inline", async { thread::sleep(SLEEP) }).await;
        "awaited"
    });
    let routes = Router::new()
        .route("/canary", awaiter)
        .with_state(monitor.clone());
    let server = MonitoredServer::start(monitor, Loops::Workers(1), routes);
    server.get_times("/canary", REQUESTS);
    let canary = server.endpoint("GET /canary");
    assert!(canary.blocked.slept_ns >= SLEPT_NS / 10 * 9, "{canary:?}");
    assert!(canary.blocked.slept_ns <= canary.hold_ns_sum, "{canary:?}");
    let tasks = server.monitor.snapshot().tasks;
    assert!(tasks.is_empty(), "{tasks:?}");
}

#[test]
fn what_an_aborted_task_drops_is_after_work() {
    struct SlowToDrop;
    impl Drop for SlowToDrop {
        fn drop(&mut self) {
            thread::sleep(SLEEP);
        }
    }
    for mode in MODES {
        let monitor = Monitor::builder().mode(mode).build();
        let mut builder = Builder::new_current_thread();
        builder.enable_all();
        monitor.install(&mut builder);
        let runtime = builder.build().expect("a runtime");
        runtime.block_on(async {
            let task = monitor.spawn("given-up", async {
                let _held = SlowToDrop;
                std::future::pending::<()>().await;
            });
            tokio::time::sleep(SLEEP).await;
            task.abort();
            assert!(task.await.expect_err("aborted").is_cancelled());
        });
        let given_up = task(&monitor, "given-up");
        let parts = &given_up.parts;
        assert_eq!((parts.handler.polls, parts.after.polls), (1, 1), "{mode:?}");
        assert!(parts.after.blocked_ns >= 4_500_000, "{mode:?} {given_up:?}");
        assert_eq!(parts.handler.blocked_ns, 0, "{mode:?} {given_up:?}");
    }
}

#[test]
fn a_task_wrapped_for_a_join_set_counts_and_names_have_a_cap() {
    let monitor = Monitor::builder().endpoint_cap(2).build();
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all();
    monitor.install(&mut builder);
    let runtime = builder.build().expect("a runtime");
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for id in 0..50 {
            tasks.spawn(monitor.task(&format!("user-{id}"), async {}));
        }
        while let Some(ended) = tasks.join_next().await {
            ended.expect("no panic");
        }
        drop(monitor.task("never-awaited", async {}));
    });
    let tasks = monitor.snapshot().tasks;
    assert_eq!(tasks.len(), 3, "{:?}", tasks.keys());
    assert_eq!(tasks["user-0"].requests, 1);
    assert_eq!(tasks[OTHER_NAME].requests, 48);
    assert_eq!(tasks[OTHER_NAME].parts.handler.polls, 48);
}
