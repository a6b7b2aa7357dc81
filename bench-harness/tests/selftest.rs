//! `unstall selftest monitor` through its door, with few calls: every bar is met here, a wrong
//! line is refused with what to do, and what isn't available is told and never passed over.
//!
//! Counts decide and no clock does: a canary tells by itself how often it slept.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn unstall(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstall"));
    command.args(arguments).output().expect("unstall starts")
}

/// The environment that `./dev setup` makes, in a target folder above the tests' programs.
fn python() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_unstall"));
    beside
        .ancestors()
        .map(|folder| folder.join("python/bin/python"))
        .find(|built| built.exists())
        .expect("python/bin/python is missing in the target folder; run ./dev setup")
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The columns of a document by program and observer.
fn columns(document: &Value) -> Vec<(String, &Value)> {
    let columns = document["selftest"]["columns"].as_array().expect("a list");
    let name = |column: &Value| {
        let text = |key: &str| column[key].as_str().expect("a text").to_owned();
        format!("{}: {}", text("program"), text("observer"))
    };
    columns
        .iter()
        .map(|column| (name(column), column))
        .collect()
}

#[test]
fn every_bar_is_met_and_what_could_not_be_run_has_a_reason() {
    let python = python();
    let python = python.to_str().expect("a path in UTF-8");
    let all = [
        "selftest", "monitor", "--count", "20", "--python", python, "--json",
    ];
    let mut output = unstall(&all);
    if output.status.code() == Some(1) {
        // Thousands of calls are looked at, and one may meet a moment of a busy machine; what is
        // wrong with the monitor is wrong in the next run, too.
        eprintln!("once more: {}", String::from_utf8_lossy(&output.stderr));
        output = unstall(&all);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let document = document(&output);
    assert_eq!(document["selftest"]["all_met"], true, "{said}");
    for (name, column) in columns(&document) {
        let canaries = column["canaries"].as_array().expect("a list");
        assert!(canaries.len() >= 17, "{name}");
        for canary in canaries {
            let has_reason = canary["reason"].is_string();
            assert_eq!(canary["state"] != "met", has_reason, "{name}: {canary}");
        }
        assert_eq!(column["false_alarms"], 0, "{name}: {column}");
        // In Python nine of ten are enough, which `state` says.
        if !name.ends_with("middleware") {
            assert_eq!(column["found"], column["expected"], "{name}: {column}");
        }
    }
    // The counters need nothing that a machine may lack.
    let all = columns(&document);
    let (_, counters) = all
        .iter()
        .find(|(name, _)| name == "Rust, Tokio: counters")
        .expect("runs");
    let sleep = &counters["canaries"][0];
    assert_eq!(
        (&sleep["canary"], &sleep["state"]),
        (&"sleep".into(), &"met".into())
    );
    assert_eq!(sleep["found"], sleep["expected"]);
    // Where the thread lost its core on the way to sleep, its alarm may have come by then, and it
    // didn't sleep: the canary tells so.
    assert!(sleep["expected"].as_u64() >= Some(15), "{sleep}");
}

#[test]
fn without_an_interpreter_the_rest_is_tested_and_the_reason_told() {
    let output = unstall(&[
        "selftest",
        "monitor",
        "--only",
        "sleep",
        "--tiers",
        "1",
        "--count",
        "5",
        "--python",
        "no-such-python",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let document = document(&output);
    for (name, column) in columns(&document) {
        let sleep = &column["canaries"][0];
        if name.starts_with("Rust") {
            assert_eq!(sleep["state"], "met", "{name}");
        } else {
            assert_eq!(sleep["state"], "not_run", "{name}");
            let reason = sleep["reason"].as_str().expect("a reason");
            assert!(
                reason.contains("no-such-python") && reason.contains("--python"),
                "{reason}"
            );
        }
    }
}

#[test]
fn nothing_to_test_is_no_pass() {
    let output = unstall(&[
        "selftest",
        "monitor",
        "--only",
        "gil-wait",
        "--tiers",
        "1",
        "--count",
        "1",
        "--python",
        "no-such-python",
    ]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("nothing could be tested") && said.contains("no-such-python"),
        "{said}"
    );
}

#[test]
fn wrong_subjects_canaries_and_tiers_are_refused_by_name() {
    let cases: [(&[&str], &[&str]); 3] = [
        (&["selftest", "gaet"], &["gaet", "gate"]),
        (
            &["selftest", "monitor", "--only", "slep"],
            &["slep", "sleep"],
        ),
        (&["selftest", "monitor", "--tiers", "4"], &["4", "1..=3"]),
    ];
    for (arguments, words) in cases {
        let output = unstall(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        for word in words {
            assert!(said.contains(word), "no {word:?} in {said}");
        }
    }
}
