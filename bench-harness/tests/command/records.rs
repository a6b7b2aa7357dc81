//! Judging stored records: verdicts, exit codes, files for pipelines, and malformed input.

use crate::program::{Call, call, unstall};
use crate::stored::{endpoint, write};
use unstall_results::store;
use unstall_results::synthetic::{record, run_record};

#[test]
fn each_verdict_has_its_exit_code() {
    let folder = tempfile::tempdir().expect("a folder");
    write(
        folder.path(),
        "better.json",
        &record(1, 10, 400, &[endpoint(0.4)]),
    );
    write(
        folder.path(),
        "worse.json",
        &record(2, 10, 400, &[endpoint(1.6)]),
    );
    let mut invalid = record(3, 10, 400, &[endpoint(0.4)]);
    for block in invalid.blocks.iter_mut().take(2) {
        block.validity.ok = false;
        block.validity.reasons = vec!["the generator was late".to_owned()];
    }
    write(folder.path(), "invalid.json", &invalid);
    for command in ["compare", "gate"] {
        for (file, code, verdict) in [
            ("better", 0, "pass"),
            ("worse", 1, "regression"),
            ("invalid", 3, "invalid"),
        ] {
            let name = format!("{file}.json");
            let call = call(folder.path(), [command, &name, "--json"]);
            call.assert_code(code);
            let document = call.document();
            assert_eq!(document["verdict"], verdict, "{command} {name}");
            assert_eq!(document["comparisons"].as_array().map(Vec::len), Some(1));
        }
        // Invalid before regression before pass.
        call(folder.path(), [command, "better.json", "worse.json"]).assert_code(1);
        call(folder.path(), [command, "worse.json", "invalid.json"]).assert_code(3);
    }
}

#[test]
fn the_gate_writes_what_pipelines_read() {
    let folder = tempfile::tempdir().expect("a folder");
    write(
        folder.path(),
        "worse.json",
        &record(2, 10, 400, &[endpoint(1.6)]),
    );
    let summary = folder.path().join("summary.md");
    let output = unstall(folder.path())
        .args([
            "gate",
            "worse.json",
            "--junit",
            "g.xml",
            "--markdown",
            "g.md",
            "--github",
        ])
        .env("GITHUB_STEP_SUMMARY", &summary)
        .env("GITHUB_OUTPUT", folder.path().join("output"))
        .output()
        .expect("starts");
    let call = Call::of(output);
    call.assert_code(1);
    assert!(call.stdout.contains("\n::error"), "{}", call.stdout);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect(name);
    assert!(read("g.xml").contains("<testsuite"), "{}", read("g.xml"));
    assert!(read("g.md").contains("GET usage"));
    assert_eq!(read("summary.md"), read("g.md"));
    let output = read("output");
    assert!(
        output.starts_with("verdict=regression\nheadline="),
        "{output}"
    );
    assert!(output.contains("GET usage"), "{output}");
    // Tables are printed with the runner's commands switched off.
    let lines: Vec<&str> = call.stdout.lines().collect();
    let word = lines[0].strip_prefix("::stop-commands::").expect("first");
    let resumed = lines.iter().position(|line| *line == format!("::{word}::"));
    let commands = &lines[resumed.expect("they are switched on again") + 1..];
    assert!(
        commands.iter().all(|line| line.starts_with("::")),
        "{commands:?}"
    );
}

#[test]
fn the_gate_never_writes_over_what_it_reads_or_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = record(1, 10, 400, &[endpoint(0.4)]);
    write(folder.path(), "better.json", &kept);
    std::fs::write(folder.path().join("p.toml"), "alpha = 0.05\n").expect("written");
    for (option, out) in [
        ("--junit", "./better.json"),
        ("--markdown", "better.json"),
        ("--markdown", "p.toml"),
    ] {
        let arguments = ["gate", "better.json", "--policy", "p.toml", option, out];
        call(folder.path(), arguments)
            .assert_code(2)
            .assert_stderr(&[option, out, "would replace what is read"]);
    }
    for markdown in ["x", "./x"] {
        let both = [
            "gate",
            "better.json",
            "--junit",
            "x",
            "--markdown",
            markdown,
        ];
        call(folder.path(), both)
            .assert_code(2)
            .assert_stderr(&["same file"]);
    }
    assert!(!folder.path().join("x").exists());
    let of_branch = folder.path().join("baselines/main");
    std::fs::create_dir_all(&of_branch).expect("a folder");
    write(&of_branch, "kept.json", &kept);
    let baseline = "baselines/main/kept.json";
    let over = [
        "gate",
        "better.json",
        "--baseline",
        "baselines",
        "--markdown",
        baseline,
    ];
    call(folder.path(), over)
        .assert_code(2)
        .assert_stderr(&[baseline, "would replace a record"]);
    store::read(&folder.path().join("better.json")).expect("still a record");
}

#[test]
fn a_policy_is_read_with_its_mistakes_named() {
    let folder = tempfile::tempdir().expect("a folder");
    write(
        folder.path(),
        "better.json",
        &record(1, 10, 400, &[endpoint(0.4)]),
    );
    std::fs::write(folder.path().join("p.toml"), "alpha = 0.05\nalhpa = 0.01\n").expect("written");
    let refused = call(folder.path(), ["gate", "better.json", "--policy", "p.toml"]);
    refused
        .assert_code(2)
        .assert_stderr(&["p.toml:2", "alhpa", "alpha"]);
    call(
        folder.path(),
        ["gate", "better.json", "--policy", "none.toml"],
    )
    .assert_code(2);
}

#[test]
fn two_sessions_are_advisory() {
    let folder = tempfile::tempdir().expect("a folder");
    write(
        folder.path(),
        "before.json",
        &run_record(1, 400, &[endpoint(1.0)]),
    );
    write(
        folder.path(),
        "after.json",
        &run_record(2, 400, &[endpoint(1.0)]),
    );
    let call = call(
        folder.path(),
        ["compare", "before.json", "after.json", "--json"],
    );
    call.assert_code(4);
    assert_eq!(call.document()["comparisons"][0]["paired"], false);
    let alone = crate::program::call(folder.path(), ["compare", "before.json"]);
    alone
        .assert_code(2)
        .assert_stderr(&["one version", "second record"]);
}

#[test]
fn a_report_is_one_file_and_never_replaces_a_record() {
    let folder = tempfile::tempdir().expect("a folder");
    write(
        folder.path(),
        "better.json",
        &record(1, 10, 400, &[endpoint(0.4)]),
    );
    call(folder.path(), ["report", "better.json", "-o", "r.html"]).assert_code(0);
    let page = std::fs::read_to_string(folder.path().join("r.html")).expect("the report");
    assert!(page.contains("<!") && page.contains("GET usage"));
    let same = call(
        folder.path(),
        ["report", "better.json", "-o", "./better.json"],
    );
    same.assert_code(2)
        .assert_stderr(&["better.json would replace what is read"]);
    let nowhere = call(
        folder.path(),
        ["report", "better.json", "-o", "no/such/r.html"],
    );
    nowhere.assert_code(2).assert_stderr(&["no/such/r.html"]);
}

#[test]
fn a_report_has_the_form_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let in_folder = |arguments: &[&str]| {
        let output = unstall(folder.path())
            .arg("report")
            .args(arguments)
            .output();
        Call::of(output.expect("starts"))
    };
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect(name);
    let judged = record(2, 10, 400, &[endpoint(1.6)]);
    write(folder.path(), "worse.json", &judged);
    let marker = "<!-- unstall-report: synthetic -->\n# Latency report\n";
    let header = "record,label,scenario,";
    for (form, begins) in [("md", marker), ("csv", header)] {
        let call = in_folder(&["worse.json", "--format", form]);
        call.assert_code(1);
        assert!(call.stdout.starts_with(begins), "{}", call.stdout);
        let file = format!("r.{form}");
        in_folder(&["worse.json", "-o", &file]).assert_code(1);
        assert!(read(&file).starts_with(begins));
        let json = in_folder(&["worse.json", "--format", form, "--json"]);
        let text = json.document()["text"].to_string();
        assert!(text.contains("GET usage"), "{text}");
    }
    // The suffix says the form unless somebody else does.
    in_folder(&["worse.json", "-o", "page"]).assert_code(1);
    assert!(read("page").starts_with("<!"));
    in_folder(&["worse.json", "-o", "cells.txt", "--format", "csv"]).assert_code(1);
    assert!(read("cells.txt").starts_with(header));
    // JSON is the document of any command that compares.
    let printed = in_folder(&["worse.json", "--format", "json"]);
    let document = printed.document();
    let compared = call(folder.path(), ["compare", "worse.json", "--json"]).document();
    assert_eq!(document["comparisons"], compared["comparisons"]);
    assert_eq!(document["command"], "report");
    in_folder(&["worse.json", "-o", "r.json"]).assert_code(1);
    let written: serde_json::Value = serde_json::from_str(&read("r.json")).expect("JSON");
    assert_eq!(written["comparisons"], compared["comparisons"]);
    assert_eq!(written["exit_code"], 1);
    in_folder(&["worse.json", "--format", "csv", "-o", "./worse.json"])
        .assert_code(2)
        .assert_stderr(&["would replace what is read"]);
}

#[test]
fn malformed_records_name_file_line_and_fix() {
    let folder = tempfile::tempdir().expect("a folder");
    write(
        folder.path(),
        "good.json",
        &record(1, 10, 400, &[endpoint(0.4)]),
    );
    let good = std::fs::read_to_string(folder.path().join("good.json")).expect("readable");
    let cases: [(&str, Vec<u8>); 5] = [
        ("empty", Vec::new()),
        ("cut", good.as_bytes()[..good.len() / 2].to_vec()),
        ("binary", vec![0xff, 0xfe, 0x00]),
        (
            "other",
            b"{\"schema\":{\"name\":\"something.else\",\"major\":1,\"minor\":0}}".to_vec(),
        ),
        (
            "later",
            good.replacen("\"major\": 1", "\"major\": 99", 1)
                .into_bytes(),
        ),
    ];
    for (name, bytes) in cases {
        let file = format!("{name}.json");
        std::fs::write(folder.path().join(&file), bytes).expect("writable");
        for command in ["compare", "gate", "report"] {
            let call = call(folder.path(), [command, &file]);
            call.assert_code(2).assert_stderr(&[&file]);
        }
    }
}
