//! Long holds with their times: which are told, in which time, and to who asks for them.
#![expect(clippy::disallowed_methods, reason = "the holds are planted")]

mod monitored_server;

use std::thread;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::get;
use monitored_server::{HoldingBody, Loops, MonitoredServer, body, get as ask};
use nix::time::{ClockId, clock_gettime};
use unstall_loop_monitor::wire::{HoldPart, SNAPSHOT_PATH, STALLS_AFTER, Snapshot, Stall, Stalls};
use unstall_loop_monitor::{Mode, Monitor};

const HOLD: Duration = Duration::from_millis(4);
const HOLD_NS: u64 = 4_000_000;

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has it");
    u64::try_from(Duration::from(now).as_nanos()).expect("not for centuries")
}

fn server(mode: Mode, loops: Loops) -> MonitoredServer {
    let routes = Router::new()
        .route("/short", get(async || "at once"))
        .route(
            "/long/{id}",
            get(async || {
                thread::sleep(HOLD);
                "at last"
            }),
        )
        .route(
            "/body",
            get(async || {
                Response::new(Body::new(HoldingBody {
                    items_left: 2,
                    hold: HOLD,
                }))
            }),
        );
    let monitor = Monitor::builder().mode(mode).build();
    MonitoredServer::start(monitor, loops, routes)
}

fn stalls(server: &MonitoredServer) -> Stalls {
    let snapshot = server.monitor.snapshot_with_stalls_after(0);
    snapshot.stalls.expect("this monitor tells them")
}

fn of<'s>(stalls: &'s Stalls, endpoint: &str) -> Vec<&'s Stall> {
    let told = stalls.told.iter();
    told.filter(|stall| stall.endpoint == endpoint).collect()
}

#[test]
fn a_long_hold_has_its_times_on_the_system_s_clock() {
    for mode in [Mode::Counters, Mode::FullSplit] {
        for loops in [Loops::CurrentThread, Loops::Workers(2)] {
            let case = format!("{mode:?}, {loops:?}");
            let server = server(mode, loops);
            let begun_ns = now_ns();
            server.get_times("/short", 3);
            server.get_times("/long/7", 3);
            server.get_times("/body", 1);
            let ended_ns = now_ns();
            let stalls = stalls(&server);
            let long = of(&stalls, "GET /long/{id}");
            assert_eq!(long.len(), 3, "{case}: {stalls:#?}");
            let mut last_ns = begun_ns;
            for stall in &long {
                assert_eq!(stall.part, HoldPart::Handler, "{case}");
                assert!(stall.began_ns >= last_ns, "{case}");
                assert!(stall.ended_ns - stall.began_ns >= HOLD_NS, "{case}");
                assert!(stall.ended_ns <= ended_ns, "{case}");
                let blocked_ns = stall.blocked_ns.expect("it is measured here");
                assert!(blocked_ns >= HOLD_NS / 10 * 9, "{case}: {stall:?}");
                assert!(blocked_ns <= stall.ended_ns - stall.began_ns, "{case}");
                assert_eq!(stall.line, None, "nobody watches");
                last_ns = stall.ended_ns;
            }
            let parts: Vec<_> = of(&stalls, "GET /body").iter().map(|s| s.part).collect();
            assert!(parts.len() >= 2, "{case}: {stalls:#?}");
            assert!(parts.iter().all(|part| *part == HoldPart::Body), "{case}");
            // As many as the counters say, and with no gap.
            let numbers: Vec<u64> = stalls.told.iter().map(|stall| stall.number).collect();
            assert_eq!(numbers, (1..=stalls.seen).collect::<Vec<_>>(), "{case}");
            let snapshot = server.monitor.snapshot();
            let endpoints = snapshot.endpoints.values();
            let over: u64 = endpoints.map(|endpoint| endpoint.holds_over.ms_1).sum();
            assert_eq!(snapshot.stalls.expect("told").seen, over, "{case}");
        }
    }
}

#[test]
fn a_reader_asks_for_those_that_it_has_not_seen() {
    let server = server(Mode::Counters, Loops::CurrentThread);
    server.get_times("/long/7", 3);
    let read = |path: &str| -> Snapshot {
        let answer = ask(server.address, path);
        serde_json::from_str(body(&answer)).unwrap_or_else(|error| panic!("{error}: {answer}"))
    };
    let numbers = |snapshot: Snapshot| -> Vec<u64> {
        let stalls = snapshot.stalls.expect("this monitor tells them");
        stalls.told.iter().map(|stall| stall.number).collect()
    };
    let before = read(SNAPSHOT_PATH).stalls.expect("told");
    server.get_times("/long/8", 2);
    let after = read(&format!(
        "{SNAPSHOT_PATH}?x=1&{STALLS_AFTER}={}",
        before.seen
    ));
    let seen = after.stalls.as_ref().expect("told").seen;
    assert!(seen >= before.seen + 2);
    assert_eq!(numbers(after), (before.seen + 1..=seen).collect::<Vec<_>>());
    let refused = ask(server.address, &format!("{SNAPSHOT_PATH}?{STALLS_AFTER}=x"));
    assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
    assert!(refused.contains("a whole number is expected"), "{refused}");
}

#[test]
fn a_task_s_hold_is_its_own() {
    let monitor = Monitor::builder().build();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = monitor.install(&mut builder).build().expect("a runtime");
    runtime.block_on(monitor.task("mailer", async { thread::sleep(HOLD) }));
    let stalls = monitor.snapshot().stalls.expect("this monitor tells them");
    assert_eq!(of(&stalls, "TASK mailer").len(), 1, "{stalls:#?}");
}
