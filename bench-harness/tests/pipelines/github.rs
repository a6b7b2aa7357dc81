//! The composite action: its metadata by GitHub's rules, and each of its shells run.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::action_metadata::violations;
use crate::stage::{Stage, check_shell, ended, read, repository, yaml};

fn action() -> Value {
    yaml(&read(&repository("ci/github/action.yml")))
}

/// A job with a step of the action in it.
struct Job {
    stage: Stage,
    inputs: BTreeMap<String, String>,
    /// What `${{ … }}` stands for beside inputs.
    context: BTreeMap<String, String>,
}

impl Job {
    fn new(inputs: &[(&str, &str)]) -> Self {
        let action = action();
        let declared = action["inputs"].as_object().expect("inputs").iter();
        let default = |input: &Value| input["default"].as_str().unwrap_or_default().to_owned();
        let mut all: BTreeMap<String, String> = declared
            .map(|(name, input)| (name.clone(), default(input)))
            .collect();
        for (name, value) in inputs {
            let known = all.insert((*name).to_owned(), (*value).to_owned());
            assert!(known.is_some(), "there is no input {name}");
        }
        Self {
            stage: Stage::new(),
            inputs: all,
            context: BTreeMap::from([
                ("github.token".to_owned(), "token-of-the-job".to_owned()),
                (
                    "github.event.pull_request.number".to_owned(),
                    "17".to_owned(),
                ),
            ]),
        }
    }

    /// Replaces the expressions that the action has in environments: names and nothing else.
    fn evaluated(&self, text: &str) -> String {
        let mut pieces = text.split("${{");
        let mut out = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (name, rest) = piece.split_once("}}").expect("an expression ends");
            let name = name.trim();
            let value = match name.strip_prefix("inputs.") {
                Some(input) => self.evaluated(&self.inputs[input]),
                None => self.context[name].clone(),
            };
            out.push_str(&value);
            out.push_str(rest);
        }
        out
    }

    /// Runs a step as the runner does, and takes its outputs over.
    fn step(&mut self, id: &str) -> (Option<i32>, String) {
        let action = action();
        let steps = action["runs"]["steps"].as_array().expect("steps");
        let step = steps
            .iter()
            .find(|step| step["id"] == id)
            .expect("the step");
        assert_eq!(step["shell"], "bash");
        let script = self.stage.path("step.sh");
        fs::write(&script, step["run"].as_str().expect("a script")).expect("writable");
        let script = script.to_str().expect("UTF-8");
        let shell = ["--noprofile", "--norc", "-eo", "pipefail", script];
        let mut command = self.stage.bash(&shell);
        for (name, value) in step["env"].as_object().expect("an environment") {
            command.env(name, self.evaluated(value.as_str().expect("text")));
        }
        let output = command
            .env("GITHUB_ACTION_PATH", repository("ci/github"))
            .env("GITHUB_OUTPUT", self.stage.path("output"))
            .env("GITHUB_STEP_SUMMARY", self.stage.path("summary"))
            .env("GITHUB_WORKSPACE", self.stage.path(""))
            .env("GITHUB_REPOSITORY", "owner/service")
            .output()
            .expect("bash starts");
        for (name, value) in self.outputs() {
            self.context
                .insert(format!("steps.{id}.outputs.{name}"), value);
        }
        ended(&output)
    }

    fn outputs(&self) -> BTreeMap<String, String> {
        let text = fs::read_to_string(self.stage.path("output")).unwrap_or_default(); // none written
        let pairs = text
            .lines()
            .map(|line| line.split_once('=').expect("NAME=VALUE"));
        pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    fn file(&self, name: &str) -> String {
        read(&self.stage.path(name))
    }
}

#[test]
fn the_metadata_is_what_github_takes() {
    assert_eq!(violations(&action()), [""; 0]);
    for step in action()["runs"]["steps"].as_array().expect("steps") {
        if let Some(run) = step["run"].as_str() {
            check_shell(run);
        }
    }
    for script in ["gate.sh", "comment.sh"] {
        check_shell(&read(&repository("ci/github").join(script)));
    }
}

#[test]
fn records_are_judged_and_everything_is_written_where_the_job_reads_it() {
    let mut job = Job::new(&[
        ("records", "one.json\n  \ntwo.json\r\n"),
        ("marker", "linux"),
    ]);
    let (code, said) = job.step("gate");
    assert_eq!(code, Some(0), "the last step fails, not this one: {said}");
    let outputs = job.outputs();
    let verdict = outputs["verdict"].as_str();
    let expected = match outputs["exit-code"].as_str() {
        "0" => "pass",
        "1" => "regression",
        "3" => "invalid",
        "4" => "inconclusive",
        other => panic!("{other}: {said}"),
    };
    assert_eq!(verdict, expected);
    assert_eq!(outputs["folder"], "unstall-ci");
    assert!(!outputs["headline"].is_empty());
    let summary = job.file("summary");
    assert!(
        summary.starts_with("<!-- unstall-report: linux -->\n# "),
        "{summary}"
    );
    assert_eq!(job.file("unstall-ci/summary.md"), summary);
    assert!(job.file("unstall-ci/report.html").starts_with("<!"));
    assert_eq!(
        job.file("unstall-ci/junit.xml")
            .matches("<testsuite ")
            .count(),
        2
    );
    assert!(said.contains("::stop-commands::"), "{said}");
    let commands = said
        .lines()
        .filter(|line| line.starts_with("::") && line.contains(" title="));
    assert!(commands.count() >= 2, "{said}");

    let (code, _) = job.step("verdict");
    assert_eq!(
        code.map(|code| code.to_string()),
        outputs.get("exit-code").cloned()
    );
}

/// A program in the place of `unstall` writes down how it is called.
#[test]
fn what_broke_off_is_no_pass_whatever_its_record_says() {
    for (measured, judged, code) in [(3, 0, 3), (4, 0, 4), (3, 1, 1), (0, 4, 4), (0, 0, 0)] {
        let mut job = Job::new(&[
            ("scenario", "tunnel"),
            ("before", "server --port {port}"),
            ("after", "http://127.0.0.1:9"),
            ("folder", "out"),
        ]);
        job.stage.program(
            "unstall",
            &format!(
                "#!/bin/sh\nmkdir -p out; [ \"$1\" != ab ] || exit {measured}\nexit {judged}\n"
            ),
        );
        let (ended, said) = job.step("gate");
        assert_eq!(ended, Some(0), "{said}");
        assert_eq!(job.outputs()["exit-code"], code.to_string(), "{said}");
        assert_eq!(job.step("verdict").0, Some(code));
    }
}

#[test]
fn a_measurement_gets_its_arguments_whole() {
    let before = "server --port {port} --name 'a b' $(touch owned)";
    let mut job = Job::new(&[
        ("scenario", "tunnel\nown scenario.toml\n"),
        ("before", before),
        ("after", "http://127.0.0.1:9"),
        (
            "arguments",
            "--requests=2000\n--var=user=a b; touch owned\n",
        ),
        ("policy", "policy.toml"),
        ("certificate", "calibration.json"),
        ("folder", "out here"),
    ]);
    job.stage.program(
        "unstall",
        "#!/bin/sh\n{ printf '%s' \"$1\"; shift; printf ' [%s]' \"$@\"; echo; } >> calls\n\
         for made in 'out here/records'.*; do touch \"$made/tunnel.json\"; done; exit 4\n",
    );
    // Of an earlier job in the same folder.
    fs::create_dir_all(job.stage.path("out here/records.before")).expect("writable");
    let before_record = job.stage.path("out here/records.before/old.json");
    fs::write(&before_record, "").expect("writable");
    let (code, said) = job.step("gate");
    assert_eq!(code, Some(0), "{said}");
    let calls = without_suffix(&job.file("calls"), "out here/records.");
    let calls: Vec<&str> = calls.lines().collect();
    assert_eq!(
        calls[0],
        format!(
            "ab [--before] [{before}] [--after] [http://127.0.0.1:9] [--pairs] [10] [--out] \
             [out here/records] [--force] [--policy] [policy.toml] [--certificate] [calibration.json] [--requests=2000] [--var=user=a b; touch owned] [--] \
             [tunnel] [own scenario.toml]"
        )
    );
    assert_eq!(
        calls[1],
        "gate [--policy] [policy.toml] [--certificate] [calibration.json] [--junit] [out here/junit.xml] [--markdown] \
         [out here/summary.md] [--github] [--] [out here/records/tunnel.json]"
    );
    assert_eq!(
        calls[2],
        "report [-o] [out here/report.html] [--policy] [policy.toml] [--certificate] [calibration.json] [--] [out here/records/tunnel.json]"
    );
    assert!(
        !job.stage.path("owned").exists(),
        "nothing of an input was run"
    );
    assert_eq!(job.outputs()["exit-code"], "4");
    assert_eq!(job.step("verdict").0, Some(4));
}

#[test]
fn a_record_of_an_earlier_job_is_never_judged_as_todays() {
    let mut job = Job::new(&[
        ("scenario", "tunnel"),
        ("before", "server --port {port}"),
        ("after", "http://127.0.0.1:9"),
        ("folder", "out"),
    ]);
    fs::create_dir_all(job.stage.path("out")).expect("writable");
    fs::write(job.stage.path("out/record.json"), "").expect("writable");
    job.stage.program(
        "unstall",
        "#!/bin/sh\necho \"$1\" >> calls; [ ! -e out/record.json ] || echo old >> calls; exit 3\n",
    );
    let (code, said) = job.step("gate");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(job.file("calls"), "ab\ngate\nreport\n");
    assert_eq!(job.step("verdict").0, Some(3));
}

/// With what `mktemp` appends to a name taken off.
fn without_suffix(text: &str, name: &str) -> String {
    const LETTERS: usize = 6;
    let mut pieces = text.split(name);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        out.push_str(name.trim_end_matches('.'));
        out.push_str(&piece[LETTERS..]);
    }
    out
}

#[test]
fn no_answer_of_a_service_is_a_command() {
    let mut job = Job::new(&[
        ("scenario", "tunnel"),
        ("before", "server --port {port}"),
        ("after", "http://127.0.0.1:9"),
        ("folder", "out"),
    ]);
    let script = "#!/bin/sh\necho \"$1: 500 ##[stop-commands]x\"\necho \"$1: ::error::y\" >&2\n";
    job.stage.program("unstall", script);
    let (code, said) = job.step("gate");
    assert_eq!(code, Some(0), "{said}");
    // What the runner would take for a command, and what it is told between two words.
    let (mut silent, mut stops): (Option<String>, usize) = (None, 0);
    for line in said.lines() {
        if let Some(word) = line.strip_prefix("::stop-commands::") {
            assert!(silent.is_none() && word.len() == 32, "{said}");
            (silent, stops) = (Some(word.to_owned()), stops + 1);
        } else if silent
            .as_ref()
            .is_some_and(|word| line == format!("::{word}::"))
        {
            silent = None;
        } else if silent.is_none() {
            // This one switches them off by itself around what isn't its own.
            assert_eq!(line, "gate: 500 ##[stop-commands]x", "{said}");
        }
    }
    assert!(silent.is_none(), "commands are taken again: {said}");
    assert_eq!(stops, 3, "{said}");
    assert!(said.contains("ab: ::error::y") && said.contains("report: ::error::y"));
}

#[test]
fn what_was_not_measured_or_not_judged_is_no_verdict() {
    let none = Job::new(&[("scenario", "tunnel")]).step("gate");
    assert_eq!(none.0, Some(2), "{}", none.1);
    assert!(
        none.1.contains("::error title=Unstall::Give records"),
        "{}",
        none.1
    );
    let mut job = Job::new(&[("records", "nowhere.json")]);
    let (code, said) = job.step("gate");
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("nowhere.json") && said.contains("Nothing was judged"),
        "{said}"
    );
    assert!(!job.outputs().contains_key("exit-code"));
    let inputs = [("scenario", "none.toml"), ("before", "sh"), ("after", "sh")];
    let (code, said) = Job::new(&inputs).step("gate");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("Nothing was measured"), "{said}");
}

/// A program in the place of `gh`: it tells of comments and writes down what is asked of it.
const GH: &str = "#!/bin/sh\n\
    printf '%s|%s|%s\\n' \"$GH_TOKEN\" \"$GATE_MARKER_LINE\" \"$*\" >> asked\n\
    case \"$*\" in *--paginate*) cat comments ;; *) exit \"$(cat writes)\" ;; esac\n";

fn commented(comments: &str, writes: &str) -> (Option<i32>, String, Vec<String>) {
    let mut job = Job::new(&[("comment", "true")]);
    job.stage.program("gh", GH);
    fs::create_dir(job.stage.path("unstall-ci")).expect("writable");
    let summary = "<!-- unstall-report: tunnel -->\n# Latency gate\n";
    for (name, text) in [
        ("unstall-ci/summary.md", summary),
        ("comments", comments),
        ("writes", writes),
    ] {
        fs::write(job.stage.path(name), text).expect("writable");
    }
    let (code, said) = job.step("comment");
    let asked = job.file("asked").lines().map(str::to_owned).collect();
    (code, said, asked)
}

#[test]
fn a_comment_is_written_once_and_then_replaced() {
    let who = "token-of-the-job|<!-- unstall-report: tunnel -->|api --";
    let body = "--field body=@unstall-ci/summary.md";
    let (code, said, asked) = commented("", "0");
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let listed = format!("{who}paginate repos/owner/service/issues/17/comments --jq ");
    assert!(asked[0].starts_with(&listed), "{}", asked[0]);
    assert!(asked[0].contains(".user.login == env.GATE_AUTHOR"));
    let posted = format!("{who}silent --method POST repos/owner/service/issues/17/comments {body}");
    assert_eq!(asked[1..], [posted]);

    let (code, _, asked) = commented("901\n902\n", "0");
    assert_eq!(code, Some(0));
    let replaced =
        format!("{who}silent --method PATCH repos/owner/service/issues/comments/901 {body}");
    assert_eq!(asked[1..], [replaced]);
}

#[test]
fn a_token_that_may_only_read_fails_nothing() {
    for comments in ["", "901\n"] {
        let (code, said, _) = commented(comments, "1");
        assert_eq!(code, Some(0), "{said}");
        assert!(
            said.starts_with("::warning title=Unstall::The comment was not written"),
            "{said}"
        );
    }
}

/// The filter that finds the comment again, by a real jq where there is one: `gh` has its own.
#[test]
fn only_an_own_comment_with_the_same_first_line_is_found() {
    let script = read(&repository("ci/github/comment.sh"));
    let filter = script
        .lines()
        .find_map(|line| line.strip_prefix("filter='")?.strip_suffix('\''))
        .expect("the filter");
    let comments = r#"[
        {"id": 1, "user": {"login": "mallory"}, "body": "<!-- unstall-report: tunnel -->\n# x"},
        {"id": 2, "user": {"login": "github-actions[bot]"}, "body": "<!-- unstall-report: other -->"},
        {"id": 3, "user": {"login": "github-actions[bot]"}, "body": "<!-- unstall-report: tunnel -->\r\n# y"},
        {"id": 4, "user": {"login": "github-actions[bot]"}, "body": "see <!-- unstall-report: tunnel -->"}
    ]"#;
    let stage = Stage::new();
    fs::write(stage.path("comments.json"), comments).expect("writable");
    let output = stage
        .bash(&["-c", "jq \"$FILTER\" comments.json"])
        .env("FILTER", filter)
        .env("GATE_AUTHOR", "github-actions[bot]")
        .env("GATE_MARKER_LINE", "<!-- unstall-report: tunnel -->")
        .output()
        .expect("bash starts");
    let (code, said) = ended(&output);
    if code == Some(127) && std::env::var_os("CI").is_none() {
        eprintln!("skipped: jq is not installed, and gh has its own");
        return;
    }
    assert_eq!((code, said.as_str()), (Some(0), "3\n"));
}
