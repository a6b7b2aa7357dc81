//! `unstall selftest gate` through its door, with few pairs: what is counted alarms exactly, a large
//! change is never passed and no change never regresses, and a wrong name is refused with the right
//! ones.
//!
//! Where a clock decides, only what the rule must never say is a failure of this test: what noise
//! hides is printed.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use serde_json::Value;

fn unstall(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstall"));
    command.args(arguments).output().expect("unstall starts")
}

#[test]
fn the_gate_says_what_it_has_to_say() {
    let cases = ["identical", "slower-20", "blocks", "fails", "threads"];
    let only = cases.iter().flat_map(|case| ["--only", case]);
    let arguments: Vec<&str> = ["selftest", "gate", "--json", "--pairs", "7", "--seed", "1"]
        .into_iter()
        .chain(only)
        .collect();
    let output = unstall(&arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(document["command"], "selftest gate");
    let found = document["known_changes"]["cases"]
        .as_array()
        .expect("a list");
    let by_name: BTreeMap<&str, &Value> = found
        .iter()
        .map(|case| (case["case"].as_str().expect("a name"), case))
        .collect();
    assert_eq!(by_name.len(), cases.len(), "{said}");
    for (name, case) in &by_name {
        let has_reason = case["reason"].is_string();
        assert_eq!(case["state"] != "met", has_reason, "{name}: {case}");
        match case["state"].as_str() {
            Some("met") => {}
            Some("unseen") => eprintln!("{name}: {}", case["reason"]),
            // Kernels that don't count a thread's sleeps.
            Some("not_run") if *name == "blocks" => {
                eprintln!("skipped: {name}: {}", case["reason"])
            }
            _ => panic!("{name}: {case}\n{said}"),
        }
    }
    for counted in ["fails", "threads"] {
        let verdict = by_name[counted]["said"][0].as_str().unwrap_or_default();
        let is_spoilt = verdict.starts_with("invalid");
        assert!(
            is_spoilt || verdict.starts_with("regression"),
            "{counted}: {verdict}"
        );
    }
    let code = output.status.code();
    assert!(code == Some(0) || code == Some(4), "{code:?}: {said}");
}

#[test]
fn a_wrong_name_is_refused_with_the_right_ones() {
    let output = unstall(&["selftest", "gate", "--only", "slower"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("no case `slower`") && said.contains("slower-20"),
        "{said}"
    );
}
