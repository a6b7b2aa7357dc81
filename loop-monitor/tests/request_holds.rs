//! What one request's polls come to, handler and body together, and never a wait between them.
#![expect(clippy::disallowed_methods, reason = "the holds are planted")]

mod monitored_server;

use std::thread;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::get;
use monitored_server::{HoldingBody, Loops, MonitoredServer};
use unstall_loop_monitor::{Mode, Monitor};

const HOLD: Duration = Duration::from_millis(5);
const HOLD_NS: u64 = 5_000_000;

/// Two holds in the handler with waits around them, and three in the body.
async fn five_holds() -> Response {
    for _ in 0..2 {
        tokio::time::sleep(10 * HOLD).await;
        thread::sleep(HOLD);
    }
    Response::new(Body::new(HoldingBody {
        items_left: 3,
        hold: HOLD,
    }))
}

fn server(mode: Mode, loops: Loops) -> MonitoredServer {
    let monitor = Monitor::builder().mode(mode).build();
    let routes = Router::new()
        .route("/five", get(five_holds))
        .route("/one", get(|| async { thread::sleep(HOLD) }));
    MonitoredServer::start(monitor, loops, routes)
}

#[test]
fn the_polls_of_a_request_add_up_and_its_waits_do_not() {
    for mode in [Mode::Counters, Mode::FullSplit] {
        for loops in [Loops::CurrentThread, Loops::Workers(2)] {
            let server = server(mode, loops);
            server.get_times("/five", 1);
            let five = server.endpoint("GET /five");
            let case = format!("{mode:?} {loops:?}: {five:?}");
            assert!(five.request_hold_ns_max >= 5 * HOLD_NS, "{case}");
            // All polls belong to the one request, and a wait is in none of them.
            assert_eq!(five.request_hold_ns_max, five.hold_ns_sum, "{case}");
        }
    }
}

#[test]
fn requests_do_not_add_up() {
    let server = server(Mode::Counters, Loops::Workers(1));
    server.get_times("/one", 10);
    let one = server.endpoint("GET /one");
    assert!(one.request_hold_ns_max >= one.hold_ns_max, "{one:?}");
    // The other nine held the loop for 5 ms each at least.
    assert!(
        one.request_hold_ns_max <= one.hold_ns_sum - 9 * HOLD_NS,
        "{one:?}"
    );
}
