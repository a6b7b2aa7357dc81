//! From a workspace to a pushed commit, and what is said when something is wrong.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::Value;

use crate::scene::{Scene, git};

#[test]
fn from_a_workspace_to_a_pushed_commit_and_its_end() {
    let scene = Scene::new();
    let id = scene.acquire("7");
    assert_eq!(scene.acquire("7"), id, "asking again gets the same");
    let rows = scene.workspaces();
    assert_eq!(rows[0]["base"], "trunk", "the main branch is the origin's");
    assert_eq!(rows[0]["branch"], "agent/edits-7");
    let done = scene.done(&[
        "exec",
        &id,
        "--",
        "sh",
        "-c",
        "echo two >> read.me; cat read.me",
    ]);
    assert_eq!(done["run"]["stdout"], "one\ntwo\n");
    let failed = scene.json(&["exec", &id, "--", "sh", "-c", "exit 7"]);
    assert_eq!(
        (&failed["run"]["exit_code"], &failed["exit_code"]),
        (&7.into(), &1.into())
    );
    let late = scene.json(&["exec", &id, "--timeout-s", "1", "--", "sleep", "60"]);
    assert_eq!(late["run"]["timed_out"], true);
    let diff = scene.run(&["diff", &id]);
    assert!(
        String::from_utf8_lossy(&diff.stdout).contains("+two"),
        "{diff:?}"
    );
    scene.done(&["commit", &id, "-m", "Two", "--author-name", "Ada", "--push"]);
    let told = git(
        &scene.origin(),
        &["log", "-1", "--format=%an: %s", "agent/edits-7"],
    );
    assert_eq!(told, "Ada: Two\n");
    assert_eq!(scene.workspaces()[0]["is_dirty"], false);
    let gone = scene.done(&["evict", &id]);
    assert!(
        gone["eviction"]["decisions"][0]["note"].is_null(),
        "nothing was to be saved: {gone}"
    );
    assert!(scene.workspaces().is_empty());
    scene.assert_whole("at the end");
}

#[test]
fn a_mistake_is_told_with_what_to_do() {
    let scene = Scene::new();
    for (arguments, word) in [
        (vec!["exec", "nonsense", "--", "ls"], "unstall-sandbox ls"),
        (
            vec!["exec", "0190d3a0-0000-7000-8000-000000000000", "--", "ls"],
            "doesn't exist",
        ),
        (vec!["acquire", "../x"], "repository name"),
        (
            vec!["acquire", "a/b", "--url", "https://u:p@example.org/a/b"],
            "no credentials",
        ),
        (vec!["evict", "--unknown"], "--unknown"),
        (vec![], "Usage"),
    ] {
        let output = scene.run(&arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(word), "{arguments:?}: {told}");
        let document = scene.json(&arguments);
        let message = document["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(word), "{document}");
    }
    let output = scene
        .command(&["ls"])
        .env("DATABASE_URL", "postgres://x")
        .output();
    let told = String::from_utf8_lossy(&output.expect("it starts").stderr).into_owned();
    assert!(told.contains("REDIS_URL"), "{told}");
}

#[test]
fn repositories_are_reached_by_https_alone_unless_more_is_allowed() {
    let scene = Scene::new();
    let url = scene.url();
    let arguments = |url: &str, more: &[&str]| -> Vec<String> {
        let asked = ["acquire", "octo/hello", "--conversation", "1", "--url", url];
        let words = asked.iter().chain(more);
        words.map(|word| (*word).to_owned()).collect()
    };
    let run = |arguments: &[String]| {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = scene.command(&words);
        let command = command.env_remove("UNSTALL_SANDBOX_SCHEMES");
        command.output().expect("it starts")
    };
    for (url, scheme) in [
        (url.as_str(), "file"),
        ("ssh://git@127.0.0.1:1/octo/hello", "ssh"),
        ("http://127.0.0.1:1/octo/hello", "http"),
    ] {
        let output = run(&arguments(url, &[]));
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        let way = format!("--allow-scheme {scheme} or UNSTALL_SANDBOX_SCHEMES={scheme}");
        assert!(told.contains(&way), "{told}");
    }
    let unknown = run(&arguments(&url, &["--allow-scheme", "gopher"]));
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
    let allowed = run(&arguments(&url, &["--allow-scheme", "file"]));
    assert!(allowed.status.success(), "{allowed:?}");
}

#[test]
fn what_was_evicted_is_there_again_for_whoever_comes_back() {
    let scene = Scene::new();
    let id = scene.acquire("7");
    let line = "echo mine > committed; echo '*.log' > .gitignore";
    scene.done(&["exec", &id, "--", "sh", "-c", line]);
    scene.done(&["commit", &id, "-m", "Mine"]);
    let line = "echo two >> read.me; echo new > new; echo x > x.log";
    scene.done(&["exec", &id, "--", "sh", "-c", line]);
    let gone = scene.done(&["evict", &id]);
    let note = gone["eviction"]["decisions"][0]["note"].as_str();
    let note = note.expect("where it was saved").to_owned();
    let store = scene.stores().remove(0);
    let told = format!("refs/sandbox/evicted/{id} in {}", store.display());
    assert_eq!(note, told);
    let back = scene.acquire("7");
    assert_ne!(back, id);
    let line = "cat read.me new; git log -1 --format=%s; git status --short; ls x.log";
    let done = scene.json(&["exec", &back, "--", "sh", "-c", line]);
    assert_eq!(
        done["run"]["stdout"],
        "one\ntwo\nnew\nMine\n M read.me\n?? new\n"
    );
    let row = &scene.workspaces()[0];
    assert_eq!(
        (&row["is_dirty"], &row["branch"]),
        (&true.into(), &"agent/edits-7".into())
    );
    assert!(scene.stores().is_empty());
    scene.assert_whole("at the end");
}

#[test]
fn what_the_environment_says_is_not_taken_for_nothing_when_it_cannot_be_read() {
    let scene = Scene::new();
    for name in [
        "GITHUB_BASE_URL",
        "GH_TOKEN",
        "SANDBOX_RUNTIME_PROVIDER",
        "RUST_LOG",
    ] {
        let output = scene
            .command(&["acquire", "octo/hello", "--conversation", "1"])
            .env(name, OsStr::from_bytes(b"s3cret\xff"))
            .output()
            .expect("it starts");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {told}");
        assert!(told.contains(name) && told.contains("UTF-8"), "{told}");
        assert!(!told.contains("s3cret"), "{told}");
    }
}

#[test]
fn what_a_command_says_is_its_own() {
    let scene = Scene::new();
    let id = scene.acquire("1");
    let said = scene.run(&["exec", &id, "--", "echo", "--json"]);
    assert_eq!(String::from_utf8_lossy(&said.stdout), "--json\n");
    let line = "echo out; echo oops >&2; exit 3";
    let said = scene.run(&["exec", &id, "--", "sh", "-c", line]);
    assert_eq!(said.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&said.stdout), "out\n");
    assert_eq!(
        String::from_utf8_lossy(&said.stderr),
        "oops\n(exit code 3)\n"
    );
    let refused = scene.run(&[
        "evict",
        "--dry-run",
        "--unused-for-s",
        "18446744073709551615",
    ]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}

#[test]
fn a_command_leads_the_tree_to_no_other_git_directory() {
    let scene = Scene::new();
    let id = scene.acquire("1");
    let tree = scene.workspaces()[0]["path"].as_str().map(str::to_owned);
    let link = std::path::Path::new(&tree.expect("a path")).join(".git");
    let before = std::fs::read_to_string(&link).expect("it leads to the git directory");
    for attempt in [
        "rm -f .git",
        "mv .git x",
        "echo gitdir: /tmp/x > .git",
        "ln -sf /tmp .git",
        "git init",
    ] {
        let done = scene.json(&["exec", &id, "--", "sh", "-c", attempt]);
        assert_ne!(done["run"]["exit_code"], 0, "{attempt}");
        let now = std::fs::read_to_string(&link).expect("it is still there");
        assert_eq!(now, before, "{attempt}");
    }
}

#[test]
fn a_root_that_is_made_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let scene = Scene::new();
    scene.acquire("1");
    let root = std::fs::metadata(scene.root()).expect("it is there");
    assert_eq!(root.permissions().mode() & 0o777, 0o700);
}

#[test]
fn the_doctor_finds_all_well_here() {
    let scene = Scene::new();
    let document: Value = scene.done(&["doctor"]);
    let findings = document["findings"].as_array().expect("a list");
    let whats: Vec<&str> = findings
        .iter()
        .filter_map(|found| found["what"].as_str())
        .collect();
    assert_eq!(
        whats,
        [
            "git and root",
            "store",
            "locks",
            "disk",
            "free space",
            "runtime",
            "blocking pool"
        ]
    );
}

#[test]
fn two_commands_at_once_wait_for_each_other() {
    let scene = Scene::new();
    let ids: Vec<String> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| scene.acquire("same")))
            .collect();
        asked
            .into_iter()
            .map(|asked| asked.join().expect("no panic"))
            .collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    scene.assert_whole("after four at once");
}
