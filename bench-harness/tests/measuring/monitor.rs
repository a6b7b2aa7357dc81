//! The loop monitor at the edges of a block, read from a server that plays back snapshots.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use unstall_bench_harness::block::{BlockPlace, MeasuredBlock, Service, measure};
use unstall_bench_harness::engine::{BlockSpec, ProbeSpec, Progress, Stop, Target};
use unstall_loop_monitor::wire;

use crate::support::{cold, plan};

/// In place of a snapshot: no answer at all.
const HANG_UP: &str = "hang up";

/// Answers everything with `{}`, and the snapshot's path with the next of `snapshots`.
fn playback(snapshots: Vec<String>) -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let rest = Arc::new(Mutex::new(snapshots.into_iter().collect()));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let rest = Arc::clone(&rest);
            // A client that hangs up ends its thread; there is nothing to tell anybody.
            std::thread::spawn(move || drop(serve(&stream, &rest)));
        }
    });
    Target::loopback(port)
}

fn serve(
    stream: &TcpStream,
    rest: &Mutex<std::collections::VecDeque<String>>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream;
    let mut path = String::new();
    for line in BufReader::new(stream).lines() {
        let line = line?;
        if path.is_empty() {
            line.split(' ')
                .nth(1)
                .unwrap_or_default()
                .clone_into(&mut path);
        }
        if line.is_empty() {
            let next = if path == wire::SNAPSHOT_PATH {
                rest.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .pop_front()
            } else {
                Some("{}".to_owned())
            };
            if next.as_deref() == Some(HANG_UP) {
                return Ok(());
            }
            let (status, body) = match next {
                Some(refusal) if refusal.starts_with(wire::REFUSAL_PREFIX) => {
                    ("403 Forbidden", refusal)
                }
                Some(body) => ("200 OK", body),
                None => ("404 Not Found", String::new()),
            };
            let length = body.len();
            write!(
                writer,
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}"
            )?;
            path.clear();
        }
    }
    Ok(())
}

fn snapshot(start_id: &str, requests: u64) -> String {
    let counters = wire::Endpoint {
        requests,
        polls: requests * 3,
        hold_ns_sum: requests * 10_000,
        blocked: wire::Blocked {
            slept_ns: requests * 2_000_000,
            events: requests,
            events_over_200us: requests,
            ns_max: 2_500_000,
            ..wire::Blocked::default()
        },
        ..wire::Endpoint::default()
    };
    let snapshot = wire::Snapshot {
        schema: wire::Schema {
            name: wire::SCHEMA_NAME.to_owned(),
            major: wire::SCHEMA_MAJOR,
            minor: wire::SCHEMA_MINOR,
        },
        start_id: start_id.to_owned(),
        mono_ns: 1,
        runtime: "tokio".to_owned(),
        mode: wire::Mode::FullSplit,
        loops: 1,
        endpoints: BTreeMap::from([
            ("GET /items/{id}".to_owned(), counters),
            ("GET /health".to_owned(), wire::Endpoint::default()),
        ]),
        tasks: BTreeMap::new(),
        unattributed: wire::Blocked::default(),
        loop_lag: None,
        workers: Vec::new(),
        pool: None,
        counters: None,
        causes: None,
        stalls: None,
        threads: wire::Threads {
            workers: 1,
            pool: 2,
            other: 3,
        },
        runtime_metrics: wire::RuntimeMetrics::default(),
        not_covered: Vec::new(),
    };
    serde_json::to_string(&snapshot).expect("a snapshot can be written")
}

/// A block on a server that plays back one snapshot per `(start id, requests)`.
fn measured(snapshots: &[(&str, u64)]) -> MeasuredBlock {
    let snapshots = snapshots.iter();
    measured_with(snapshots.map(|(id, requests)| snapshot(id, *requests)))
}

/// A block on a server that plays back these answers.
fn measured_with(answers: impl Iterator<Item = String>) -> MeasuredBlock {
    probed_with(answers, None)
}

/// The same with a probe of this route.
fn probed_with(answers: impl Iterator<Item = String>, path: Option<&str>) -> MeasuredBlock {
    let probe = path.map(|path| ProbeSpec {
        path: path.to_owned(),
        rate_per_second: 50.0,
        is_proven: false,
    });
    let target = playback(answers.collect());
    let place = BlockPlace {
        arm: "before".to_owned(),
        pair: 0,
        position: 0,
    };
    measure(
        &plan(&[("GET item", "GET", "/items/7")], ""),
        Service::Running(&target),
        &place,
        &BlockSpec {
            probe,
            ..cold(2, 10)
        },
        &Stop::new(),
        &Arc::new(Progress::new()),
    )
    .expect("the block can be measured")
}

#[test]
fn differences_carry_the_scenarios_names() {
    let measured = measured(&[("a", 5), ("a", 5), ("a", 5), ("a", 15), ("a", 15)]);
    assert_eq!(measured.warnings, Vec::<String>::new());
    assert_eq!(measured.block.process_start_id.as_deref(), Some("a"));
    let monitor = measured.block.monitor.expect("one process served it");
    assert_eq!(monitor.mode, "full-split");
    assert_eq!(monitor.threads.pool, 2);
    assert_eq!(Vec::from_iter(monitor.endpoints.keys()), ["GET item"]);
    let endpoint = &monitor.endpoints["GET item"];
    assert_eq!(
        (endpoint.requests, endpoint.polls, endpoint.hold_us_sum),
        (10, 30, 100)
    );
    assert_eq!(
        (endpoint.blocked_us.slept, endpoint.blocks_over_200us),
        (20_000, 10)
    );
}

#[test]
fn what_the_service_counts_is_in_the_block() {
    let told = |requests: u64| {
        let mut snapshot: wire::Snapshot =
            serde_json::from_str(&snapshot("a", requests)).expect("a snapshot");
        let counters = [("dropped", requests * 2), ("lost", 7)];
        let counters = counters.map(|(name, value)| (name.to_owned(), value));
        snapshot.counters = Some(BTreeMap::from(counters));
        serde_json::to_string(&snapshot).expect("a snapshot can be written")
    };
    let measured = measured_with([5, 5, 5, 15, 15].map(told).into_iter());
    let counted = measured.block.service_counters.expect("the monitor tells");
    let expected = [("dropped", 20), ("lost", 0)];
    assert_eq!(
        counted,
        BTreeMap::from(expected.map(|(name, value)| (name.to_owned(), value)))
    );
    // An older monitor tells nothing, which is not that nothing was counted.
    let measured = measured_with([5, 5, 5, 15, 15].map(|n| snapshot("a", n)).into_iter());
    assert_eq!(measured.block.service_counters, None);
}

/// A snapshot whose route `/health` has been asked for so often.
fn healthy(requests: u64) -> String {
    let mut snapshot: wire::Snapshot =
        serde_json::from_str(&snapshot("a", requests)).expect("a snapshot");
    let item = snapshot.endpoints["GET /items/{id}"].clone();
    snapshot.endpoints.insert("GET /health".to_owned(), item);
    serde_json::to_string(&snapshot).expect("a snapshot can be written")
}

#[test]
fn what_the_probe_causes_is_no_part_of_the_load() {
    let answers = || [5, 5, 5, 15, 15].map(healthy).into_iter();
    let measured = probed_with(answers(), Some("/health"));
    let monitor = measured.block.monitor.expect("one process served it");
    assert_eq!(Vec::from_iter(monitor.endpoints.keys()), ["GET item"]);
    let probe = measured.block.probe.expect("it was probed");
    let route = probe.monitor.expect("its route is monitored");
    assert_eq!((route.requests, route.blocked_us.slept), (10, 20_000));
    assert_eq!(measured.warnings, Vec::<String>::new());
    // Without a probe the same route is one that the scenario doesn't know.
    let measured = probed_with(answers(), None);
    let monitor = measured.block.monitor.expect("one process served it");
    assert_eq!(
        Vec::from_iter(monitor.endpoints.keys()),
        ["GET /health", "GET item"]
    );
}

#[test]
fn a_probe_on_a_measured_route_is_told() {
    let measured = probed_with([5, 5, 5, 15, 15].map(healthy).into_iter(), Some("/items/9"));
    let monitor = measured.block.monitor.expect("one process served it");
    assert!(monitor.endpoints.contains_key("GET item"));
    assert_eq!(measured.block.probe.and_then(|probe| probe.monitor), None);
    // A busy machine may have its own.
    assert!(
        measured
            .warnings
            .iter()
            .any(|text| text.contains("the route of `GET item`")),
        "{:?}",
        measured.warnings
    );
}

#[test]
fn a_restart_is_told() {
    let measured = measured(&[("a", 5), ("a", 5), ("a", 5), ("b", 1), ("b", 1)]);
    assert_eq!(measured.block.monitor, None);
    assert_eq!(measured.block.service_counters, None);
    assert!(
        measured.warnings[0].contains("restarted"),
        "{:?}",
        measured.warnings
    );
    assert_eq!(measured.block.validity.reasons, measured.warnings);
}

#[test]
fn several_workers_behind_one_port_are_told() {
    let measured = measured(&[("a", 5), ("b", 5), ("a", 5), ("a", 9), ("a", 9)]);
    assert_eq!(measured.block.monitor, None);
    assert!(
        measured.warnings[0].contains("one worker"),
        "{:?}",
        measured.warnings
    );
}

/// Idle workers take connections in no fair turn: each look may meet the same one.
#[test]
fn a_worker_that_no_look_met_is_told_by_the_requests_it_took() {
    let measured = measured(&[("a", 5), ("a", 5), ("a", 5), ("a", 14), ("a", 14)]);
    assert_eq!(measured.block.completed, 10);
    assert_eq!(measured.block.monitor, None);
    assert!(
        measured.warnings[0].contains("one worker"),
        "{:?}",
        measured.warnings
    );
}

#[test]
fn a_monitor_that_refuses_is_told_in_its_own_words() {
    let refusal = format!("{}serve it with connect info\n", wire::REFUSAL_PREFIX);
    let measured = measured_with([refusal].into_iter());
    assert_eq!(measured.block.monitor, None);
    assert_eq!(
        measured.warnings,
        [
            "the loop monitor is not read: serve it with connect info (UNSTALL_MONITOR_TOKEN is \
             what unstall sends)"
        ]
    );
    assert!(measured.block.validity.ok, "the load itself is good");
}

#[test]
fn no_monitor_is_no_fault() {
    let measured = measured(&[]);
    assert_eq!(measured.block.monitor, None);
    assert_eq!(measured.warnings, Vec::<String>::new());
}

#[test]
fn an_answer_that_fails_is_told_and_costs_no_block() {
    let ok = |requests| snapshot("a", requests);
    let malformed = ok(15).replace("\"start_id\"", "\"start\"");
    let hangs_up = HANG_UP.to_owned();
    let cases = [
        (vec![ok(5), ok(5), ok(5), malformed], "no usable snapshot"),
        (
            vec![ok(5), ok(5), ok(5), hangs_up.clone()],
            "could not be asked",
        ),
        (vec![hangs_up], "could not be asked"),
    ];
    for (answers, expected) in cases {
        let measured = measured_with(answers.into_iter());
        assert_eq!(measured.block.monitor, None);
        assert_eq!(measured.block.completed, 10);
        let [warning] = &measured.warnings[..] else {
            panic!("one warning: {:?}", measured.warnings);
        };
        assert!(warning.contains(expected), "{warning}");
    }
}
