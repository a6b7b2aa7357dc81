//! A whole migration from end to end: `unstall replay` on private servers with the real reference
//! service, by a plan of its own that is small. Verdicts depend on the machine; what must hold on
//! any machine is tested here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use unstall_results::record::RunRecord;
use unstall_results::store;

/// Putting the calls back on the loop comes second, so that it is measured in triples: it blocks
/// the loop on any machine. Until then what isn't async is on worker threads.
const PLAN: &str = r#"
name = "small"
start = { title = "On worker threads", command = "unstall-reference --steps start --port {port}" }

[[step]]
id = "2a"
title = "Async usage check"
risk = "low"
impact = "Every message waits for it"
command = "unstall-reference --steps 2a --port {port}"
scenarios = ["small.toml"]
endpoints = ["GET branch-list"]
criteria = { errors = "none-new" }

[[step]]
id = "0"
title = "Back onto the loop"
risk = "low"
impact = "None"
command = "unstall-reference --steps 2a,0 --port {port}"
scenarios = ["small.toml"]
endpoints = ["GET branch-list"]
criteria = { errors = "none-new", blocked = "down-or-flat" }

[[step]]
id = "3"
title = "Async caches"
branch = "feat/caches"
risk = "low"
impact = "Short reads leave the loop free"
command = "unstall-reference --steps 2a,0,3 --port {port}"
scenarios = ["nobody-has-this"]
endpoints = ["GET branch-list"]
criteria = { errors = "none-new" }
"#;

/// A route that no session's slot is needed for.
const SCENARIO: &str = r#"
name = "small"
describe = "The branch list"
[[request]]
name = "GET branch-list"
method = "GET"
path = "/api/v1/github/get-branch-list"
query = { repo_name = "octo/hello" }
expect = { status = 200 }
[load]
closed = { concurrency = [4], requests = 40 }
"#;

/// `unstall-reference` is another package's program: `cargo build --workspace --bins` makes it.
fn has_reference_service() -> bool {
    let beside = Path::new(env!("CARGO_BIN_EXE_unstall")).with_file_name("unstall-reference");
    if beside.exists() {
        return true;
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "unstall-reference is missing"
    );
    eprintln!("skipped: unstall-reference is not built (cargo build --workspace --bins)");
    false
}

fn replay(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstall"));
    command
        .args(["replay", "--quick", "--plan", "plan.toml", "--triples", "5"])
        .args(["--out", "out", "--json"])
        .current_dir(folder)
        .env_remove("DATABASE_URL")
        .env_remove("REDIS_URL")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("plan.toml"), PLAN).expect("writable");
    fs::write(folder.path().join("small.toml"), SCENARIO).expect("writable");
    folder
}

/// Stops it when the record has a whole triple; the bound only keeps a broken program from hanging.
fn stop_in(mut child: Child, record: &Path) -> Output {
    let begun = Instant::now();
    loop {
        let whole = store::read(record).map(|record| record.complete_pairs().len());
        if whole.is_ok_and(|whole| whole >= 1) {
            break;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(300),
            "{} has no whole triple",
            record.display()
        );
        assert!(child.try_wait().expect("a child").is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = i32::try_from(child.id()).expect("a process id");
    kill(Pid::from_raw(pid), Signal::SIGTERM).expect("the process is there");
    child.wait_with_output().expect("it ends")
}

fn document(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("no document ({error}): {said}"));
    let schema: Value = serde_json::from_str(include_str!("../schema/result.schema.json"))
        .expect("the schema is JSON");
    if let Err(error) = jsonschema::validate(&schema, &document) {
        panic!("the document does not fit its schema: {error}");
    }
    document
}

fn step<'d>(document: &'d Value, id: &str) -> &'d Value {
    let mut steps = document["replay"]["steps"]
        .as_array()
        .expect("steps")
        .iter();
    steps.find(|step| step["id"] == id).expect("the step")
}

/// Process start and arm of each valid block.
fn blocks(record: &RunRecord) -> Vec<(u32, String, Option<String>)> {
    let valid = record.blocks.iter().filter(|block| block.validity.ok);
    valid
        .map(|of| (of.pair, of.arm.clone(), of.process_start_id.clone()))
        .collect()
}

fn read(out: &Path, name: &str) -> RunRecord {
    store::read(&out.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What each block of the interrupted record that belongs to a whole triple was.
fn of_whole_triples(record: &RunRecord) -> Vec<(u32, String, Option<String>)> {
    let whole = record.complete_pairs();
    let mut kept = blocks(record);
    kept.retain(|(pair, _, _)| whole.contains(pair));
    kept
}

fn assert_steps(document: &Value, is_first_sound: bool) {
    let kept = &step(document, "2a")["measurements"][0];
    let how = if is_first_sound { "kept" } else { "gone_on" };
    assert_eq!(kept["how"], how, "{kept}");
    assert!(kept["from_start"].is_null(), "the start is what was before");
    let gone_on = &step(document, "0")["measurements"][0];
    assert_eq!(gone_on["how"], "gone_on", "{gone_on}");
    assert!(gone_on["from_start"]["cells"].is_array(), "{gone_on}");
    let index = usize::try_from(gone_on["comparison"].as_u64().expect("an index"));
    let comparison = &document["comparisons"][index.expect("small")];
    assert_eq!(comparison["step"]["id"], "0");
    let none = step(document, "3");
    assert_eq!(none["decision"], "undecided");
    assert_eq!(none["measurements"][0]["how"], "no_scenario");
    let why = none["measurements"][0]["why"].as_str().expect("a reason");
    assert!(why.contains("`nobody-has-this`"), "{why}");
}

/// The step that blocks the loop is in no later version, unless this machine spoilt its blocks.
fn assert_left_out(document: &Value) {
    let replay = &document["replay"];
    if step(document, "0")["verdict"] == "invalid" {
        assert_eq!(replay["left_out"], serde_json::json!([]));
        return;
    }
    assert_eq!(
        step(document, "0")["decision"],
        "revert",
        "{}",
        step(document, "0")
    );
    assert_eq!(replay["left_out"], serde_json::json!(["0"]));
    let command = |of: &Value| of.as_str().expect("a command").to_owned();
    let last = step(document, "3");
    assert!(command(&last["before_command"]).contains("--steps 2a "));
    assert!(command(&last["after_command"]).contains("--steps 2a,3 "));
    let state = &replay["last_state"];
    assert!(
        command(&state["command"]).contains("--steps 2a,3 "),
        "{state}"
    );
    // This machine may have spoilt the blocks of the step before, and invalid comes first.
    let code = match step(document, "2a")["verdict"] == "invalid" {
        true => 3,
        false => 1,
    };
    assert_eq!(document["exit_code"], code);
}

#[test]
fn a_migration_is_replayed_goes_on_where_it_was_stopped_and_leaves_out_what_regressed() {
    if !has_reference_service() {
        return;
    }
    let folder = folder();
    let out = folder.path().join("out");
    let child = replay(folder.path()).spawn().expect("unstall starts");
    let stopped = stop_in(child, &out.join("0-small.json"));
    let first = document(&stopped);
    assert_eq!(first["replay"]["interrupted"], true);
    assert_eq!(step(&first, "3")["measurements"][0]["how"], "not_measured");
    assert!(first["replay"]["last_state"].is_null());
    let half = read(&out, "0-small.json");
    assert!(half.interrupted && half.has_start(), "{:?}", half.arms);
    let kept = of_whole_triples(&half);
    assert!(kept.len() >= 3 && kept.len() < 15, "{kept:?}");
    let complete = fs::read(out.join("2a-small.json")).expect("the first step is there");
    // What this machine has spoilt is measured again.
    let is_first_sound = read(&out, "2a-small.json").complete_pairs().len() == 5;

    let output = replay(folder.path()).output().expect("unstall starts");
    let second = document(&output);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(second["replay"]["interrupted"], false, "{said}");
    assert_steps(&second, is_first_sound);
    assert_left_out(&second);
    let again = fs::read(out.join("2a-small.json")).expect("it is still there");
    assert!(
        complete == again || !is_first_sound,
        "a whole record isn't touched"
    );
    let whole = read(&out, "0-small.json");
    assert!(!whole.interrupted);
    let sessions = whole.merged.as_ref().map(|of| of.sessions.len());
    assert_eq!(sessions, Some(2), "it tells that it was interrupted");
    let all = blocks(&whole);
    assert!(kept.iter().all(|block| all.contains(block)), "{all:?}");
    assert!(whole.blocks.len() >= 15);

    let state = &second["replay"]["last_state"];
    // Where a look is refused, as on a machine without the monitor's clocks, the page says so.
    assert!(
        state["blocked"].is_null() || state["blocked"]["requests"].as_u64() > Some(200),
        "{state}"
    );
    assert!(state["proof"]["routes"].is_array() || said.contains("nothing is proven"));
    let page = fs::read_to_string(out.join("report.html")).expect("the report");
    assert!(page.contains("Step 0"));
    let ledger = fs::read_to_string(out.join("async-migration-results.md")).expect("the ledger");
    assert!(ledger.contains("Async usage check"), "{ledger}");
}

/// What is wrong is said before anything is started.
fn refusal(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstall"));
    let output = command
        .arg("replay")
        .args(arguments)
        .current_dir(folder)
        .output();
    let output = output.expect("unstall starts");
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn mistakes_are_told_before_anything_is_started() {
    if !has_reference_service() {
        return;
    }
    let folder = folder();
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    let unknown = refusal(folder.path(), &["--plan", "plan.toml", "--steps", "2a,2z"]);
    assert!(unknown.contains("has no step `2z`"), "{unknown}");
    let nothing = refusal(folder.path(), &["--plan", "plan.toml", "--steps", "3"]);
    assert!(nothing.contains("none of nobody-has-this"), "{nothing}");
    let few = refusal(folder.path(), &["--triples", "4"]);
    assert!(few.contains("5..=1000"), "{few}");
    fs::write(path("own.toml"), PLAN.replace("--steps 2a,0 ", "--new ")).expect("writable");
    let unlisted = refusal(folder.path(), &["--plan", "own.toml"]);
    assert!(unlisted.contains("as in `--steps 2a,0`"), "{unlisted}");
    let question = "\ncapacity = { scenario = \"small.toml\", objective = \"speed<1\", \
                    from_per_second = 1, to_per_second = 2, promised_percent = [30, 40] }\n[[step]]";
    fs::write(path("own.toml"), PLAN.replacen("\n[[step]]", question, 1)).expect("writable");
    let objective = refusal(folder.path(), &["--plan", "own.toml"]);
    assert!(
        objective.contains("the objective of the plan `small`"),
        "{objective}"
    );
    let twice = PLAN.replacen("[\"small.toml\"]", "[\"small.toml\", \"small.toml\"]", 1);
    fs::write(path("own.toml"), twice).expect("writable");
    let twice = refusal(folder.path(), &["--plan", "own.toml"]);
    assert!(
        twice.contains("two measurements for the record 2a-small.json"),
        "{twice}"
    );
    assert!(!path("unstall-replay").exists(), "nothing was made");
}
