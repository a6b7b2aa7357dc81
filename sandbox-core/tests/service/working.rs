//! Work in a workspace: files, commits, pushes and the tools of agents, by a handle.

use serde_json::{Value, json};
use unstall_sandbox_core::domain::TreePath;
use unstall_sandbox_core::ports::files::{Expected, FileAccess};
use unstall_sandbox_core::ports::workbench::Workbench;

use crate::bench::{Bench, client, git, run};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_committed_is_dirty_until_it_is_pushed() {
    let bench = Bench::new().await;
    let worker = bench.worker().await;
    let (client, identity) = client(&worker);
    let handle = client
        .get_workspace(bench.edits("c"), identity)
        .await
        .expect("made");
    let path = TreePath::parse("new.txt").expect("a path");
    let written = handle
        .write(path, b"text\n".to_vec(), Expected::Absent)
        .await;
    assert!(written.expect("written").is_new);
    let id = handle.workspace_id();
    assert!(bench.row(id).await.dirty);
    let commit = handle
        .commit("one".to_owned(), Vec::new())
        .await
        .expect("made");
    worker.release_session(id, true).await.expect("released");
    assert!(bench.row(id).await.dirty, "nobody else has the commit");
    let pushed = handle.push().await.expect("pushed");
    assert_eq!(pushed.commit, commit);
    assert!(!bench.row(id).await.dirty);
    let origin = bench.origin();
    let author = git(&origin, &["log", "-1", "--format=%an %ae", "agent/edits-c"]);
    assert_eq!(author, "Ada ada@example.org\n");
    assert!(handle.commit("none".to_owned(), Vec::new()).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_works_by_its_tools() {
    let bench = Bench::new().await;
    let worker = bench.worker().await;
    let (client, identity) = client(&worker);
    let handle = client
        .get_workspace(bench.edits("c"), identity.clone())
        .await
        .expect("made");
    let tools = client.tools(&handle);
    assert_eq!(tools.tools().len(), 12);
    let ask = async |name: &str, input: Value| {
        let answer = tools.call(name, input).await;
        assert_eq!(answer["success"], json!(true), "{name}: {answer}");
        answer
    };
    ask(
        "sandbox_write_file",
        json!({"path": "a.txt", "content": "alpha\n"}),
    )
    .await;
    let run = ask("sandbox_run", json!({"command": ["sh", "-c", "cat a.txt"]})).await;
    assert!(run.to_string().contains("alpha"), "{run}");
    let found = ask("sandbox_search", json!({"pattern": "alph."})).await;
    assert!(found.to_string().contains("a.txt:1:alpha"), "{found}");
    ask("sandbox_git_commit", json!({"message": "alpha"})).await;
    ask("sandbox_git_push", json!({})).await;
    let refused = tools
        .call("sandbox_open_pr", json!({"title": "t", "body": "b"}))
        .await;
    assert!(refused.to_string().contains("no access to"), "{refused}");
    worker.close().await.expect("closed");

    let reading = client
        .get_workspace(bench.reading(), identity)
        .await
        .expect("made");
    let tools = client.tools(&reading);
    let names: Vec<&str> = tools.tools().iter().map(|tool| tool.name).collect();
    assert!(!names.contains(&"sandbox_write_file"), "{names:?}");
    let path = TreePath::parse("x").expect("a path");
    let refused = reading.write(path, Vec::new(), Expected::Anything).await;
    assert!(refused.is_err());
    worker.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_hostile_tree_holds_runs_nothing_on_the_machine() {
    let bench = Bench::new().await;
    let worker = bench.worker().await;
    let made = worker
        .get_or_create_workspace(&bench.edits("c"))
        .await
        .expect("made");
    let mark = bench.folder.path().join("mark");
    let plant = format!(
        "printf '[core]\\n\\tfsmonitor = touch {0}\\n' > .gitconfig; printf '* filter=evil diff=evil\\n' > .gitattributes; \
         git config core.fsmonitor 'touch {0}'; git config filter.evil.clean 'touch {0}'; git config diff.evil.textconv 'touch {0}'; \
         mkdir -p .git/hooks; true",
        mark.display()
    );
    run(&worker, made.id, &plant).await.expect("it runs");
    worker.status(made.id).await.expect("git answers");
    let base = unstall_sandbox_core::ports::workspaces::DiffBase::Head;
    worker
        .diff(made.id, &base, 1 << 20)
        .await
        .expect("git answers");
    let order = unstall_sandbox_core::service::CommitOrder {
        message: "planted".to_owned(),
        paths: Vec::new(),
        identity: client(&worker).1,
    };
    // Whether it is made or refused is git's matter; what it runs is ours.
    let _made = worker.commit(made.id, &order).await;
    assert!(!mark.exists());
    worker.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crashed_write_left_is_gone_for_whoever_comes_back() {
    let bench = Bench::new().await;
    let worker = bench.worker().await;
    let (client, identity) = client(&worker);
    let asked = || bench.edits("c");
    let handle = client.get_workspace(asked(), identity.clone()).await;
    let handle = handle.expect("made");
    let path = TreePath::parse("kept").expect("a path");
    let written = handle.write(path, b"x".to_vec(), Expected::Absent).await;
    written.expect("written");
    let left = handle.working_dir().join(".unstall-write-0");
    std::fs::write(&left, "half").expect("a file");
    client
        .get_workspace(asked(), identity)
        .await
        .expect("served");
    assert!(!left.exists());
    assert!(handle.working_dir().join("kept").exists());
}
