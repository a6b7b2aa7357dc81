//! The wire form: its JSON and its schema are what readers in other languages rely on.
#![expect(clippy::disallowed_methods, reason = "a test may read files")]

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use unstall_loop_monitor::Monitor;
use unstall_loop_monitor::cause::{Cause, CauseClass, Frame, Target};
use unstall_loop_monitor::watched::WatchedCause;
use unstall_loop_monitor::wire::{
    Blocked, Endpoint, Histogram, HoldPart, HoldsOver, Mode, Part, Parts, Pool, PoolJobs,
    RuntimeMetrics, SCHEMA_MAJOR, SCHEMA_MINOR, SCHEMA_NAME, Schema, Snapshot, Stall, Stalls,
    Threads, Worker,
};

fn part(polls: u64, hold_ns_sum: u64, blocked_ns: u64) -> Part {
    Part {
        polls,
        hold_ns_sum,
        blocked_ns,
    }
}

fn pool() -> Pool {
    let thumbnails = PoolJobs {
        submitted: 9,
        finished: 5,
        cancelled: 1,
        queued: 1,
        running: 2,
        wait: Histogram { log2_us: vec![7] },
        wait_ns_sum: 9_000,
        wait_ns_max: 1_500,
        run: Histogram {
            log2_us: vec![0, 4, 1],
        },
        run_ns_sum: 17_000,
        run_ns_max: 5_000,
    };
    Pool {
        threads_max: 8,
        saturation: 0.25,
        running: 2,
        running_max: 3,
        queued: 1,
        queued_max: 4,
        jobs: BTreeMap::from([("thumbnails".to_owned(), thumbnails)]),
    }
}

fn cause() -> WatchedCause {
    let frame = Frame {
        function: "store::get".to_owned(),
        file: Some("src/store.rs".to_owned()),
        line: Some(42),
        is_own: true,
    };
    WatchedCause {
        cause: Cause {
            class: CauseClass::Io,
            syscall: Some("recvfrom".to_owned()),
            target: Some(Target {
                what: "127.0.0.1:44551".to_owned(),
                name: Some("redis (REDIS_URL)".to_owned()),
            }),
            endpoint: Some("GET /users/{id}".to_owned()),
            frames: vec![frame],
        },
        count: 1,
        total_ns: 5_100_000,
        longest_ns: 5_100_000,
    }
}

fn stalls() -> Stalls {
    Stalls {
        threshold_ns: 1_000_000,
        seen: 7,
        kept_max: 16_384,
        told: vec![Stall {
            number: 7,
            began_ns: 118_256_789,
            ended_ns: 123_456_789,
            endpoint: "GET /users/{id}".to_owned(),
            part: HoldPart::Body,
            blocked_ns: Some(5_000_000),
            line: Some("store::get at src/store.rs:42".to_owned()),
        }],
    }
}

/// One of everything.
fn example() -> Snapshot {
    let blocked = Blocked {
        slept_ns: 5_100_000,
        fault_ns: 40_000,
        gil_ns: 60_000,
        shared_ns: 100_000,
        events: 3,
        events_over_200us: 1,
        ns_max: 5_000_000,
    };
    let endpoint = Endpoint {
        requests: 2,
        polls: 6,
        hold_ns_sum: 5_400_000,
        hold_ns_max: 5_200_000,
        request_hold_ns_max: 5_300_000,
        holds_over: HoldsOver {
            ms_1: 1,
            ms_10: 0,
            ms_100: 0,
        },
        hold: Histogram {
            log2_us: vec![3, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        },
        cpu_ns: 250_000,
        runqueue_ns: 10_000,
        blocked: blocked.clone(),
        parts: Parts {
            handler: part(2, 200_000, 0),
            body: part(2, 4_900_000, 5_140_000),
            child: Some(part(1, 100_000, 0)),
            after: part(1, 200_000, 0),
        },
    };
    let task = Endpoint {
        requests: 1,
        polls: 1,
        parts: Parts {
            handler: part(1, 0, 0),
            ..Parts::default()
        },
        ..Endpoint::default()
    };
    Snapshot {
        schema: Schema {
            name: SCHEMA_NAME.to_owned(),
            major: SCHEMA_MAJOR,
            minor: SCHEMA_MINOR,
        },
        start_id: "4d2-1850e-1".to_owned(),
        mono_ns: 123_456_789,
        runtime: "tokio".to_owned(),
        mode: Mode::FullSplit,
        loops: 1,
        endpoints: BTreeMap::from([("GET /users/{id}".to_owned(), endpoint)]),
        tasks: BTreeMap::from([("mailer".to_owned(), task)]),
        unattributed: blocked,
        loop_lag: Some(Histogram {
            log2_us: vec![0, 9, 1],
        }),
        workers: vec![Worker {
            thread_id: 1_234,
            worker: Some(0),
            poll_age_ns: Some(250_000_000),
            endpoint: Some("GET /users/{id}".to_owned()),
        }],
        pool: Some(pool()),
        counters: Some(BTreeMap::from([("streams_dropped".to_owned(), 3)])),
        causes: Some(vec![cause()]),
        stalls: Some(stalls()),
        threads: Threads {
            workers: 1,
            pool: 2,
            other: 3,
        },
        runtime_metrics: RuntimeMetrics {
            busy_ns: 6_000_000,
            alive_tasks: 4,
            global_queue_depth: 0,
            parks: 17,
        },
        not_covered: vec!["The back of the moon.".to_owned()],
    }
}

#[test]
fn the_json_is_stable_and_reads_back() {
    let snapshot = example();
    let json = serde_json::to_string(&snapshot).expect("serialises");
    let read: Snapshot = serde_json::from_str(&json).expect("reads back");
    assert_eq!(read, snapshot);
    insta::assert_json_snapshot!(snapshot);
}

fn schema_path() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/snapshot.schema.json")
}

fn shipped_schema() -> Value {
    let text = std::fs::read_to_string(schema_path()).expect("the schema is shipped");
    serde_json::from_str(&text).expect("the schema is JSON")
}

#[test]
fn the_shipped_schema_is_that_of_the_types() {
    let derived = schemars::schema_for!(Snapshot);
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        let text = serde_json::to_string_pretty(&derived).expect("serialises");
        std::fs::write(schema_path(), text + "\n").expect("the folder is writable");
    }
    let derived = serde_json::to_value(&derived).expect("serialises");
    assert_eq!(
        shipped_schema(),
        derived,
        "the wire form has changed: bump its minor or major number, then run this test with \
         INSTA_UPDATE=always"
    );
}

#[test]
fn the_schema_accepts_what_is_sent_and_refuses_what_is_not() {
    let validator = jsonschema::validator_for(&shipped_schema()).expect("a schema");
    let empty = Monitor::builder().build().snapshot();
    for snapshot in [example(), empty] {
        let json = serde_json::to_value(&snapshot).expect("serialises");
        let errors: Vec<String> = validator
            .iter_errors(&json)
            .map(|error| error.to_string())
            .collect();
        assert_eq!(errors, Vec::<String>::new());
        for (pointer, wrong) in [
            ("/mode", Value::from("guess")),
            ("/loops", Value::from(-1)),
            ("/unattributed/slept_ns", Value::from("much")),
            ("/schema", Value::Null),
        ] {
            let mut json = json.clone();
            *json.pointer_mut(pointer).expect("a field") = wrong;
            assert!(!validator.is_valid(&json), "{pointer}");
        }
    }
}

/// As the monitor for Python sends it.
#[test]
fn what_a_monitor_can_not_measure_may_be_left_out() {
    let mut snapshot = example();
    snapshot.mode = Mode::Holds;
    let mut json = serde_json::to_value(&snapshot).expect("serialises");
    let fields = json.as_object_mut().expect("an object");
    for field in [
        "unattributed",
        "runtime_metrics",
        "tasks",
        "workers",
        "pool",
        "counters",
        "stalls",
    ] {
        fields.remove(field).expect("sent by this monitor");
    }
    let endpoint = json.pointer_mut("/endpoints/GET ~1users~1{id}");
    let endpoint = endpoint.and_then(Value::as_object_mut).expect("its route");
    for field in ["blocked", "cpu_ns", "runqueue_ns", "parts"] {
        endpoint.remove(field).expect("sent by this monitor");
    }
    let validator = jsonschema::validator_for(&shipped_schema()).expect("a schema");
    assert!(validator.is_valid(&json));
    let read: Snapshot = serde_json::from_value(json).expect("reads");
    assert!(!read.mode.measures_blocked());
    let endpoint = &read.endpoints["GET /users/{id}"];
    assert_eq!(endpoint.blocked, Blocked::default());
    assert_eq!(endpoint.hold_ns_sum, 5_400_000);
}

#[test]
fn snapshots_of_one_start_share_its_id_while_the_clock_goes_on() {
    let monitor = Monitor::builder().build();
    let before = monitor.snapshot();
    let after = monitor.snapshot();
    assert_eq!(before.start_id, after.start_id);
    assert!(before.mono_ns <= after.mono_ns);
    assert!(before.mono_ns > 0);
}
