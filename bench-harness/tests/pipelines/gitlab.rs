//! The GitLab job: its keys by GitLab's rules, and its script run as a runner does.

use std::fs;

use serde_json::Value;

use crate::stage::{Stage, check_shell, ended, read, repository, yaml};

/// Keywords of a file that are no jobs.
const GLOBAL: [&str; 5] = ["default", "include", "stages", "variables", "workflow"];

/// Keywords of a job.
const JOB: [&str; 25] = [
    "after_script",
    "allow_failure",
    "artifacts",
    "before_script",
    "cache",
    "coverage",
    "dependencies",
    "environment",
    "extends",
    "id_tokens",
    "image",
    "inherit",
    "interruptible",
    "needs",
    "parallel",
    "release",
    "resource_group",
    "retry",
    "rules",
    "script",
    "services",
    "stage",
    "tags",
    "timeout",
    "variables",
];

const ARTIFACTS: [&str; 9] = [
    "access",
    "exclude",
    "expire_in",
    "expose_as",
    "name",
    "paths",
    "reports",
    "untracked",
    "when",
];

/// Everything that is wrong with a pipeline file.
pub(crate) fn violations(file: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let Some(file) = file.as_object() else {
        return vec!["no mapping".to_owned()];
    };
    let jobs = file
        .iter()
        .filter(|(name, _)| !GLOBAL.contains(&name.as_str()));
    let mut count = 0;
    for (name, job) in jobs {
        count += 1;
        let unknown = |part: &Value, known: &[&str]| -> Vec<String> {
            let keys = part.as_object().into_iter().flat_map(|part| part.keys());
            keys.filter(|key| !known.contains(&key.as_str()))
                .map(|key| format!("{name}: {key} is no keyword"))
                .collect()
        };
        found.extend(unknown(job, &JOB));
        found.extend(unknown(&job["artifacts"], &ARTIFACTS));
        let script = job["script"].as_array();
        if script.is_none_or(|lines| lines.is_empty() || !lines.iter().all(Value::is_string)) {
            found.push(format!("{name}: the script is no list of lines"));
        }
        if !job["artifacts"]["reports"]["junit"]
            .as_str()
            .is_some_and(|path| path.ends_with(".xml"))
        {
            found.push(format!("{name}: no .xml file for JUnit"));
        }
        if job["artifacts"]["when"] != "always" {
            found.push(format!("{name}: a failed gate would keep nothing"));
        }
        let codes = [
            &job["allow_failure"]["exit_codes"],
            &job["retry"]["exit_codes"],
        ];
        let is_codes = |codes: &Value| {
            codes
                .as_array()
                .is_some_and(|of| of.iter().all(Value::is_u64))
        };
        if !codes.iter().all(|codes| codes.is_null() || is_codes(codes)) {
            found.push(format!("{name}: exit codes are numbers"));
        }
        let variables = job["variables"].as_object();
        let values = variables.into_iter().flat_map(|of| of.values());
        if !values.into_iter().all(Value::is_string) {
            found.push(format!("{name}: a variable is a text in quotes"));
        }
    }
    if count == 0 {
        found.push("no job".to_owned());
    }
    found
}

fn file() -> Value {
    yaml(&read(&repository("ci/gitlab/unstall.gitlab-ci.yml")))
}

/// As the runner's shell executor: all lines in one shell that ends with the first failure.
fn script(job: &Value) -> String {
    let lines = job["script"].as_array().expect("a script").iter();
    let lines: Vec<&str> = lines.map(|line| line.as_str().expect("a line")).collect();
    format!("set -eo pipefail\n{}\n", lines.join("\n"))
}

#[test]
fn the_file_is_what_gitlab_takes() {
    assert_eq!(violations(&file()), [""; 0]);
    check_shell(&format!(
        "#!/usr/bin/env bash\n{}",
        script(&file()["latency-gate"])
    ));
}

#[test]
fn the_rules_find_what_gitlab_would_refuse() {
    let good = read(&repository("ci/gitlab/unstall.gitlab-ci.yml"));
    for (from, to, said) in [
        ("  stage: test", "  steps: test", "steps is no keyword"),
        ("expose_as", "expose", "expose is no keyword"),
        (
            "    - exit \"$verdict\"",
            "    - exit: 1",
            "no list of lines",
        ),
        ("junit.xml\n", "junit.txt\n", "no .xml"),
        ("when: always", "when: on_success", "keep nothing"),
        (
            "exit_codes: [4]",
            "exit_codes: [inconclusive]",
            "are numbers",
        ),
        (
            "UNSTALL_PAIRS: \"10\"",
            "UNSTALL_PAIRS: [10]",
            "text in quotes",
        ),
        ("latency-gate:", "variables:", "no job"),
    ] {
        let broken = good.replace(from, to);
        assert_ne!(broken, good, "{from}");
        let found = violations(&yaml(&broken)).join("; ");
        assert!(found.contains(said), "{from} → {to}: {found}");
    }
}

/// `ab` is played by a program that leaves a record; everything after it is real.
#[test]
fn its_script_ends_with_the_verdict_and_leaves_what_the_job_declares() {
    for (measured, code) in [(0, None), (4, None), (2, Some(2)), (137, Some(2))] {
        let stage = Stage::new();
        let unstall = env!("CARGO_BIN_EXE_unstall");
        stage.program(
            "unstall",
            &format!(
                "#!/bin/sh\n[ \"$1\" = ab ] || exec {unstall} \"$@\"\n\
                 printf '[%s]' \"$@\" > called; cp one.json unstall-ci/record.json; exit {measured}\n"
            ),
        );
        let job = &file()["latency-gate"];
        let text = script(job);
        let mut shell = stage.bash(&["-c", &text]);
        for (name, value) in job["variables"].as_object().expect("variables") {
            shell.env(name, value.as_str().expect("text"));
        }
        shell.env("UNSTALL_BEFORE", "server 'a b'; $(touch owned)");
        let (ended, said) = ended(&shell.output().expect("bash starts"));
        let called = fs::read_to_string(stage.path("called")).expect("it was called");
        assert!(
            called.contains("[--before][server 'a b'; $(touch owned)][--after]"),
            "{called}"
        );
        assert!(!stage.path("owned").exists());
        if code.is_some() {
            assert_eq!(ended, code, "{said}");
            assert!(
                !stage.path("unstall-ci/junit.xml").exists(),
                "nothing was judged"
            );
            continue;
        }
        let gate = stage.bash(&["-c", "unstall gate one.json"]).output();
        let judged = gate.expect("bash starts").status.code();
        let expected = if judged == Some(0) {
            Some(measured)
        } else {
            judged
        };
        assert_eq!(ended, expected, "{said}");
        let junit = job["artifacts"]["reports"]["junit"]
            .as_str()
            .expect("a path");
        assert!(read(&stage.path(junit)).contains("<testsuite "));
        assert!(stage.path("unstall-ci/report.html").exists());
        assert!(read(&stage.path("unstall-ci/summary.md")).starts_with("<!-- unstall-report"));
    }
}
