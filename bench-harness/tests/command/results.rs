//! `unstall results` as a person uses it: what is listed, shown, merged, imported, exported and kept
//! as a baseline, with the mistakes that they make.

use std::path::Path;

use unstall_results::record::RunRecord;
use unstall_results::store;
use unstall_results::synthetic::{record, run_record};

use crate::program::{Call, call, unstall};
use crate::stored::{endpoint, write};

fn session(seed: u64, day: u32) -> RunRecord {
    let mut session = record(seed, 6, 400, &[endpoint(1.0)]);
    session.created_utc = format!("2026-01-{day:02}T00:00:00Z");
    session
}

fn imports() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/tests/imports")
}

fn results(folder: &Path, arguments: &[&str]) -> Call {
    let output = unstall(folder).arg("results").args(arguments).output();
    Call::of(output.expect("unstall starts"))
}

#[test]
fn a_damaged_file_hides_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    write(
        folder.path(),
        "worse.json",
        &record(2, 10, 400, &[endpoint(1.6)]),
    );
    write(
        folder.path(),
        "run.json",
        &run_record(3, 400, &[endpoint(1.0)]),
    );
    std::fs::write(folder.path().join("cut.json"), "{\n  \"schema\": {").expect("written");
    std::fs::write(folder.path().join("notes.txt"), "not one").expect("written");
    let listed = results(folder.path(), &["list", "."]);
    listed.assert_code(0);
    for words in [
        "measured",
        "regression",
        "worse.json",
        "run.json",
        "cut.json:2",
    ] {
        assert!(
            listed.stdout.contains(words),
            "no {words:?} in {}",
            listed.stdout
        );
    }
    assert!(!listed.stdout.contains("notes.txt"));
    let document = results(folder.path(), &["list", ".", "--json"]).document();
    let records = document["records"].as_array().expect("a list");
    assert_eq!(records.len(), 3);
    assert_eq!(records[2]["record"], serde_json::Value::Null);
    let of = |name: &str| {
        let mut records = records.iter();
        let found = records.find(|of| of["path"].as_str().is_some_and(|path| path.ends_with(name)));
        &found.expect(name)["record"]
    };
    assert_eq!(of("worse.json")["verdict"], "regression");
    assert_eq!(of("worse.json")["pairs"], 10);
    assert_eq!(of("run.json")["verdict"], serde_json::Value::Null);
    results(folder.path(), &["list", "none"])
        .assert_code(2)
        .assert_stderr(&["none", "can't be listed"]);
    results(folder.path(), &["list", "run.json"])
        .assert_code(2)
        .assert_stderr(&["results show"]);
}

#[test]
fn showing_judges_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    write(
        folder.path(),
        "worse.json",
        &record(2, 10, 400, &[endpoint(1.6)]),
    );
    let shown = results(folder.path(), &["show", "worse.json"]);
    shown.assert_code(0);
    for words in [
        "sha256",
        "x86_64/2c/24g/linux-6.18",
        "commit 0123abc",
        "20, 0 of them invalid",
    ] {
        assert!(
            shown.stdout.contains(words),
            "no {words:?} in {}",
            shown.stdout
        );
    }
    let document = results(folder.path(), &["show", "worse.json", "--json"]).document();
    assert_eq!(document["verdict"], serde_json::Value::Null);
    assert_eq!(document["comparisons"][0]["verdict"], "regression");
    assert_eq!(document["records"][0]["record"]["pairs"], 10);
}

#[test]
fn sessions_are_merged_and_say_so() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "a.json", &session(1, 1));
    write(folder.path(), "b.json", &session(2, 2));
    let merged = results(
        folder.path(),
        &["merge", "a.json", "b.json", "-o", "ab.json"],
    );
    merged.assert_code(0);
    for words in ["Record: ab.json", "look 2 of 2", "12 pairs"] {
        assert!(
            merged.stdout.contains(words),
            "no {words:?} in {}",
            merged.stdout
        );
    }
    let record = store::read(&folder.path().join("ab.json")).expect("a record");
    assert_eq!(record.load.looks, [6, 12]);
    let shown = results(folder.path(), &["show", "ab.json"]);
    assert!(
        shown.stdout.contains("synthetic-2 of 2026-01-02"),
        "{}",
        shown.stdout
    );
    let planned = [
        "merge",
        "a.json",
        "b.json",
        "--planned",
        "--force",
        "-o",
        "ab.json",
    ];
    results(folder.path(), &planned).assert_code(0);
    // Neither an input nor a file that is there is replaced unasked.
    for (out, words) in [("a.json", "would replace"), ("ab.json", "--force")] {
        results(folder.path(), &["merge", "a.json", "b.json", "-o", out])
            .assert_code(2)
            .assert_stderr(&[words]);
    }
    let mut other = session(3, 3);
    other.machine.class = "aarch64/4c/8g/linux-6.1".to_owned();
    write(folder.path(), "c.json", &other);
    results(
        folder.path(),
        &["merge", "a.json", "c.json", "-o", "ac.json"],
    )
    .assert_code(2)
    .assert_stderr(&["machine class", "in a.json", "in c.json"]);
    assert!(!folder.path().join("ac.json").exists());
    results(folder.path(), &["merge", "a.json", "-o", "x.json"]).assert_code(2);
}

#[test]
fn what_other_tools_wrote_is_compared_as_advice() {
    let folder = tempfile::tempdir().expect("a folder");
    for (form, file) in [
        ("wrk", "wrk.txt"),
        ("wrk2", "wrk2.txt"),
        ("oha", "oha.json"),
        ("k6", "k6-summary.json"),
        ("k6", "k6-points.json"),
        ("hlog", "js.hlog"),
    ] {
        let input = imports().join(file);
        let input = input.to_str().expect("a path of letters");
        let out = format!("{file}.record.json");
        let imported = results(folder.path(), &["import", form, input, "-o", &out]);
        imported.assert_code(0);
        assert!(
            imported.stdout.contains("Not known: The machine"),
            "{imported:#?}"
        );
        let compared = call(folder.path(), ["compare", &out, &out]);
        compared.assert_code(4);
        assert!(
            compared.stdout.contains("imported from"),
            "{}",
            compared.stdout
        );
        results(folder.path(), &["import", form, input, "-o", &out])
            .assert_code(2)
            .assert_stderr(&["--force"]);
        results(folder.path(), &["show", &out]).assert_code(0);
        call(folder.path(), ["report", &out, "-o", "report.html"]).assert_code(0);
    }
    let listed = results(folder.path(), &["list", "."]);
    assert!(listed.stdout.contains("run of k6"), "{}", listed.stdout);
    results(
        folder.path(),
        &["import", "oha", "none.json", "-o", "x.json"],
    )
    .assert_code(2)
    .assert_stderr(&["none.json", "can't be read"]);
    let wrk = imports().join("wrk.txt");
    let wrk = wrk.to_str().expect("a path of letters");
    results(folder.path(), &["import", "oha", wrk, "-o", "x.json"])
        .assert_code(2)
        .assert_stderr(&["wrk.txt:1", "fix:", "--output-format json"]);
    // The policy may judge other sessions, and still not these.
    std::fs::write(folder.path().join("p.toml"), "unpaired = \"judge\"\n").expect("written");
    let twice = [
        "gate",
        "wrk.txt.record.json",
        "wrk.txt.record.json",
        "--policy",
        "p.toml",
    ];
    call(folder.path(), twice).assert_code(4);
}

#[test]
fn a_log_that_is_exported_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = run_record(1, 2_000, &[endpoint(1.0)]);
    write(folder.path(), "run.json", &run);
    results(folder.path(), &["export", "run.json", "-o", "run.hlog"]).assert_code(0);
    let back = [
        "import",
        "hlog",
        "run.hlog",
        "-o",
        "back.json",
        "-c",
        "20",
        "--scenario",
        "synthetic",
    ];
    results(folder.path(), &back).assert_code(0);
    let back = store::read(&folder.path().join("back.json")).expect("a record");
    let (before, after) = (
        &run.blocks[0].endpoints["GET usage"].response,
        &back.blocks[0].endpoints["GET_usage"].response,
    );
    assert_eq!(before.count(), after.count());
    for q in [0.0, 0.5, 0.95, 0.99, 1.0] {
        let value = |of: &unstall_results::histogram::LatencyHistogram| of.quantile_us(q);
        let (one, other) = (value(before).expect("one"), value(after).expect("one"));
        assert!(one.abs_diff(other) <= one / 500, "{q}: {one} {other}");
    }
    // What wrote it is known by its head: the times are the same kind.
    let imported = back.arms["run"].imported.as_ref().expect("an import");
    assert!(
        imported
            .times
            .as_deref()
            .is_some_and(|of| of.contains("intended"))
    );
}

#[test]
fn each_form_of_export_says_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let pair = record(1, 5, 100, &[endpoint(1.0)]);
    write(folder.path(), "ab.json", &pair);
    let csv = results(folder.path(), &["export", "ab.json", "--format", "csv"]);
    let mut reader = csv::Reader::from_reader(csv.assert_code(0).stdout.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().expect("rows");
    assert_eq!(rows.len(), pair.blocks.len());
    let lines = results(folder.path(), &["export", "ab.json", "--format", "jsonl"]).stdout;
    let objects: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    for (row, (object, block)) in rows.iter().zip(objects.iter().zip(&pair.blocks)) {
        let samples = &block.endpoints["GET usage"];
        assert_eq!(object["completed"], samples.completed);
        assert_eq!(object["second"], serde_json::Value::Null);
        assert_eq!(&row[8], samples.completed.to_string());
        assert_eq!(&row[7], "");
        let p95 = samples.response.quantile_us(0.95).expect("one");
        assert_eq!(
            (object["p95_us"].as_u64(), &row[11]),
            (Some(p95), p95.to_string().as_str())
        );
    }
    let prom = results(folder.path(), &["export", "ab.json", "-o", "ab.prom"]);
    prom.assert_code(0);
    let prom = std::fs::read_to_string(folder.path().join("ab.prom")).expect("written");
    assert!(prom.contains("unstall_requests{"), "{prom}");
    results(folder.path(), &["export", "ab.json", "-o", "ab.txt"])
        .assert_code(2)
        .assert_stderr(&["--format"]);
    results(folder.path(), &["export", "ab.json", "-o", "ab.prom"])
        .assert_code(2)
        .assert_stderr(&["--force"]);
    results(folder.path(), &["export", "ab.json"]).assert_code(2);
}

#[test]
fn the_gate_finds_the_baseline_of_the_machine() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut base = run_record(1, 2_000, &[endpoint(1.0)]);
    base.created_utc = "2026-01-01T00:00:00Z".to_owned();
    let mut now = run_record(2, 2_000, &[endpoint(1.0)]);
    now.created_utc = "2026-03-01T00:00:00Z".to_owned();
    write(folder.path(), "base.json", &base);
    write(folder.path(), "now.json", &now);
    let gate = [
        "gate",
        "now.json",
        "--baseline",
        "unstall-baselines",
        "--branch",
        "main",
    ];
    call(folder.path(), gate).assert_code(2).assert_stderr(&[
        "no baseline",
        "\"main\"",
        "results baseline set",
    ]);
    let set = ["baseline", "set", "base.json", "--branch", "main"];
    let placed = results(folder.path(), &set);
    placed.assert_code(0);
    assert!(
        placed.stdout.contains("There was none before"),
        "{}",
        placed.stdout
    );
    let listed = results(folder.path(), &["baseline", "list"]);
    assert!(
        listed.stdout.contains("branch") && listed.stdout.contains("main"),
        "{listed:#?}"
    );
    let judged = call(folder.path(), gate);
    judged.assert_code(4);
    let words = judged.stdout.replace('\n', " ");
    for part in ["59 days before", "x86_64/2c/24g/linux-6.18", "It is old"] {
        let squeezed = words.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeezed.contains(part), "no {part:?} in {squeezed}");
    }
    // A policy may judge it all the same.
    std::fs::write(folder.path().join("p.toml"), "unpaired = \"judge\"\n").expect("written");
    let output = unstall(folder.path())
        .args(gate)
        .args(["--policy", "p.toml", "--json"])
        .output();
    let document = Call::of(output.expect("unstall starts")).document();
    assert_ne!(document["verdict"], "invalid");
    assert_eq!(document["comparisons"][0]["paired"], false);
    write(
        folder.path(),
        "ab.json",
        &record(1, 10, 400, &[endpoint(1.0)]),
    );
    call(
        folder.path(),
        ["gate", "ab.json", "--baseline", "unstall-baselines"],
    )
    .assert_code(2)
    .assert_stderr(&["both versions"]);
    results(
        folder.path(),
        &["baseline", "set", "ab.json", "--branch", "main"],
    )
    .assert_code(2)
    .assert_stderr(&["two versions"]);
}
