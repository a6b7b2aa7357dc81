//! `run` and `ab` against services whose right answers are known, and against those that
//! misbehave in the middle of a run.

use std::path::Path;

use crate::program::{Call, call, run_of_five_ms, tiny_service, unstall, write_scenario};
use serde_json::Value;
use unstall_results::record::RunRecord;
use unstall_results::store;
use unstall_testbed::{Behaviour, ExactDelay, FaultyServer};

fn read(folder: &Path, name: &str) -> RunRecord {
    store::read(&folder.join(name)).expect("a readable record")
}

fn requests(record: &RunRecord) -> u64 {
    record.blocks.iter().map(|block| block.offered).sum()
}

/// A regression; or, on a machine that starves the load generator, nothing but that said.
#[track_caller]
fn assert_regression_unless_too_busy(call: &Call) {
    let document = call.document();
    if document["verdict"] == "invalid" {
        call.assert_code(3);
        let faults = document["comparisons"][0]["faults"]
            .as_array()
            .expect("faults")
            .clone();
        let ours = |fault: &Value| fault.to_string().contains("go late");
        assert!(!faults.is_empty() && faults.iter().all(ours), "{call:#?}");
        return;
    }
    call.assert_code(1);
    assert_eq!(document["verdict"], "regression");
}

fn only(document: &Value) -> &Value {
    &document["runs"][0]["measured"][0]
}

#[test]
fn a_run_counts_exactly_and_reads_the_delay() {
    let folder = tempfile::tempdir().expect("a folder");
    let call = run_of_five_ms(
        folder.path(),
        &["-c", "5,10", "--requests", "100", "--warmup", "1"],
    );
    call.assert_code(0);
    let document = call.document();
    assert_eq!(only(&document)["completed"], 100);
    let p50 = only(&document)["p50_ms"]["value"]
        .as_f64()
        .expect("a median");
    assert!(
        p50 >= 5.0,
        "{p50} ms: no answer can be earlier than the server's delay"
    );
    let record = read(folder.path(), "r.json");
    assert_eq!(record.blocks.len(), 2);
    assert_eq!(requests(&record), 200);
    assert!(!record.interrupted);
}

#[test]
fn faults_are_counted_by_kind_and_the_record_is_saved() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = FaultyServer::start(Behaviour::Paths).expect("a server");
    for (name, kind) in [
        ("500", "status"),
        ("reset", "reset"),
        ("rubbish", "protocol"),
        ("hang", "timeout"),
    ] {
        let scenario = write_scenario(folder.path(), name, &format!("/{name}"));
        let text = std::fs::read_to_string(&scenario).expect("readable");
        std::fs::write(&scenario, text.replace("\"2s\"", "\"100ms\"")).expect("writable");
        let out = format!("r-{name}.json");
        let call = call(
            folder.path(),
            [
                "run",
                &format!("{name}.toml"),
                "--target",
                &server.url(),
                "-c",
                "2",
                "--requests",
                "6",
                "--warmup",
                "0",
                "--out",
                &out,
                "--json",
            ],
        );
        // Not one good answer: these numbers are no measurement of the service.
        call.assert_code(3);
        let document = call.document();
        assert_eq!(only(&document)["completed"], 0, "{name}");
        let errors = read(folder.path(), &out).blocks[0].errors.clone();
        assert_eq!(errors.values().sum::<u64>(), 6, "{name}: {errors:?}");
        let counted = only(&document)["errors"]
            .as_object()
            .expect("errors")
            .clone();
        assert_eq!(counted.keys().collect::<Vec<_>>(), [kind], "{name}");
    }
}

#[test]
fn a_url_where_nothing_listens_is_a_mistake_and_not_a_measurement() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = FaultyServer::start(Behaviour::Paths).expect("a server");
    let alive = server.url();
    let gone = {
        let server = FaultyServer::start(Behaviour::Paths).expect("a server");
        server.die();
        server.url()
    };
    write_scenario(folder.path(), "try", "/x");
    for arguments in [
        ["run", "try.toml", "--target", &gone, "--label", "x"],
        ["ab", "try.toml", "--before", &alive, "--after", &gone],
        ["ab", "try.toml", "--before", &gone, "--after", &alive],
    ] {
        let call = call(folder.path(), arguments);
        call.assert_code(2)
            .assert_stderr(&[&gone, "start the service"]);
    }
    let results = std::fs::read_dir(folder.path().join("unstall-results"));
    let recorded = results.map_or(0, Iterator::count);
    assert_eq!(recorded, 0, "nothing was measured");
}

#[test]
fn a_slower_version_is_a_regression_and_a_faster_one_passes() {
    let folder = tempfile::tempdir().expect("a folder");
    write_scenario(folder.path(), "try", "/x");
    let service = tiny_service();
    let command = |ms: u32| format!("{} --delay-ms {ms}", service.display());
    let measure = |before: u32, after: u32, out: &str| {
        let output = unstall(folder.path())
            .args([
                "ab",
                "try.toml",
                "--before",
                &command(before),
                "--after",
                &command(after),
            ])
            .args([
                "--pairs",
                "5",
                "-c",
                "2",
                "--requests",
                "60",
                "--warmup",
                "1",
            ])
            .args(["--out", out, "--seed", "7", "--json"])
            .output()
            .expect("starts");
        Call::of(output)
    };
    let slower = measure(1, 12, "slower.json");
    assert_regression_unless_too_busy(&slower);
    let faster = measure(12, 1, "faster.json");
    assert_ne!(faster.code, Some(1), "{faster:#?}");
    let record = read(folder.path(), "slower.json");
    assert_eq!(record.load.seed, 7);
    assert!(record.blocks.len() >= 10);
    assert!(record.blocks.iter().all(|block| block.process.is_some()));
    let starts: std::collections::BTreeSet<_> = record
        .blocks
        .iter()
        .map(|block| block.process_start_id.clone())
        .collect();
    assert_eq!(
        starts.len(),
        record.blocks.len(),
        "each block has a process of its own"
    );
    // What was stored says what was printed.
    assert_eq!(
        call(folder.path(), ["compare", "slower.json"]).code,
        slower.code
    );
}

#[test]
fn before_block_runs_before_every_block_and_its_failure_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = ExactDelay::start().expect("a server");
    write_scenario(folder.path(), "try", "/delay/1");
    let ab = |command: &str, out: &str| {
        let output = unstall(folder.path())
            .args([
                "ab",
                "try.toml",
                "--before",
                &server.url(),
                "--after",
                &server.url(),
            ])
            .args([
                "--pairs",
                "5",
                "-c",
                "2",
                "--requests",
                "10",
                "--warmup",
                "0",
            ])
            .args(["--before-block", command, "--out", out])
            .output()
            .expect("starts");
        Call::of(output)
    };
    let call = ab(
        "echo $UNSTALL_ARM $UNSTALL_PAIR >> log; echo said",
        "r.json",
    );
    assert!(
        call.stderr.contains("said") && !call.stdout.contains("said"),
        "{call:#?}"
    );
    let record = read(folder.path(), "r.json");
    assert_eq!(record.load.state_reset, "command");
    let log = std::fs::read_to_string(folder.path().join("log")).expect("the command's log");
    let expected: Vec<String> = record
        .blocks
        .iter()
        .map(|block| format!("{} {}", block.arm, block.pair))
        .collect();
    assert_eq!(log.lines().collect::<Vec<_>>(), expected);
    let failed = ab("exit 3", "never.json");
    failed
        .assert_code(2)
        .assert_stderr(&["exit 3", "--before-block"]);
    assert!(
        !folder.path().join("never.json").exists(),
        "a record of nothing"
    );
}

#[test]
fn a_version_that_does_not_start_is_named_with_its_last_words() {
    let folder = tempfile::tempdir().expect("a folder");
    write_scenario(folder.path(), "try", "/x");
    let refuses = format!("{} --refuse-to-start 1", tiny_service().display());
    let output = unstall(folder.path())
        .args([
            "ab", "try.toml", "--before", &refuses, "--after", &refuses, "--out", "r.json",
        ])
        .output()
        .expect("starts");
    Call::of(output)
        .assert_code(2)
        .assert_stderr(&["was told not to start"]);
    let missing = call(
        folder.path(),
        [
            "ab",
            "try.toml",
            "--before",
            "no-such-program",
            "--after",
            "http://127.0.0.1:9",
        ],
    );
    missing.assert_code(2).assert_stderr(&["no-such-program"]);
}

#[test]
fn a_version_that_dies_in_every_block_is_a_regression() {
    let folder = tempfile::tempdir().expect("a folder");
    write_scenario(folder.path(), "try", "/x");
    let service = tiny_service();
    let dies = format!("{} --die-at 30", service.display());
    let output = unstall(folder.path())
        .args([
            "ab",
            "try.toml",
            "--before",
            &service.display().to_string(),
            "--after",
            &dies,
        ])
        .args([
            "--pairs",
            "5",
            "-c",
            "2",
            "--requests",
            "60",
            "--warmup",
            "0",
        ])
        .args(["--out", "r.json", "--json"])
        .output()
        .expect("starts");
    assert_regression_unless_too_busy(&Call::of(output));
    let record = read(folder.path(), "r.json");
    for block in record.blocks.iter().filter(|block| block.arm == "after") {
        assert!(block.errors.values().sum::<u64>() > 0, "{:?}", block.errors);
        // The service ends at the 30th request: one is the look for a monitor, and of the 28
        // before the last the other user's may still be under way, or one or two more be answered
        // until the process is gone.
        assert!((27..=30).contains(&block.completed), "{}", block.completed);
    }
}

#[test]
fn nothing_is_replaced_unasked() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = ExactDelay::start().expect("a server");
    write_scenario(folder.path(), "one", "/delay/1");
    write_scenario(folder.path(), "two", "/delay/1");
    let run = |extra: &[&str]| {
        let output = unstall(folder.path())
            .args(["run", "one.toml", "two.toml", "--target", &server.url()])
            .args(["-c", "1", "--requests", "3", "--warmup", "0"])
            .args(extra)
            .output()
            .expect("starts");
        Call::of(output)
    };
    run(&["--out", "both"]).assert_code(0);
    run(&["--out", "both"])
        .assert_code(2)
        .assert_stderr(&["both/one.json", "--force"]);
    run(&["--out", "both", "--force"]).assert_code(0);
    read(folder.path(), "both/two.json");
    // Without --out every session has a file of its own, two at once also.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| run(&[]).assert_code(0).code);
        }
    });
    let count = std::fs::read_dir(folder.path().join("unstall-results"))
        .expect("made")
        .count();
    assert_eq!(count, 4);
}

#[test]
fn a_version_that_stops_starting_ends_the_session_as_invalid_with_what_there_is() {
    let folder = tempfile::tempdir().expect("a folder");
    write_scenario(folder.path(), "try", "/x");
    let command = format!(
        "sh -c 'echo x >> starts; test $(wc -l < starts) -lt 4 && exec {} --port {{port}}'",
        tiny_service().display()
    );
    let output = unstall(folder.path())
        .args(["ab", "try.toml", "--before", &command, "--after", &command])
        .args([
            "-c",
            "2",
            "--requests",
            "10",
            "--warmup",
            "0",
            "--out",
            "r.json",
            "--json",
        ])
        .output()
        .expect("starts");
    let call = Call::of(output);
    call.assert_code(3);
    assert!(
        call.document()["notes"]
            .to_string()
            .contains("could not be measured"),
        "{call:#?}"
    );
    let record = read(folder.path(), "r.json");
    assert!(record.interrupted);
    // Three starts were good; an invalid block on a busy machine takes a second one.
    assert!(
        (1..=3).contains(&record.blocks.len()),
        "{}",
        record.blocks.len()
    );
    // Tried again once before giving up.
    let starts = std::fs::read_to_string(folder.path().join("starts")).expect("the log");
    assert_eq!(starts.lines().count(), 5);
}
