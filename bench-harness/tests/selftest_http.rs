//! `unstall selftest http` through its door: the engine of this build counts every case exactly, a
//! case that isn't as it has to be would be told, and a wrong name is refused with the right ones.
//!
//! Counts decide and no clock does: a case that is only late is printed and no failure of this test.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use serde_json::Value;

fn unstall(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstall"));
    command.args(arguments).output().expect("unstall starts")
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Name → case.
fn cases(document: &Value) -> BTreeMap<&str, &Value> {
    let cases = document["torture"]["cases"].as_array().expect("a list");
    let named = cases.iter().map(|case| (case["case"].as_str(), case));
    named
        .map(|(name, case)| (name.expect("a name"), case))
        .collect()
}

#[test]
fn every_case_is_as_it_has_to_be() {
    let output = unstall(&["selftest", "http", "--json"]);
    let said = String::from_utf8_lossy(&output.stderr);
    let document = document(&output);
    let cases = cases(&document);
    assert!(cases.len() > 250, "{}", cases.len());
    for (name, case) in &cases {
        let has_reason = !case["reasons"].as_array().expect("a list").is_empty();
        assert_eq!(case["state"] != "met", has_reason, "{name}: {case}");
        match case["state"].as_str() {
            Some("met") => {}
            Some("late") => eprintln!("{name}: {}", case["reasons"]),
            Some("not_run") => eprintln!("skipped: {name}: {}", case["reasons"]),
            _ => panic!("{name}: {case}\n{said}"),
        }
    }
    // All others need nothing that a machine may lack.
    let lacking = [
        "ipv6",
        "descriptors-hard",
        "descriptors-soft",
        "descriptors-used-up",
        "no-ports",
        "ports-foreseen",
        "slow-resolver",
        "silent-resolver",
        "backlog-full",
        "large-body-memory",
        "requests-memory",
    ];
    for (name, case) in &cases {
        let is_excused = lacking.contains(name);
        assert!(is_excused || case["state"] != "not_run", "{name}: {case}");
    }
    for name in lacking {
        assert!(cases.contains_key(name), "{name} is no case any more");
    }
    let code = output.status.code();
    assert!(code == Some(0) || code == Some(4), "{said}");
    assert_eq!(document["command"], "selftest http");
}

#[test]
fn one_case_is_told_in_a_table_with_its_report() {
    let output = unstall(&[
        "selftest",
        "http",
        "--only",
        "trailers",
        "--only",
        "truncated",
    ]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for words in [
        "## Right answers in unusual frames",
        "http-kit/http-kit#523",
        "completed 20, errors none",
        "completed 0, errors 8 reset",
        "2 of 2 cases are as they have to be",
    ] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
}

#[test]
fn a_wrong_name_is_refused_with_the_right_ones() {
    let output = unstall(&["selftest", "http", "--only", "obsfold"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("obsfold") && said.contains("obs-fold"),
        "{said}"
    );
}
