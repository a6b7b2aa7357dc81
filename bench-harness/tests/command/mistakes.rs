//! What a user meets before anything is measured: help, mistakes, JSON, closed and full stdouts.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use crate::program::{Call, call, unstall, write_scenario};

#[test]
fn help_names_the_commands_there_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let help = call(folder.path(), ["--help"]);
    help.assert_code(0);
    for command in [
        "demo",
        "replay",
        "run",
        "ab",
        "capacity",
        "calibrate",
        "prove",
        "compare",
        "gate",
        "report",
        "selftest",
        "watch",
        "scenarios",
        "results",
    ] {
        assert!(
            help.stdout.contains(&format!("\n  {command} ")),
            "{command} in {}",
            help.stdout
        );
        let own = call(folder.path(), [command, "--help"]);
        own.assert_code(0);
    }
}

#[test]
fn mistakes_end_with_2_and_name_the_fix() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases: [(&str, &[&str]); 15] = [
        ("rum", &["run"]),
        (
            "run tunnel-github --tarqet http://127.0.0.1:9",
            &["--target"],
        ),
        (
            "run tunnel-gihub --target http://127.0.0.1:9",
            &["tunnel-gihub", "tunnel-github"],
        ),
        (
            "run tunnel-github --target ftp://127.0.0.1",
            &["ftp", "https"],
        ),
        (
            "run tunnel-github --target 127.0.0.1:80",
            &["127.0.0.1:80", "http://"],
        ),
        (
            "run tunnel-github --target http://127.0.0.1:9 -c 0",
            &["'0'", "-c"],
        ),
        (
            "run tunnel-github --target http://127.0.0.1:9 --var x",
            &["NAME=VALUE"],
        ),
        (
            "run tunnel-github --target http://127.0.0.1:9 --duration 5",
            &["5s"],
        ),
        (
            "ab tunnel-github --before sh --after sh --pairs 4",
            &["4", "5"],
        ),
        (
            "ab tunnel-github --before sh --after sh --looks 6,16,24",
            &["look 1 of 3", "6 pairs", "0.01", "7 or more"],
        ),
        (
            "ab tunnel-github --before sh --after sh --looks 16,10",
            &["look 2 of 2", "ascending", "--looks 10,16,24"],
        ),
        (
            "ab tunnel-github --before sh --after sh --looks 10,16 --pairs 16",
            &["--looks", "--pairs"],
        ),
        (
            "ab tunnel-github --before sh --after sh --insecure",
            &["--insecure", "a URL is reached", "leave it out"],
        ),
        ("compare nowhere.json", &["nowhere.json"]),
        ("demo --steps 7", &["`7`", "2a"]),
    ];
    for (arguments, words) in cases {
        let call = Call::of(
            unstall(folder.path())
                .args(arguments.split(' '))
                .output()
                .expect("starts"),
        );
        call.assert_code(2).assert_stderr(words);
        assert_eq!(call.stdout, "", "{arguments}");
    }
}

/// URLs come out of variables that hold secrets, and go into logs that everybody reads.
#[test]
fn a_password_in_a_url_is_not_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = "http://bob:hunter2@127.0.0.1:9";
    let scenario = "name = \"s\"\ndescribe = \"s\"\n[hosts]\nother = \"http://bob:hunter2@x\"\n\
                    [[request]]\nname = \"r\"\nmethod = \"GET\"\npath = \"/\"\n";
    std::fs::write(folder.path().join("s.toml"), scenario).expect("written");
    let cases: [&[&str]; 4] = [
        &["run", "tunnel-github", "--target", url],
        &["run", "tunnel-github", "--target", url, "--json"],
        &["ab", "tunnel-github", "--before", url, "--after", "sh"],
        &["run", "s.toml", "--target", "http://127.0.0.1:9"],
    ];
    for arguments in cases {
        let output = unstall(folder.path()).args(arguments).output();
        let call = Call::of(output.expect("starts"));
        call.assert_code(2);
        let said = format!("{}{}", call.stdout, call.stderr);
        assert!(said.contains("user name"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn json_is_one_valid_document_also_for_mistakes() {
    let folder = tempfile::tempdir().expect("a folder");
    let listed = call(folder.path(), ["scenarios", "list", "--json"]);
    listed.assert_code(0);
    let document = listed.document();
    assert_eq!(document["command"], "scenarios list");
    let names: Vec<&str> = document["scenarios"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|scenario| scenario["name"].as_str())
        .collect();
    let shipped = [
        "agent-tools",
        "auth",
        "chat-flow",
        "every-route",
        "github",
        "idle-streams",
        "login",
        "mixed",
        "redis-streams",
        "search",
        "session-status",
        "share-access",
        "tunnel-github",
        "usage-check",
    ];
    assert_eq!(names, shipped);

    let unknown = call(
        folder.path(),
        ["--json", "scenarios", "show", "tunnel-gihub"],
    );
    unknown.assert_code(2);
    let message = unknown.document()["error"]["message"].to_string();
    assert!(message.contains("tunnel-github"), "{message}");

    let misspelt = call(folder.path(), ["compare", "--json", "--polcy"]);
    misspelt.assert_code(2);
    assert_eq!(misspelt.document()["exit_code"], 2);
}

#[test]
fn shown_scenarios_and_schemas_are_what_check_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let shown = call(folder.path(), ["scenarios", "show", "tunnel-github"]);
    shown.assert_code(0);
    std::fs::write(folder.path().join("mine.toml"), &shown.stdout).expect("writable");
    call(folder.path(), ["scenarios", "check", "mine.toml"]).assert_code(0);
    for of in ["scenario", "migration", "result"] {
        let schema = call(folder.path(), ["scenarios", "schema", of]);
        schema.assert_code(0);
        let value: serde_json::Value = serde_json::from_str(&schema.stdout).expect("JSON");
        jsonschema::meta::validate(&value).expect("a JSON Schema");
    }
}

#[test]
fn a_malformed_scenario_names_file_line_and_fix() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write_scenario(folder.path(), "mine", "/x");
    let text = std::fs::read_to_string(&file).expect("readable");
    std::fs::write(&file, text.replace("method =", "metod =")).expect("writable");
    for arguments in [
        &["scenarios", "check", "mine.toml"][..],
        &["run", "mine.toml", "--target", "http://127.0.0.1:9"],
    ] {
        let call = Call::of(
            unstall(folder.path())
                .args(arguments)
                .output()
                .expect("starts"),
        );
        call.assert_code(2)
            .assert_stderr(&["mine.toml:6", "metod", "method"]);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = unstall(folder.path())
        .args(["scenarios", "schema", "scenario"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    drop(child.stdout.take());
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .expect("piped")
        .read_to_string(&mut stderr)
        .expect("UTF-8");
    assert_eq!(child.wait().expect("ends").code(), Some(0), "{stderr}");
    assert_eq!(stderr, "");
}

#[test]
fn a_full_disk_is_a_clear_error() {
    let folder = tempfile::tempdir().expect("a folder");
    for arguments in [&["scenarios", "list", "--json"][..], &["scenarios", "list"]] {
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("Linux has it");
        let output = unstall(folder.path())
            .args(arguments)
            .stdout(full)
            .output()
            .expect("starts");
        let call = Call::of(output);
        call.assert_code(2)
            .assert_stderr(&["stdout", "No space left"]);
    }
}

#[test]
fn a_demo_without_its_service_says_how_to_get_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let alone = folder.path().join("unstall");
    std::fs::copy(env!("CARGO_BIN_EXE_unstall"), &alone).expect("copied");
    let output = std::process::Command::new(&alone)
        .args(["demo", "--quick"])
        .current_dir(folder.path())
        .env("PATH", folder.path())
        .output()
        .expect("starts");
    Call::of(output)
        .assert_code(2)
        .assert_stderr(&["unstall-reference", "cargo build"]);
    assert!(
        !folder.path().join("unstall-demo").exists(),
        "nothing was begun"
    );
}

#[test]
fn a_folder_that_can_not_be_made_is_refused_before_measuring() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("file"), "").expect("writable");
    let target = [
        "run",
        "tunnel-github",
        "--target",
        "http://127.0.0.1:9",
        "--out",
    ];
    for out in ["no/such/r.json", "file/r.json", "."] {
        let mut command = unstall(folder.path());
        let call = Call::of(command.args(target).arg(out).output().expect("starts"));
        call.assert_code(2).assert_stderr(&["--out"]);
    }
}
