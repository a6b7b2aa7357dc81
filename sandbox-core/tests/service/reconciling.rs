//! Records against the disk, after somebody else had a hand in it.

use unstall_sandbox_core::domain::{WorkspaceError, WorkspaceId, WorkspaceMode, WorkspaceState};
use unstall_sandbox_core::ports::workspaces::{BranchRule, TreeRequest};
use unstall_sandbox_core::service::Settings;

use crate::bench::{Bench, edited, in_saved, run};

fn alone(settings: &mut Settings) {
    settings.is_sole_worker = true;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_is_away_is_missing_until_it_is_back_or_made_again() {
    let bench = Bench::new().await;
    let worker = bench.worker_with(alone).await;
    let made = worker
        .get_or_create_workspace(&bench.edits("c"))
        .await
        .expect("made");
    let tree = worker.tree_of(&made).expect("a path");
    let place = tree.parent().expect("a folder").to_owned();
    let away = bench.folder.path().join("away");
    std::fs::rename(&place, &away).expect("moved");
    let report = worker.reconcile().await.expect("reconciled");
    assert_eq!(report.missing, 1, "{report:?}");
    assert_eq!(bench.row(made.id).await.state, WorkspaceState::Missing);
    let refused = run(&worker, made.id, "true").await;
    assert!(refused.is_err());
    std::fs::rename(&away, &place).expect("moved back");
    let report = worker.reconcile().await.expect("reconciled");
    assert_eq!(report.found_again, 1, "{report:?}");
    std::fs::rename(&place, &away).expect("moved");
    worker.reconcile().await.expect("reconciled");
    let again = worker
        .get_or_create_workspace(&bench.edits("c"))
        .await
        .expect("made again");
    assert_eq!((again.id, again.state), (made.id, WorkspaceState::Ready));
    assert!(tree.join("read.me").exists());
    assert!(worker.reconcile().await.expect("reconciled").is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn trees_without_a_record_go_unless_they_hold_changes() {
    let bench = Bench::new().await;
    let worker = bench.worker_with(alone).await;
    let made = worker
        .get_or_create_workspace(&bench.edits("c"))
        .await
        .expect("made");
    let cache = worker.all_caches().await.expect("listed").remove(0);
    let trees = &worker.adapters().trees;
    let mut orphans = Vec::new();
    for _ in 0..2 {
        let path = trees.path_of(
            &cache.local_path,
            WorkspaceMode::Edit,
            WorkspaceId::generate(),
        );
        let request = TreeRequest {
            path: &path,
            base: &made.base_ref,
            branch: &BranchRule::Detached,
        };
        trees.create(request).await.expect("made");
        orphans.push(path);
    }
    let tree = |index: usize| trees.locate(&orphans[index]).expect("a path").tree;
    std::fs::write(tree(0).join("edit"), "mine").expect("a file");
    let report = worker.reconcile().await.expect("reconciled");
    assert_eq!(report.removed_from_disk, 1, "{report:?}");
    assert_eq!(report.kept_on_disk, [orphans[0].to_string()]);
    assert!(tree(0).exists() && !tree(1).exists());
    assert_eq!(bench.row(made.id).await.state, WorkspaceState::Ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn destroying_saves_what_would_be_lost_and_twice_is_once() {
    let bench = Bench::new().await;
    let worker = bench.worker_with(alone).await;
    let made = edited(&worker, &bench.edits("c")).await;
    let saved = worker.destroy_workspace(made.id).await.expect("destroyed");
    let saved = saved.expect("there was something to save");
    assert_eq!(in_saved(&saved, "read.me"), "two\n");
    assert_eq!(
        worker
            .destroy_workspace(made.id)
            .await
            .expect("gone already"),
        None
    );
    let refused = run(&worker, made.id, "true").await;
    let text = refused.expect_err("it is gone").to_string();
    assert!(text.contains("doesn't exist"), "{text}");
    assert!(!matches!(
        worker.find_ready(made.id).await,
        Err(unstall_sandbox_core::service::ServiceError::Workspace(
            WorkspaceError::Dirty(_)
        ))
    ));
    assert!(worker.all_runtimes().await.expect("listed").is_empty());
    assert!(worker.reconcile().await.expect("reconciled").is_clean());
}
