//! A policy on the command line: what it changes of verdict, exit code and every output, and what
//! it may not be about.

use std::path::Path;

use crate::program::{Call, call};
use crate::stored::{endpoint, write};
use serde_json::Value;
use unstall_results::record::RunRecord;
use unstall_results::synthetic::{EndpointSpec, record, run_record};

/// Identical versions with p95 about 40 ms.
fn same(requests: u64) -> RunRecord {
    record(1, 10, requests, &[endpoint(1.0)])
}

fn invalid() -> RunRecord {
    let mut record = same(400);
    record.blocks[0].validity.ok = false;
    record.blocks[0].validity.reasons = vec!["the generator was late".to_owned()];
    record
}

fn worse() -> RunRecord {
    let endpoint = EndpointSpec {
        ratio: 1.6,
        ..EndpointSpec::new("GET usage", 20.0)
    };
    record(2, 10, 400, &[endpoint])
}

fn policy(folder: &Path, text: &str) {
    std::fs::write(folder.join("p.toml"), text).expect("a policy is written");
}

fn gate(folder: &Path, file: &str) -> Call {
    let arguments = [
        "gate",
        file,
        "--policy",
        "p.toml",
        "--json",
        "--github",
        "--junit",
        "g.xml",
        "--markdown",
        "g.md",
    ];
    call(folder, arguments)
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).expect(name)
}

#[test]
fn a_warning_ends_with_0_and_every_output_says_what_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write(folder, "open.json", &same(20));
    write(folder, "invalid.json", &invalid());
    write(folder, "worse.json", &worse());
    policy(folder, "inconclusive = \"warn\"\ninvalid = \"warn\"\n");
    for (file, verdict, usual) in [
        ("open.json", "inconclusive", 4),
        ("invalid.json", "invalid", 3),
    ] {
        call(folder, ["gate", file]).assert_code(usual);
        let call = gate(folder, file);
        call.assert_code(0);
        let document = call.document();
        assert_eq!(document["verdict"], verdict);
        assert_eq!(document["exit_code"], 0);
        assert_eq!(document["comparisons"][0]["verdict"], verdict);
        assert_eq!(document["comparisons"][0]["consequence"], "warn");
        call.assert_stderr(&[
            &verdict.to_uppercase(),
            "warning of this: exit code 0",
            "::warning",
        ]);
        assert!(!call.stderr.contains("::error"), "{}", call.stderr);
        let junit = read(folder, "g.xml");
        assert!(
            junit.contains(&format!("<skipped message=\"{verdict}: ")),
            "{junit}"
        );
        assert!(junit.contains("failures=\"0\" errors=\"0\""), "{junit}");
        let markdown = read(folder, "g.md");
        assert!(
            markdown.contains(verdict) && markdown.contains("a warning"),
            "{markdown}"
        );
        let page = ["report", file, "--policy", "p.toml", "-o", "r.html"];
        crate::program::call(folder, page).assert_code(0);
        let page = read(folder, "r.html");
        assert!(page.contains(verdict) && page.contains("a warning"));
    }
    // What is warned about hides nothing behind it.
    let both = [
        "compare",
        "invalid.json",
        "worse.json",
        "--policy",
        "p.toml",
    ];
    call(folder, both).assert_code(1);
    policy(folder, "inconclusive = \"warn\"\n");
    call(
        folder,
        ["compare", "invalid.json", "open.json", "--policy", "p.toml"],
    )
    .assert_code(3);
}

#[test]
fn what_broke_off_is_never_only_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    policy(folder, "inconclusive = \"warn\"\ninvalid = \"warn\"\n");
    for (whole, code) in [(same(400), 4), (invalid(), 3)] {
        let mut stopped = whole;
        stopped.interrupted = true;
        stopped.load.pairs = 30;
        write(folder, "stopped.json", &stopped);
        let call = gate(folder, "stopped.json");
        call.assert_code(code);
        assert_eq!(call.document()["comparisons"][0]["consequence"], "fail");
        let junit = read(folder, "g.xml");
        assert!(!junit.contains("failures=\"0\" errors=\"0\""), "{junit}");
    }
}

#[test]
fn an_objective_is_a_row_in_every_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write(folder, "same.json", &same(400));
    policy(
        folder,
        "[[slo]]\nendpoint = \"GET *\"\nslo = \"p95<10ms,errors<1%\"\n",
    );
    let call = gate(folder, "same.json");
    call.assert_code(1);
    let rows = call.document()["comparisons"][0]["slos"].clone();
    let outcomes: Vec<&Value> = rows
        .as_array()
        .expect("rows")
        .iter()
        .map(|of| &of["outcome"])
        .collect();
    assert_eq!(outcomes, ["missed", "met"]);
    assert_eq!(rows[0]["limit"], 10.0);
    assert_eq!(rows[0]["unit"], "ms");
    call.assert_stderr(&[
        "GET usage misses p95<10ms with",
        "p95<10ms",
        "::error title=Step 2a%3A objective GET usage p95<10ms missed",
    ]);
    let junit = read(folder, "g.xml");
    let case =
        "name=\"objective GET usage c=20 p95&lt;10ms\" time=\"0.000\"><failure type=\"objective\"";
    assert!(junit.contains(case), "{junit}");
    let markdown = read(folder, "g.md");
    assert!(
        markdown.contains("| ✕ | `GET usage` | `p95<10ms` | c = 20 |"),
        "{markdown}"
    );
    let page = ["report", "same.json", "--policy", "p.toml", "-o", "r.html"];
    crate::program::call(folder, page).assert_code(1);
    assert!(read(folder, "r.html").contains("<h4>Objectives</h4>"));
}

#[test]
fn a_policy_about_nothing_is_a_mistake_of_each_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write(folder, "same.json", &same(400));
    policy(
        folder,
        "# ours\n[[rule]]\nendpoint = \"GET /api/v1/usge\"\nlimit = 30\n",
    );
    for command in ["compare", "gate", "report"] {
        call(folder, [command, "same.json", "--policy", "p.toml"])
            .assert_code(2)
            .assert_stderr(&[
                "p.toml:3:12",
                "matches no endpoint",
                "did you mean `GET /api/v1/usage`?",
            ]);
    }
    let keeps = ["report", "same.json", "--policy", "p.toml", "-o", "p.toml"];
    call(folder, keeps)
        .assert_code(2)
        .assert_stderr(&["would replace what is read"]);
}

#[test]
fn unpaired_records_are_judged_where_the_policy_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let one = |seed, ms| run_record(seed, 2_000, &[EndpointSpec::new("GET usage", ms)]);
    write(folder, "before.json", &one(1, 20.0));
    write(folder, "after.json", &one(2, 60.0));
    let compare = ["compare", "before.json", "after.json", "--policy", "p.toml"];
    policy(folder, "unpaired = \"advise\"\n");
    call(folder, compare).assert_code(4);
    policy(folder, "unpaired = \"judge\"\n");
    call(folder, compare).assert_code(1);
}

#[test]
fn the_schema_of_policies_is_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let call = call(folder.path(), ["scenarios", "schema", "policy"]);
    call.assert_code(0);
    let printed: Value = serde_json::from_str(&call.stdout).expect("JSON");
    assert_eq!(printed["title"], "Unstall policy");
    assert_eq!(printed, unstall_results::policy::schema());
}

#[test]
fn a_policy_about_nothing_is_told_before_anything_is_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let scenario = crate::program::write_scenario(folder, "small", "/items");
    let scenario = scenario.to_str().expect("UTF-8");
    policy(
        folder,
        "[[slo]]\nendpoint = \"POST /items\"\nslo = \"p95<1s\"\n",
    );
    // Nobody listens there: whoever asks has gone too far.
    let nowhere = "http://127.0.0.1:9";
    let arguments = [
        "ab", scenario, "--before", nowhere, "--after", nowhere, "--policy", "p.toml",
    ];
    call(folder, arguments).assert_code(2).assert_stderr(&[
        "p.toml:2:12",
        "matches no endpoint",
        "GET /items",
    ]);
}
