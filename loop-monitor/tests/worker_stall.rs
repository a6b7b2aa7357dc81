//! A poll that goes on: seen while it does, with its age, its worker, and whose it is.
#![expect(clippy::disallowed_methods, reason = "the stall is planted")]

mod monitored_server;

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use monitored_server::{Loops, MonitoredServer};
use unstall_loop_monitor::wire::Worker;
use unstall_loop_monitor::{Mode, Monitor};

const STALL: Duration = Duration::from_millis(20);

/// A route that holds its loop until it is told to end, and tells its thread's id at the begin.
struct Stalling {
    server: MonitoredServer,
    begun: mpsc::Receiver<u32>,
    release: mpsc::Sender<()>,
    client: thread::JoinHandle<String>,
}

impl Stalling {
    fn start(mode: Mode, loops: Loops) -> Self {
        let (tell_begun, begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(Mutex::new(released));
        let stall = get(move || {
            let (tell_begun, released) = (tell_begun.clone(), Arc::clone(&released));
            async move {
                let thread_id = nix::unistd::gettid().as_raw().unsigned_abs();
                tell_begun.send(thread_id).expect("awaited");
                let released = released.lock().expect("not poisoned");
                released.recv().expect("released");
                "released"
            }
        });
        let monitor = Monitor::builder().mode(mode).build();
        let routes = Router::new().route("/stall", stall);
        let server = MonitoredServer::start(monitor, loops, routes);
        let address = server.address;
        let client = thread::spawn(move || monitored_server::get(address, "/stall"));
        Self {
            server,
            begun,
            release,
            client,
        }
    }

    fn workers(&self) -> Vec<Worker> {
        self.server.monitor.snapshot().workers
    }
}

#[test]
fn a_poll_that_has_not_ended_shows_its_age_and_its_endpoint() {
    for mode in [Mode::Counters, Mode::FullSplit] {
        for loops in [Loops::CurrentThread, Loops::Workers(1), Loops::Workers(2)] {
            let stalling = Stalling::start(mode, loops);
            let thread_id = stalling.begun.recv().expect("begun");
            let seen = Instant::now();
            thread::sleep(STALL);
            let age_floor = seen.elapsed();
            let workers = stalling.workers();
            let case = format!("{mode:?} {loops:?}: {workers:?}");
            let stalled: Vec<&Worker> = workers
                .iter()
                .filter(|worker| worker.poll_age_ns.is_some())
                .collect();
            assert_eq!(stalled.len(), 1, "{case}");
            assert_eq!(stalled[0].thread_id, thread_id, "{case}");
            assert_eq!(stalled[0].endpoint.as_deref(), Some("GET /stall"), "{case}");
            let age_ns = u128::from(stalled[0].poll_age_ns.expect("filtered"));
            assert!(age_ns >= age_floor.as_nanos(), "{case}");
            assert!(stalled[0].worker.is_some(), "{case}");
            // Not one of the counters knows of it yet.
            assert_eq!(
                stalling.server.endpoint("GET /stall").parts.handler.polls,
                1
            );

            stalling.release.send(()).expect("it waits");
            let answer = stalling.client.join().expect("no panic");
            assert!(answer.ends_with("released"), "{answer}");
            let monitor = &stalling.server.monitor;
            let workers = monitor.snapshot().workers;
            let idle = |worker: &Worker| worker.poll_age_ns.is_none() && worker.endpoint.is_none();
            assert!(workers.iter().all(idle), "{mode:?} {loops:?}: {workers:?}");
        }
    }
}

#[test]
fn a_poll_that_gave_its_loop_away_stalls_nobody() {
    let (tell_begun, begun) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let in_place = get(move || {
        let (tell_begun, released) = (tell_begun.clone(), Arc::clone(&released));
        async move {
            tokio::task::block_in_place(|| {
                tell_begun.send(()).expect("awaited");
                released
                    .lock()
                    .expect("not poisoned")
                    .recv()
                    .expect("released");
            });
            "in place"
        }
    });
    let routes = Router::new()
        .route("/in-place", in_place)
        .route("/quick", get(|| async { "quick" }));
    let server = MonitoredServer::start(Monitor::builder().build(), Loops::Workers(1), routes);
    let address = server.address;
    let client = thread::spawn(move || monitored_server::get(address, "/in-place"));
    begun.recv().expect("begun");
    // The only worker's loop has another thread now, which says so when it first runs.
    server.get_times("/quick", 1);
    let workers = server.monitor.snapshot().workers;
    let in_place = |worker: &Worker| worker.endpoint.as_deref() == Some("GET /in-place");
    assert!(!workers.iter().any(in_place), "{workers:?}");
    assert_eq!(workers.len(), 1, "{workers:?}");
    release.send(()).expect("it waits");
    assert!(client.join().expect("no panic").ends_with("in place"));
}
