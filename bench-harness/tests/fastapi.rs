//! A FastAPI team's first comparison: `unstall ab` starts the example's two versions by their
//! commands, and finds what the migration gained.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use unstall_results::record::{Block, RunRecord};
use unstall_results::store;
use unstall_testbed::{DelayProxy, Options, Testbed};

/// Between the service and its stores. A blocked loop waits for it once per statement, and twenty
/// users wait for each other: no machine is too busy to see that.
const ROUND_TRIP: Duration = Duration::from_millis(2);
const DATABASE: &str = "fastapi";

/// What the target folder has beside the tests' own programs: those of another package, and the
/// Python environment that `./dev` makes.
fn built(path: &str, by: &str) -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_unstall"));
    beside
        .ancestors()
        .map(|folder| folder.join(path))
        .find(|built| built.exists())
        .unwrap_or_else(|| panic!("{path} is missing in the target folder; run {by}"))
}

fn prepare(testbed: &Testbed) {
    let reference = built("unstall-reference", "cargo build --workspace --bins");
    let run = |arguments: &[&str]| {
        let output = Command::new(&reference).args(arguments).output();
        let output = output.expect("unstall-reference starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
    };
    testbed
        .create_template("seeded", |url| {
            run(&["migrate", "--database-url", url]);
            run(&["seed", "--database-url", url]);
            Ok(())
        })
        .expect("the template is made");
    testbed
        .reset_database("seeded", DATABASE)
        .expect("the database is cloned");
    run(&["seed", "--redis-url", &testbed.redis_url()]);
}

/// What a user types, but for the paths.
fn command_of(version: &str) -> String {
    let python = built("python/bin/python", "./dev setup");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reference-service/fastapi");
    format!(
        "'{}' -B -m uvicorn --app-dir '{}' reference_fastapi.{version}:app --port {{port}} --log-level warning",
        python.display(),
        example.display()
    )
}

/// A scenario, `--requests` and how many those make in a block, the percentile that so many of an
/// endpoint can decide, and of how many endpoints it must be found to be better.
struct Comparison {
    scenario: &'static str,
    requests: u64,
    in_all: u64,
    metric: &'static str,
    endpoints: &'static [&'static str],
    better_min: usize,
}

/// `unstall ab` with the fewest pairs that can decide.
fn compare(testbed: &Testbed, folder: &Path, comparison: &Comparison) -> Value {
    let postgres = DelayProxy::start(testbed.postgres_address(), ROUND_TRIP).expect("a proxy");
    let redis = DelayProxy::start(testbed.redis_address(), ROUND_TRIP).expect("a proxy");
    let output = Command::new(env!("CARGO_BIN_EXE_unstall"))
        .current_dir(folder)
        .args(["ab", comparison.scenario])
        .args(["--before", &command_of("blocking")])
        .args(["--after", &command_of("asynchronous")])
        .args(["--pairs", "5", "-c", "20", "--warmup", "1"])
        .args(["--requests", &comparison.requests.to_string()])
        .args(["--out", "record.json", "--json"])
        .env(
            "DATABASE_URL",
            testbed.database_url_through(postgres.addr(), DATABASE),
        )
        .env("REDIS_URL", testbed.redis_url_through(redis.addr()))
        .output()
        .expect("unstall starts");
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Every request of every block that counts was answered as the scenario expects.
fn assert_complete(record: &RunRecord, comparison: &Comparison) {
    assert!(!record.interrupted);
    for block in record.blocks.iter().filter(|block| block.validity.ok) {
        assert!(block.errors.is_empty(), "{}: {:?}", block.arm, block.errors);
        assert_eq!(block.completed, comparison.in_all, "{}", block.arm);
    }
}

/// The monitor saw the loop held, and blocked, while a blocking client waited: each route makes two
/// round trips or more. What was awaited it doesn't take for blocked.
fn assert_held(record: &RunRecord, comparison: &Comparison) {
    let blocks = record.blocks.iter().filter(|block| block.arm == "before");
    for block in blocks.filter(|block| block.validity.ok) {
        let monitor = block.monitor.as_ref().expect("the monitor is on");
        for name in comparison.endpoints {
            let seen = &monitor.endpoints[*name];
            let waited_us = 2 * seen.requests * ROUND_TRIP.as_micros() as u64;
            assert!(
                seen.requests >= block.endpoints[*name].completed,
                "{name}: {seen:?}"
            );
            assert!(seen.hold_us_sum >= waited_us, "{name}: {seen:?}");
            // A bound from below, while other threads of the service compute.
            let blocked_us = seen.blocked_us.slept + seen.blocked_us.fault;
            assert!(blocked_us >= waited_us / 2, "{name}: {seen:?}");
        }
        assert_blamed(block, comparison);
    }
    let blocked_us = |arm: &str| -> u64 {
        let blocks = record.blocks.iter().filter(|block| block.arm == arm);
        let endpoints = blocks.flat_map(|block| block.monitor.iter().flat_map(|m| &m.endpoints));
        endpoints
            .map(|(_, seen)| seen.blocked_us.slept + seen.blocked_us.fault)
            .sum()
    };
    assert!(blocked_us("before") > 20 * blocked_us("after"));
}

/// The middleware told when its steps held the loop, and whom they kept waiting: twenty users wait
/// for one loop.
fn assert_blamed(block: &Block, comparison: &Comparison) {
    let stalls = block.stalls.as_ref().expect("the middleware tells stalls");
    assert_eq!((stalls.loops, stalls.unplaced), (1, 0), "{stalls:#?}");
    let steps = comparison.in_all;
    assert!(stalls.placed >= steps, "{} of {steps}", stalls.placed);
    let held_us: u64 = stalls.by_second_us.iter().sum();
    assert!(held_us <= block.wall_ns / 1_000 + stalls.by_second_us.len() as u64);
    for name in comparison.endpoints {
        let victim = &stalls.victims[*name];
        let completed = block.endpoints[*name].completed;
        assert_eq!(victim.requests, completed, "{name}");
        let of_victim = stalls.blame.iter().filter(|blame| blame.victim == *name);
        let waited_us: u64 = of_victim.map(|blame| blame.overlapped_us).sum();
        assert!(waited_us <= victim.under_way_us, "{name}: {stalls:#?}");
        assert!(waited_us >= victim.under_way_us / 2, "{name}: {stalls:#?}");
    }
}

/// How often a comparison is made that the machine disturbs.
const ATTEMPTS: u32 = 3;

/// The reasons why a comparison decides nothing, if all lie in the machine: a generator that was
/// late, or time that was stolen from it. Any other reason is a fault of ours.
fn disturbances(document: &Value) -> Option<&Value> {
    if document["verdict"] != "invalid" {
        return None;
    }
    let faults = &document["comparisons"][0]["faults"];
    let all = faults.as_array().expect("faults");
    let machines = |fault: &Value| {
        let fault = fault.to_string();
        fault.contains("generator was late") || fault.contains("stolen")
    };
    assert!(!all.is_empty() && all.iter().all(machines), "{all:#?}");
    Some(faults)
}

/// Found to be better, and nothing worse.
fn assert_better(document: &Value, comparison: &Comparison) {
    let compared = &document["comparisons"][0];
    eprintln!("{}: {}", comparison.scenario, compared["headline"]);
    assert_ne!(document["verdict"], "regression");
    let cells = compared["cells"].as_array().expect("cells");
    let outcomes = cells
        .iter()
        .filter(|cell| cell["metric"] == comparison.metric)
        .map(|cell| {
            assert_eq!(cell["judged"], true, "{cell:#}");
            (&cell["endpoint"], cell["outcome"].as_str().expect("a word"))
        });
    let outcomes: Vec<_> = outcomes.collect();
    assert_eq!(outcomes.len(), comparison.endpoints.len(), "{outcomes:?}");
    let better = outcomes.iter().filter(|(_, word)| *word == "improvement");
    assert!(better.count() >= comparison.better_min, "{outcomes:?}");
}

#[test]
fn the_migration_of_the_fastapi_example_is_found_to_be_an_improvement() {
    let testbed = Testbed::start(&Options::default()).expect("private servers start");
    prepare(&testbed);
    for comparison in [
        Comparison {
            scenario: "usage-check",
            // One of the two each time.
            requests: 120,
            in_all: 120,
            metric: "response_p50",
            endpoints: &["POST conversations", "GET usage"],
            // So few requests that what the machine does beside this may blur one of the two.
            better_min: 1,
        },
        Comparison {
            scenario: "tunnel-github",
            requests: 400,
            in_all: 1200,
            metric: "response_p95",
            endpoints: &["GET workspace", "GET socket-status", "GET branch-list"],
            better_min: 3,
        },
    ] {
        compare_undisturbed(&testbed, &comparison);
    }
}

/// Compares until the machine lets it, and fails if it never does.
fn compare_undisturbed(testbed: &Testbed, comparison: &Comparison) {
    for _ in 0..ATTEMPTS {
        let folder = tempfile::tempdir().expect("a folder");
        let document = compare(testbed, folder.path(), comparison);
        let record = store::read(&folder.path().join("record.json")).expect("the record is whole");
        assert_complete(&record, comparison);
        assert_held(&record, comparison);
        match disturbances(&document) {
            Some(faults) => eprintln!("{}: disturbed: {faults}", comparison.scenario),
            None => return assert_better(&document, comparison),
        }
    }
    panic!(
        "{}: this machine disturbed all of {ATTEMPTS} comparisons",
        comparison.scenario
    );
}
