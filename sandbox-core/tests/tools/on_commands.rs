//! The tools that run commands and tests.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use unstall_sandbox_core::domain::{CommandKind, WorkspaceMode};

use crate::bench::Place;

#[tokio::test]
async fn a_command_runs_without_a_shell_where_it_is_told_to() {
    let place = Place::of(WorkspaceMode::Edit).await;
    place.put("deep/x", "").await;
    let input = json!({
        "command": ["ls", "-a", "$(x)", "."], "cwd": "deep", "timeout_s": 7, "stdin": "in", "kind": "read",
    });
    let answer = place.tools.call("sandbox_run", input).await;
    assert_eq!(
        (&answer["success"], &answer["exit_code"]),
        (&json!(false), &json!(2))
    );
    assert!(
        answer["stdout"].as_str().expect("a text").contains("\nx\n"),
        "{answer}"
    );
    assert!(
        answer["stderr"].as_str().expect("a text").contains("$(x)"),
        "{answer}"
    );
    let commands = place.commands.lock().expect("no panic");
    let (request, kind) = &commands[0];
    assert_eq!(*kind, CommandKind::Read);
    assert_eq!(request.timeout, Duration::from_secs(7));
    assert_eq!(request.cwd.as_deref(), Some(Path::new("deep")));
    assert_eq!(request.stdin.as_deref(), Some(&b"in"[..]));
}

#[tokio::test]
async fn what_nobody_has_classified_writes() {
    let place = Place::of(WorkspaceMode::Edit).await;
    place
        .done("sandbox_run", json!({"command": ["true"]}))
        .await;
    let commands = place.commands.lock().expect("no panic");
    let (request, kind) = &commands[0];
    assert_eq!((*kind, &request.cwd), (CommandKind::Write, &None));
}

#[tokio::test]
async fn long_output_keeps_its_head_and_tail_and_says_so() {
    let place = Place::of(WorkspaceMode::Edit).await;
    let answer = place
        .done("sandbox_run", json!({"command": ["seq", "100000"]}))
        .await;
    let stdout = answer["stdout"].as_str().expect("a text");
    assert_eq!(answer["is_truncated"], true);
    assert!(stdout.chars().count() <= 80_000);
    assert!(stdout.starts_with("1\n2\n") && stdout.ends_with("\n100000\n"));
    assert!(stdout.contains("characters left out"));
}

#[tokio::test]
async fn a_repository_is_tested_by_what_its_files_say() {
    for (files, command, others) in [
        (
            vec![("Cargo.toml", ""), ("Makefile", "test:\n")],
            "cargo test",
            json!(["make"]),
        ),
        (vec![("go.mod", "")], "go test ./...", Value::Null),
        (
            vec![("package.json", r#"{"scripts": {"test": "x"}}"#)],
            "npm test",
            Value::Null,
        ),
        (
            vec![("package.json", "{}"), ("pytest.ini", "")],
            "python3 -m pytest",
            Value::Null,
        ),
        (
            vec![("pyproject.toml", "[tool.pytest.ini_options]")],
            "python3 -m pytest",
            Value::Null,
        ),
        (
            vec![("setup.py", ""), ("tests/test_a.py", "")],
            "python3 -m pytest",
            Value::Null,
        ),
        (
            vec![("GNUmakefile", "test: x\n"), ("Makefile", "")],
            "make test",
            Value::Null,
        ),
    ] {
        let place = Place::of(WorkspaceMode::Edit).await;
        for (name, content) in files {
            place.put(name, content).await;
        }
        let said = place.tools.call("sandbox_run_tests", json!({})).await;
        assert_eq!(
            said["command"]
                .as_array()
                .map(|words| joined(words))
                .as_deref(),
            Some(command)
        );
        assert_eq!(said["other_frameworks"], others, "{command}");
        assert_eq!(
            place.commands.lock().expect("no panic")[0].1,
            CommandKind::Test
        );
    }
}

fn joined(words: &[Value]) -> String {
    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
    words.join(" ")
}

#[tokio::test]
async fn a_repository_that_says_nothing_has_no_tests_to_run() {
    let place = Place::of(WorkspaceMode::Edit).await;
    for (name, content) in [
        (
            "package.json",
            r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#,
        ),
        ("Makefile", "all:\n"),
        ("pyproject.toml", ""),
    ] {
        place.put(name, content).await;
    }
    let said = place.refused("sandbox_run_tests", json!({})).await;
    assert!(
        said.starts_with("nothing in . says how it is tested"),
        "{said}"
    );
    assert!(place.commands.lock().expect("no panic").is_empty());
}

#[tokio::test]
async fn a_framework_that_is_named_runs_in_the_folder_with_its_arguments() {
    let place = Place::of(WorkspaceMode::Edit).await;
    place
        .put("part/Makefile", "test:\n\t@echo tested $(only)\n")
        .await;
    let input = json!({"path": "part", "framework": "make", "arguments": ["only=one"]});
    let answer = place.done("sandbox_run_tests", input).await;
    assert_eq!(
        (&answer["stdout"], &answer["framework"]),
        (&json!("tested one\n"), &json!("make"))
    );
}
