//! Without axum's router: any tower service, any thread, with or without the hooks.
#![expect(
    clippy::disallowed_methods,
    reason = "the blocking calls are the canaries"
)]

use std::convert::Infallible;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use http::{Method, Request, Response};
use tokio::runtime::{Builder, Runtime};
use tower::{Layer, Service, ServiceExt, service_fn};
use unstall_loop_monitor::{Mode, Monitor, OTHER_ENDPOINT, UNMATCHED_ENDPOINT};

const SLEEP: Duration = Duration::from_millis(5);
const REQUESTS: u64 = 20;
const SLEPT_NS: u64 = REQUESTS * 5_000_000;

fn route_of(request: &Request<()>) -> String {
    request.uri().path().to_owned()
}

/// Sleeps on the loop where the path says so, else waits at an await.
async fn answer(request: Request<()>) -> Result<Response<String>, Infallible> {
    match request.uri().path() {
        "/block" => thread::sleep(SLEEP),
        "/wait" => tokio::time::sleep(SLEEP).await,
        _ => {}
    }
    Ok(Response::new(String::new()))
}

async fn ask(monitor: &Monitor, method: Method, path: &str) {
    let request = Request::builder().method(method).uri(path).body(());
    monitor
        .layer_by(route_of)
        .layer(service_fn(answer))
        .oneshot(request.expect("a request"))
        .await
        .expect("infallible");
}

fn two_workers(monitor: Option<&Monitor>) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all();
    if let Some(monitor) = monitor {
        monitor.install(&mut builder);
    }
    builder.build().expect("a runtime")
}

#[test]
fn the_future_of_block_on_is_measured_by_poll_and_its_parks_are_no_sleep() {
    for mode in [Mode::Counters, Mode::FullSplit] {
        for installed in [true, false] {
            let monitor = Monitor::builder().mode(mode).build();
            let runtime = two_workers(installed.then_some(&monitor));
            let snapshot = runtime.block_on(async {
                for _ in 0..REQUESTS {
                    ask(&monitor, Method::GET, "/wait").await;
                    ask(&monitor, Method::GET, "/block").await;
                }
                monitor.snapshot()
            });
            let wait = &snapshot.endpoints["GET /wait"];
            let block = &snapshot.endpoints["GET /block"];
            let case = format!("{mode:?}, installed: {installed}: {wait:?} {block:?}");
            assert!(block.blocked.slept_ns >= SLEPT_NS / 10 * 9, "{case}");
            assert!(wait.blocked.slept_ns < SLEPT_NS / 10, "{case}");
            assert!(snapshot.unattributed.slept_ns < SLEPT_NS / 10, "{case}");
            let told = snapshot.not_covered.concat();
            assert_eq!(told.contains("isn't installed"), !installed, "{told}");
            assert!(told.contains("block_on"), "{told}");
        }
    }
}

#[test]
fn what_a_service_does_before_its_future_counts() {
    let monitor = Monitor::builder().build();
    let mut service = monitor
        .layer_by(route_of)
        .layer(service_fn(|_: Request<()>| {
            thread::sleep(SLEEP);
            async { Ok::<_, Infallible>(Response::new(String::new())) }
        }));
    let runtime = two_workers(Some(&monitor));
    let answered = runtime.block_on(service.call(Request::new(())));
    answered.expect("infallible");
    let endpoint = &monitor.snapshot().endpoints["GET /"];
    assert_eq!(endpoint.requests, 1);
    assert!(endpoint.blocked.slept_ns >= 4_500_000, "{endpoint:?}");
}

#[test]
fn hostile_requests_make_no_more_endpoints_than_allowed() {
    let monitor = Monitor::builder().endpoint_cap(3).build();
    let runtime = two_workers(Some(&monitor));
    runtime.block_on(async {
        for id in 0..200 {
            ask(&monitor, Method::GET, &format!("/users/{id}")).await;
            let method = format!("M{id}").parse().expect("a token");
            ask(&monitor, method, "/users/0").await;
        }
        let unmatched = monitor.layer().layer(service_fn(answer));
        let request = Request::new(());
        unmatched.oneshot(request).await.expect("infallible");
    });
    let endpoints = monitor.snapshot().endpoints;
    let requests = |key: &str| endpoints.get(key).map(|endpoint| endpoint.requests);
    assert_eq!(endpoints.len(), 3 + 2, "{:?}", endpoints.keys());
    assert_eq!(requests("GET /users/0"), Some(1));
    assert_eq!(requests("OTHER /users/0"), Some(200));
    assert_eq!(requests("GET /users/1"), Some(1));
    assert_eq!(requests(OTHER_ENDPOINT), Some(198));
    assert_eq!(requests(UNMATCHED_ENDPOINT), Some(1));
}

/// More at once than have counters of their own, and then others in their places.
#[test]
fn however_many_threads_count_nothing_is_lost() {
    const THREADS: usize = 40;
    const TIMES: u64 = 200;
    let monitor = Monitor::builder().build();
    let runtime = two_workers(Some(&monitor));
    for generation in 1..=2 {
        let all_are_here = Barrier::new(THREADS);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    all_are_here.wait();
                    for _ in 0..TIMES {
                        runtime.block_on(ask(&monitor, Method::GET, "/"));
                    }
                });
            }
        });
        let endpoint = &monitor.snapshot().endpoints["GET /"];
        let requests = generation * TIMES * u64::try_from(THREADS).expect("few");
        assert_eq!(endpoint.requests, requests);
        // What the service does before its future, one poll, and the dropping of the body.
        assert_eq!(endpoint.polls, 3 * requests, "{endpoint:?}");
        assert_eq!(endpoint.hold.log2_us.iter().sum::<u64>(), 3 * requests);
    }
}

#[test]
fn another_monitor_on_the_same_thread_starts_afresh() {
    for _ in 0..3 {
        let monitor = Monitor::builder().build();
        let mut builder = Builder::new_current_thread();
        builder.enable_all();
        monitor.install(&mut builder);
        let runtime = builder.build().expect("a runtime");
        // Outside of any loop: belongs to nobody.
        thread::sleep(10 * SLEEP);
        runtime.block_on(ask(&monitor, Method::GET, "/wait"));
        let snapshot = monitor.snapshot();
        assert!(snapshot.unattributed.slept_ns < 5_000_000, "{snapshot:?}");
        assert_eq!(snapshot.endpoints["GET /wait"].requests, 1);
        assert_eq!(snapshot.loops, 1);
    }
}
