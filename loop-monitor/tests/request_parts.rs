//! What a request's time on the loop was for: handler, body, and what comes after.
#![expect(clippy::disallowed_methods, reason = "the holds are planted")]

mod monitored_server;

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::get;
use bytes::Bytes;
use http_body::Frame;
use monitored_server::{HoldingBody, Loops, MonitoredServer};
use unstall_loop_monitor::wire::{Endpoint, Part};
use unstall_loop_monitor::{Mode, Monitor};

const REQUESTS: u64 = 5;
const HOLD: Duration = Duration::from_millis(4);
const HOLD_NS: u64 = 4_000_000;
const MODES: [Mode; 2] = [Mode::Counters, Mode::FullSplit];

/// Two items, each after a hold, and a slow end.
struct SlowToDrop {
    body: HoldingBody,
    drop: Duration,
}

impl http_body::Body for SlowToDrop {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }
}

impl Drop for SlowToDrop {
    fn drop(&mut self) {
        thread::sleep(self.drop);
    }
}

async fn handler_body_and_after() -> Response {
    thread::sleep(HOLD);
    Response::new(Body::new(SlowToDrop {
        body: HoldingBody {
            items_left: 2,
            hold: HOLD,
        },
        drop: 3 * HOLD,
    }))
}

fn server(mode: Mode, loops: Loops) -> MonitoredServer {
    let monitor = Monitor::builder().mode(mode).build();
    let routes = Router::new()
        .route("/parts", get(handler_body_and_after))
        .route("/given-up", get(given_up));
    MonitoredServer::start(monitor, loops, routes)
}

fn assert_blocked(part: &Part, floor_ns: u64, case: &str) {
    assert!(part.blocked_ns >= floor_ns / 10 * 9, "{case}");
    assert!(part.blocked_ns <= part.hold_ns_sum, "{case}");
}

fn assert_adds_up(endpoint: &Endpoint, case: &str) {
    let parts = &endpoint.parts;
    let all = [&parts.handler, &parts.body, &parts.after];
    let sum = |of: fn(&Part) -> u64| all.iter().map(|part| of(part)).sum::<u64>();
    assert_eq!(sum(|part| part.polls), endpoint.polls, "{case}");
    assert_eq!(sum(|part| part.hold_ns_sum), endpoint.hold_ns_sum, "{case}");
    let blocked_ns = endpoint.blocked.slept_ns + endpoint.blocked.fault_ns;
    assert_eq!(sum(|part| part.blocked_ns), blocked_ns, "{case}");
}

#[test]
fn handler_body_and_what_comes_after_are_told_apart() {
    for mode in MODES {
        for loops in [Loops::CurrentThread, Loops::Workers(1)] {
            let server = server(mode, loops);
            server.get_times("/parts", REQUESTS);
            let endpoint = server.endpoint("GET /parts");
            let case = format!("{mode:?} {loops:?}: {endpoint:?}");
            let parts = &endpoint.parts;
            assert_blocked(&parts.handler, REQUESTS * HOLD_NS, &case);
            assert_blocked(&parts.body, REQUESTS * 2 * HOLD_NS, &case);
            assert_blocked(&parts.after, REQUESTS * 3 * HOLD_NS, &case);
            // Two items and the end; and one body that is dropped.
            assert_eq!(parts.body.polls, REQUESTS * 3, "{case}");
            assert_eq!(parts.after.polls, REQUESTS, "{case}");
            assert_adds_up(&endpoint, &case);
            let slept_ns = server.monitor.snapshot().unattributed.slept_ns;
            assert!(slept_ns < REQUESTS * HOLD_NS / 10, "{slept_ns} {case}");
        }
    }
}

/// Waits for longer than its client does, with something in hand that is slow to drop.
async fn given_up() -> &'static str {
    let _held = SlowToDrop {
        body: HoldingBody {
            items_left: 0,
            hold: HOLD,
        },
        drop: HOLD,
    };
    tokio::time::sleep(Duration::from_secs(60)).await;
    "nobody waits for this"
}

#[test]
fn what_is_dropped_because_the_client_has_left_is_after_work() {
    let server = server(Mode::Counters, Loops::Workers(1));
    let mut stream = TcpStream::connect(server.address).expect("the server listens");
    stream
        .write_all(b"GET /given-up HTTP/1.1\r\nhost: test\r\n\r\n")
        .expect("sent");
    // Not before the handler has begun: making its future is counted, too.
    let deadline = Instant::now() + Duration::from_secs(10);
    while server.endpoint("GET /given-up").polls < 2 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    stream.shutdown(std::net::Shutdown::Both).expect("open");
    assert_eq!(stream.read(&mut [0]).expect("closed"), 0);
    while server.endpoint("GET /given-up").parts.after.polls == 0 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    let endpoint = server.endpoint("GET /given-up");
    let case = format!("{endpoint:?}");
    assert_blocked(&endpoint.parts.after, HOLD_NS, &case);
    assert_eq!(endpoint.parts.handler.polls, 2, "{case}");
    assert_eq!(endpoint.parts.body.polls, 0, "{case}");
}
