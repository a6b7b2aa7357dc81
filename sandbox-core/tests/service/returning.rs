//! Whoever comes back after an eviction finds what they left, and nobody else does.

use std::path::Path;
use std::sync::Arc;

use unstall_sandbox_core::domain::{
    RepoUrl, UserId, Workspace, WorkspaceError, WorkspaceRequest, WorkspaceState,
};
use unstall_sandbox_core::ports::store::SandboxStore;
use unstall_sandbox_core::ports::workspaces::{ChangeKind, SavedEdits};
use unstall_sandbox_core::service::{CommitOrder, SandboxService, ServiceError, Settings};

use crate::bench::{Bench, branch, client, edited, git, run};

fn alone(settings: &mut Settings) {
    settings.is_sole_worker = true;
    settings.limits.volume_bytes = 0;
}

fn text(tree: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(tree.join(name)).ok()
}

async fn get(worker: &SandboxService, request: &WorkspaceRequest) -> Workspace {
    let made = worker.get_or_create_workspace(request).await;
    made.expect("made or served")
}

/// A conversation's workspace with a commit and edits of each kind, after its eviction.
async fn evicted(bench: &Bench, worker: &Arc<SandboxService>) -> (Workspace, SavedEdits) {
    bench.push("deleted", "here\n");
    let made = get(worker, &bench.edits("c")).await;
    for line in ["echo mine > committed", "echo '*.log' > .gitignore"] {
        run(worker, made.id, line).await.expect("it runs");
    }
    let order = CommitOrder {
        message: "mine".to_owned(),
        paths: Vec::new(),
        identity: client(worker).1,
    };
    worker.commit(made.id, &order).await.expect("committed");
    let line =
        "echo two > read.me; echo new > 'a b'; rm deleted; echo x > x.log; echo 3 >> committed";
    run(worker, made.id, line).await.expect("it runs");
    let saved = worker.destroy_workspace(made.id).await.expect("destroyed");
    (made, saved.expect("there was something to save"))
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_back_finds_commits_and_changes_as_they_left_them() {
    let bench = Bench::new().await;
    let worker = bench
        .worker_with(|settings| {
            alone(settings);
            settings.cache_fresh = std::time::Duration::ZERO;
            settings.prepared_per_base = 1;
        })
        .await;
    let (made, saved) = evicted(&bench, &worker).await;
    // The base goes on meanwhile, and a prepared tree of it waits: what was saved is preferred.
    bench.push("read.me", "moved\n");
    let prepared = worker.prepare_for(&bench.edits("c")).await;
    assert!(prepared.expect("prepared"));
    let back = get(&worker, &bench.edits("c")).await;
    assert_ne!(back.id, made.id);
    assert_eq!((back.state, back.dirty), (WorkspaceState::Ready, true));
    let tree = worker.tree_of(&back).expect("a path");
    assert_eq!(text(&tree, "read.me").as_deref(), Some("two\n"));
    assert_eq!(text(&tree, "a b").as_deref(), Some("new\n"));
    assert_eq!(text(&tree, "committed").as_deref(), Some("mine\n3\n"));
    assert_eq!((text(&tree, "deleted"), text(&tree, "x.log")), (None, None));
    let status = worker.status(back.id).await.expect("git answers");
    let mut changes: Vec<(ChangeKind, String)> = status
        .changes
        .iter()
        .map(|change| (change.kind, change.path.display().to_string()))
        .collect();
    changes.sort_by(|one, other| one.1.cmp(&other.1));
    assert_eq!(
        changes,
        [
            (ChangeKind::Untracked, "a b".to_owned()),
            (ChangeKind::Modified, "committed".to_owned()),
            (ChangeKind::Deleted, "deleted".to_owned()),
            (ChangeKind::Modified, "read.me".to_owned()),
        ]
    );
    assert_eq!(status.branch, Some(branch("agent/edits-c")));
    assert!(status.has_unsaved_commits);
    assert_eq!(git(&tree, &["log", "-1", "--format=%s"]), "mine\n");
    // What was saved went, and the next eviction saves what is there by then.
    assert!(!saved.store.exists());
    assert!(worker.reconcile().await.expect("reconciled").is_clean());
    run(&worker, back.id, "echo three > read.me")
        .await
        .expect("it runs");
    let again = worker.destroy_workspace(back.id).await.expect("destroyed");
    let again = again.expect("there was something to save");
    assert_eq!(again.store, saved.store);
    assert_ne!(again.reference, saved.reference);
    let back = get(&worker, &bench.edits("c")).await;
    let tree = worker.tree_of(&back).expect("a path");
    assert_eq!(text(&tree, "read.me").as_deref(), Some("three\n"));
    assert_eq!(text(&tree, "a b").as_deref(), Some("new\n"));
    let pushed = worker.push(back.id, None).await.expect("pushed");
    assert_eq!(pushed.branch, branch("agent/edits-c"));
    worker.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_undone_after_coming_back_does_not_come_back_again() {
    let bench = Bench::new().await;
    let worker = bench.worker_with(alone).await;
    let asked = bench.task("t");
    let made = edited(&worker, &asked).await;
    worker.destroy_workspace(made.id).await.expect("destroyed");
    let back = get(&worker, &asked).await;
    run(&worker, back.id, "echo one > read.me")
        .await
        .expect("it runs");
    let saved = worker.destroy_workspace(back.id).await.expect("destroyed");
    assert_eq!(saved, None);
    let back = get(&worker, &asked).await;
    assert!(!back.dirty);
    let tree = worker.tree_of(&back).expect("a path");
    assert_eq!(text(&tree, "read.me").as_deref(), Some("one\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_does_it_where_a_crash_had_left_it_saved() {
    let bench = Bench::new().await;
    let worker = bench.worker_with(alone).await;
    let asked = bench.task("t");
    let made = edited(&worker, &asked).await;
    let saved = worker.destroy_workspace(made.id).await.expect("destroyed");
    let saved = saved.expect("there was something to save");
    let copy = bench.folder.path().join("copy");
    copy_folder(&saved.store, &copy);
    let back = get(&worker, &asked).await;
    // As a crash leaves it that comes before what was saved is dropped.
    copy_folder(&copy, &saved.store);
    let tree = worker.tree_of(&back).expect("a path");
    let note = tree.with_file_name("git").join("made-of");
    std::fs::write(note, format!("{}\n", made.id)).expect("a file");
    run(&worker, back.id, "echo one > read.me")
        .await
        .expect("it runs");
    let none = worker.destroy_workspace(back.id).await.expect("destroyed");
    assert_eq!(none, None);
    assert!(!saved.store.exists());
    assert!(!get(&worker, &asked).await.dirty);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_reads_what_was_saved_in_their_runtime() {
    let bench = Bench::new().await;
    let worker = bench.worker_with(alone).await;
    let (_, saved) = evicted(&bench, &worker).await;
    let other = WorkspaceRequest {
        user_id: UserId::parse("other").expect("an id"),
        ..bench.edits("other")
    };
    let other = get(&worker, &other).await;
    let tree = worker.tree_of(&other).expect("a path");
    assert_eq!(text(&tree, "read.me").as_deref(), Some("one\n"));
    let attempts = [
        format!("git cat-file -e {}", saved.commit),
        format!("git --git-dir={} log", saved.store.display()),
        format!("ls {}", saved.store.display()),
    ];
    for attempt in attempts {
        let done = run(&worker, other.id, &attempt).await.expect("it runs");
        assert_ne!(done.exit_code, 0, "{attempt}: {done:?}");
    }
    let done = run(&worker, other.id, "git cat-file -e HEAD").await;
    assert_eq!(done.expect("it runs").exit_code, 0, "git works there");
    let hidden = git(&bench.cache_dir(), &["for-each-ref", "refs/sandbox/"]);
    assert_eq!(hidden, "");
    worker.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_of_which_no_tree_can_be_made_are_named_and_stay() {
    let bench = Bench::new().await;
    let worker = bench.worker_with(alone).await;
    let (_, saved) = evicted(&bench, &worker).await;
    // Another branch's tree is never answered, and the edits aren't passed over.
    let mut asked = bench.edits("c");
    asked.branch_name = Some(branch("other"));
    asked.create_branch = true;
    let refused = worker.get_or_create_workspace(&asked).await;
    let refused = refused.expect_err("it was on another branch");
    assert!(
        matches!(
            refused,
            ServiceError::Workspace(WorkspaceError::SavedEditsUnusable { .. })
        ),
        "{refused:?}"
    );
    let way = format!("git fetch {} {}", saved.store.display(), saved.reference);
    let told = refused.to_string();
    assert!(
        told.contains(&way) && told.contains("agent/edits-c"),
        "{told}"
    );
    assert!(worker.all_workspaces().await.expect("listed").is_empty());
    // The way that was told.
    let elsewhere = bench.folder.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    git(&elsewhere, &["init", "-q"]);
    let store = saved.store.display().to_string();
    git(&elsewhere, &["fetch", "-q", &store, &saved.reference]);
    assert_eq!(git(&elsewhere, &["show", "FETCH_HEAD:read.me"]), "two\n");
    // Without its ref a store is damaged, which isn't passed over either.
    git(&saved.store, &["update-ref", "-d", &saved.reference]);
    let refused = worker.get_or_create_workspace(&bench.edits("c")).await;
    let told = refused.expect_err("it is damaged").to_string();
    assert!(told.contains(&store), "{told}");
    assert!(worker.all_workspaces().await.expect("listed").is_empty());
    std::fs::remove_dir_all(&saved.store).expect("removed");
    let anew = get(&worker, &bench.edits("c")).await;
    assert!(!anew.dirty);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_is_lost_with_changes_is_told_until_it_is_given_up() {
    let bench = Bench::new().await;
    let worker = bench.worker_with(alone).await;
    let asked = bench.edits("c");
    let made = edited(&worker, &asked).await;
    worker.close().await.expect("closed");
    let tree = worker.tree_of(&made).expect("a path");
    let place = tree.parent().expect("a folder").to_owned();
    std::fs::remove_dir_all(&place).expect("removed");
    let report = worker.reconcile().await.expect("reconciled");
    assert_eq!(report.missing, 1, "{report:?}");
    for _ in 0..2 {
        let refused = worker.get_or_create_workspace(&asked).await;
        let refused = refused.expect_err("edits are lost");
        assert!(
            matches!(
                refused,
                ServiceError::Workspace(WorkspaceError::TreeLost { .. })
            ),
            "{refused:?}"
        );
        let told = refused.to_string();
        let way = format!("unstall-sandbox evict {}", made.id);
        let path = tree.display().to_string();
        assert!(told.contains(&path) && told.contains(&way), "{told}");
    }
    assert_eq!(bench.row(made.id).await.state, WorkspaceState::Missing);
    worker.destroy_workspace(made.id).await.expect("given up");
    let anew = get(&worker, &asked).await;
    assert_ne!(anew.id, made.id);
    let tree = worker.tree_of(&anew).expect("a path");
    assert_eq!(text(&tree, "read.me").as_deref(), Some("one\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_tree_of_which_edits_are_saved_is_made_of_these() {
    let bench = Bench::new().await;
    let worker = bench.worker_with(alone).await;
    let (_, saved) = evicted(&bench, &worker).await;
    // As a crash leaves it that comes before what was saved is dropped.
    let copy = bench.folder.path().join("copy");
    copy_folder(&saved.store, &copy);
    let back = get(&worker, &bench.edits("c")).await;
    assert!(!saved.store.exists());
    copy_folder(&copy, &saved.store);
    let tree = worker.tree_of(&back).expect("a path");
    std::fs::remove_dir_all(tree.parent().expect("a folder")).expect("removed");
    let report = worker.reconcile().await.expect("reconciled");
    assert_eq!(report.missing, 1, "{report:?}");
    let again = get(&worker, &bench.edits("c")).await;
    assert_eq!((again.id, again.dirty), (back.id, true));
    assert_eq!(text(&tree, "read.me").as_deref(), Some("two\n"));
    assert!(!saved.store.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_saved_of_one_repository_is_not_laid_over_another() {
    let bench = Bench::new().await;
    let worker = bench.worker_with(alone).await;
    let (_, saved) = evicted(&bench, &worker).await;
    let other = bench.folder.path().join("other");
    std::fs::create_dir(&other).expect("a folder");
    git(&other, &["init", "-q", "-b", "main"]);
    git(&other, &["commit", "-q", "--allow-empty", "-m", "other"]);
    let mut asked = bench.edits("c");
    let url = format!("file://{}", other.display());
    asked.repo_url = Some(RepoUrl::parse(&url).expect("a URL"));
    let made = get(&worker, &asked).await;
    assert!(!made.dirty);
    assert!(saved.store.exists(), "it waits for its owner");
    let live = bench.store.find_workspace(made.id).await;
    assert!(live.expect("the store answers").is_some());
}

/// Copies a folder by a program, links and all.
fn copy_folder(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([from, to])
        .status();
    assert!(copied.expect("cp runs").success());
}
