//! What goes, when, in which order, and what is saved of it.

use jiff::{SignedDuration, Timestamp};
use unstall_sandbox_core::domain::eviction::Target;
use unstall_sandbox_core::domain::{WorkspaceError, WorkspaceState};
use unstall_sandbox_core::ports::store::{Precondition, SandboxStore};
use unstall_sandbox_core::service::{EvictionOutcome, EvictionReport, ServiceError, Settings};

use crate::bench::{Bench, edited, in_saved, run};

fn in_days(days: i64) -> Timestamp {
    Timestamp::now() + SignedDuration::from_hours(24 * days)
}

fn outcome(report: &EvictionReport, target: Target) -> EvictionOutcome {
    let found = report
        .decisions
        .iter()
        .find(|(decision, _)| decision.target == target);
    found.expect("it was decided on").1.clone()
}

/// Any use is above the share.
fn always_full(settings: &mut Settings) {
    settings.limits.pressure_percent = 0;
    settings.limits.severe_pressure_percent = 0;
}

#[tokio::test(flavor = "multi_thread")]
async fn clean_trees_go_by_age_and_pinned_and_dirty_ones_stay() {
    let bench = Bench::new().await;
    let worker = bench
        .worker_with(|settings| settings.limits.volume_bytes = 0)
        .await;
    let clean = worker
        .get_or_create_workspace(&bench.edits("clean"))
        .await
        .expect("made");
    let pinned = worker
        .get_or_create_workspace(&bench.edits("pinned"))
        .await
        .expect("made");
    let dirty = worker
        .get_or_create_workspace(&bench.task("dirty"))
        .await
        .expect("made");
    worker
        .pin_workspace(pinned.id, Some(in_days(100)))
        .await
        .expect("pinned");
    run(&worker, dirty.id, "echo x > x").await.expect("it runs");
    worker.close().await.expect("closed");

    let dry = worker.evict(in_days(20), true).await.expect("a pass");
    assert_eq!(
        outcome(&dry, Target::Workspace(clean.id)),
        EvictionOutcome::WouldGo
    );
    assert_eq!(worker.all_workspaces().await.expect("listed").len(), 3);
    let report = worker.evict(in_days(20), false).await.expect("a pass");
    let gone = EvictionOutcome::Gone { saved: None };
    assert_eq!(outcome(&report, Target::Workspace(clean.id)), gone);
    assert_eq!(
        outcome(&report, Target::Workspace(pinned.id)),
        EvictionOutcome::Kept
    );
    assert_eq!(
        outcome(&report, Target::Workspace(dirty.id)),
        EvictionOutcome::Kept
    );
    let decided = |report: &EvictionReport| -> Vec<String> {
        report
            .decisions
            .iter()
            .map(|(decision, _)| decision.reason.clone())
            .collect()
    };
    assert_eq!(
        decided(&dry),
        decided(&report),
        "a dry run decides the same"
    );
    assert!(!worker.tree_of(&clean).expect("a path").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn dirty_trees_go_under_pressure_and_their_changes_are_saved() {
    let bench = Bench::new().await;
    let worker = bench.worker_with(always_full).await;
    let made = worker
        .get_or_create_workspace(&bench.edits("c"))
        .await
        .expect("made");
    run(&worker, made.id, "echo two > read.me; echo new > 'a b'")
        .await
        .expect("it runs");
    worker.close().await.expect("closed");
    let report = worker.evict(in_days(1), false).await.expect("a pass");
    let EvictionOutcome::Gone { saved: Some(saved) } = outcome(&report, Target::Workspace(made.id))
    else {
        panic!("it was saved and went: {report:?}");
    };
    assert_eq!(in_saved(&saved, "read.me"), "two\n");
    assert_eq!(in_saved(&saved, "a b"), "new\n");
    let again = worker
        .get_or_create_workspace(&bench.edits("c"))
        .await
        .expect("made anew");
    assert_ne!(again.id, made.id);
    let tree = worker.tree_of(&again).expect("a path");
    let text = std::fs::read_to_string(tree.join("a b")).expect("it is there again");
    assert_eq!(text, "new\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn under_pressure_clean_trees_go_and_dirty_ones_stay_while_that_is_enough() {
    let bench = Bench::new().await;
    let worker = bench
        .worker_with(|settings| settings.limits.volume_bytes = 1_000_000_000)
        .await;
    let asked = [bench.task("dirty"), bench.edits("clean")];
    let mut ids = Vec::new();
    for request in &asked {
        let made = worker.get_or_create_workspace(request).await.expect("made");
        ids.push(made.id);
    }
    run(&worker, ids[0], "echo two > read.me")
        .await
        .expect("it runs");
    worker.close().await.expect("closed");
    // As if each took half of the volume, of which the cache takes next to nothing.
    for id in &ids {
        let mut row = bench.row(*id).await;
        row.size_bytes = Some(500_000_000);
        let when = Precondition {
            version: row.version,
            token: row.token,
            unused_since: None,
        };
        let written = bench.store.update_workspace(&row, when).await;
        written.expect("written");
    }
    let report = worker.evict(in_days(1), false).await.expect("a pass");
    assert_eq!(
        outcome(&report, Target::Workspace(ids[1])),
        EvictionOutcome::Gone { saved: None }
    );
    assert_eq!(
        outcome(&report, Target::Workspace(ids[0])),
        EvictionOutcome::Kept
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_saved_stays_and_serves_whoever_comes_back() {
    let bench = Bench::new().await;
    let worker = bench.worker_with(always_full).await;
    let made = worker
        .get_or_create_workspace(&bench.edits("c"))
        .await
        .expect("made");
    let tree = worker.tree_of(&made).expect("a path");
    let nested = tree.join("nested");
    std::fs::create_dir(&nested).expect("a folder");
    crate::bench::git(&nested, &["init", "-q"]);
    std::fs::write(nested.join("x"), "x").expect("a file");
    crate::bench::git(&nested, &["add", "x"]);
    crate::bench::git(&nested, &["commit", "-q", "-m", "x"]);
    run(&worker, made.id, "echo two > read.me")
        .await
        .expect("it runs");
    worker.close().await.expect("closed");
    let report = worker.evict(in_days(1), false).await.expect("a pass");
    let outcome = outcome(&report, Target::Workspace(made.id));
    let EvictionOutcome::Failed(reason) = outcome else {
        panic!("it can't be saved: {outcome:?}");
    };
    assert!(reason.contains("nested"), "{reason}");
    assert_eq!(
        bench.row(made.id).await.state,
        WorkspaceState::EvictionBlocked
    );
    // Whoever names it is told the same.
    let refused = worker.destroy_workspace(made.id).await;
    let refused = refused.expect_err("it can't be saved");
    assert!(
        matches!(
            refused,
            ServiceError::Workspace(WorkspaceError::EvictionBlocked { .. })
        ),
        "{refused:?}"
    );
    assert!(refused.to_string().contains(&reason), "{refused}");
    let back = worker
        .get_or_create_workspace(&bench.edits("c"))
        .await
        .expect("served");
    assert_eq!((back.id, back.state), (made.id, WorkspaceState::Ready));
    let text = std::fs::read_to_string(tree.join("read.me")).expect("it is there");
    assert_eq!(text, "two\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_is_lost_with_changes_is_not_let_go_without_a_word() {
    let bench = Bench::new().await;
    let worker = bench.worker_with(always_full).await;
    let made = edited(&worker, &bench.edits("c")).await;
    worker.close().await.expect("closed");
    let tree = worker.tree_of(&made).expect("a path");
    std::fs::remove_dir_all(tree.parent().expect("a folder")).expect("removed");
    let report = worker.evict(in_days(1), false).await.expect("a pass");
    let outcome = outcome(&report, Target::Workspace(made.id));
    let EvictionOutcome::Failed(reason) = outcome else {
        panic!("nobody gave it up: {outcome:?}");
    };
    assert!(reason.contains("uncommitted changes is gone"), "{reason}");
    assert_eq!(bench.row(made.id).await.state, WorkspaceState::Ready);
    // Somebody who names it does.
    worker.destroy_workspace(made.id).await.expect("given up");
    assert!(worker.all_workspaces().await.expect("listed").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn runtimes_go_before_trees_and_caches_last() {
    let bench = Bench::new().await;
    // However full the disk of this machine is.
    let worker = bench
        .worker_with(|settings| settings.limits.volume_bytes = 0)
        .await;
    let made = worker
        .get_or_create_workspace(&bench.edits("c"))
        .await
        .expect("made");
    let runtime = worker.get_or_create_runtime(made.id).await.expect("made");
    let hours = |hours| Timestamp::now() + SignedDuration::from_hours(hours);
    worker.sweep(hours(1)).await.expect("a sweep");
    let row = bench
        .store
        .find_runtime(runtime.id)
        .await
        .expect("asked")
        .expect("live");
    assert_eq!(row.state.as_str(), "stopped");
    worker.sweep(hours(8)).await.expect("a sweep");
    assert!(worker.all_runtimes().await.expect("listed").is_empty());
    let size_bytes = bench.row(made.id).await.size_bytes;
    assert!(size_bytes.is_some(), "it was measured");
    let report = worker.evict(in_days(40), false).await.expect("a pass");
    assert_eq!(report.decisions.len(), 2);
    assert!(worker.all_workspaces().await.expect("listed").is_empty());
    assert_eq!(
        worker.all_caches().await.expect("listed").len(),
        1,
        "it was in use when it was decided"
    );
    worker.evict(in_days(40), false).await.expect("a pass");
    assert!(worker.all_caches().await.expect("listed").is_empty());
    let made = worker.get_or_create_workspace(&bench.edits("c")).await;
    made.expect("cloned anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_used_since_it_was_decided_stays() {
    let bench = Bench::new().await;
    let worker = bench.worker().await;
    let made = worker
        .get_or_create_workspace(&bench.edits("c"))
        .await
        .expect("made");
    // Somebody works in it: the pass finds its lock taken, and leaves it.
    let name = unstall_sandbox_core::ports::locks::LockName::workspace_command(made.id);
    let class = unstall_sandbox_core::ports::locks::LockClass::Read;
    let wait = std::time::Duration::from_secs(1);
    let lease = worker
        .adapters()
        .locks
        .acquire(&name, class, wait)
        .await
        .expect("free");
    let report = worker.evict(in_days(20), false).await.expect("a pass");
    let found = outcome(&report, Target::Workspace(made.id));
    assert!(matches!(found, EvictionOutcome::Skipped(_)), "{found:?}");
    assert_eq!(bench.row(made.id).await.state, WorkspaceState::Ready);
    drop(lease);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_in_which_edits_are_saved_never_goes() {
    let bench = Bench::new().await;
    let worker = bench.worker_with(always_full).await;
    let asked = bench.edits("c");
    let made = worker.get_or_create_workspace(&asked).await.expect("made");
    let written = run(&worker, made.id, "echo two > read.me").await;
    written.expect("it runs");
    let saved = worker.destroy_workspace(made.id).await.expect("destroyed");
    let saved = saved.expect("there was something to save");
    let cache = worker.all_caches().await.expect("listed").remove(0);
    let report = worker.evict(in_days(100), false).await.expect("a pass");
    let found = outcome(&report, Target::Cache(cache.id));
    assert!(matches!(found, EvictionOutcome::Skipped(_)), "{found:?}");
    assert_eq!(in_saved(&saved, "read.me"), "two\n");
}
