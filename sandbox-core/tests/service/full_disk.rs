//! A full disk met by each use case that writes: room is made by letting go what is idle, and the work is
//! done all the same.

use std::time::Duration;

use tempfile::TempDir;
use unstall_sandbox_core::domain::{Workspace, WorkspaceState};
use unstall_sandbox_core::ports::store::SandboxStore;
use unstall_sandbox_core::ports::workspaces::CommitIdentity;
use unstall_sandbox_core::service::{
    CacheRequest, CommitOrder, RESERVE_BYTES, SandboxService, Settings,
};

use crate::bench::{Bench, git, run};
use crate::small_disk::SmallDisk;

/// Whatever isn't used at this moment may go, and each fetch is done.
fn hasty(settings: &mut Settings) {
    settings.limits.pressure_idle_ms = 1;
    settings.cache_fresh = Duration::ZERO;
}

/// A workspace with changes that takes much of the disk, and that nobody uses any more.
async fn idle_and_large(worker: &SandboxService, bench: &Bench, task: &str) -> Workspace {
    let made = worker.get_or_create_workspace(&bench.task(task)).await;
    let made = made.expect("made");
    let written = run(worker, made.id, "head -c 24000000 /dev/zero > big").await;
    assert_eq!(written.expect("it runs").exit_code, 0);
    worker.destroy_runtime(made.id).await.expect("destroyed");
    tokio::time::sleep(Duration::from_millis(20)).await;
    made
}

/// It went, and what it held is saved.
async fn assert_saved(bench: &Bench, gone: &Workspace) {
    let found = bench.store.find_workspace(gone.id).await;
    assert!(found.expect("the store answers").is_none(), "it went");
    let big = bench.in_saved_of(gone.id, "big");
    assert_eq!(big.len(), 24_000_000);
}

/// A bench on a disk of its own, which is dropped after it.
async fn bench_on_small_disk() -> Option<(Bench, SmallDisk, TempDir)> {
    let place = TempDir::new().expect("a folder");
    let disk = SmallDisk::mount(place.path(), 96)?;
    let folder = TempDir::new_in(place.path()).expect("a folder");
    Some((Bench::within(folder).await, disk, place))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_finds_no_room_is_made_once_there_is_some() {
    let Some((bench, disk, _place)) = bench_on_small_disk().await else {
        return;
    };
    let worker = bench.worker_with(hasty).await;
    worker.reconcile().await.expect("reconciled");
    let idle = idle_and_large(&worker, &bench, "idle").await;
    disk.fill();
    let made = worker.get_or_create_workspace(&bench.edits("new")).await;
    assert_eq!(made.expect("made").state, WorkspaceState::Ready);
    assert_saved(&bench, &idle).await;
    let room = worker.disk_room().await.expect("measured");
    assert_eq!(room.kept_bytes, RESERVE_BYTES, "it is kept back again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_a_command_and_a_fetch_make_room_and_spare_their_own_workspace() {
    let Some((bench, disk, _place)) = bench_on_small_disk().await else {
        return;
    };
    let worker = bench.worker_with(hasty).await;
    worker.reconcile().await.expect("reconciled");
    let request = bench.edits("mine");
    let mine = worker.get_or_create_workspace(&request).await;
    let mine = mine.expect("made");
    run(&worker, mine.id, "echo two > read.me")
        .await
        .expect("it runs");
    worker.destroy_runtime(mine.id).await.expect("destroyed");

    let idle = idle_and_large(&worker, &bench, "first").await;
    disk.fill();
    let order = CommitOrder {
        message: "two".to_owned(),
        paths: Vec::new(),
        identity: CommitIdentity::new("Ada", "ada@example.org").expect("an identity"),
    };
    worker.commit(mine.id, &order).await.expect("committed");
    assert_saved(&bench, &idle).await;

    disk.clear();
    let idle = idle_and_large(&worker, &bench, "second").await;
    bench.push("more", "more\n");
    disk.fill();
    let wanted = CacheRequest::of(&request).expect("a request");
    worker.ensure_repo_cache(&wanted).await.expect("fetched");
    assert_saved(&bench, &idle).await;
    let fetched = git(&bench.cache_dir(), &["show", "main:more"]);
    assert_eq!(fetched, "more\n");

    disk.clear();
    idle_and_large(&worker, &bench, "third").await;
    disk.fill();
    let done = run(&worker, mine.id, "cat read.me").await.expect("it runs");
    assert_eq!(done.stdout.text(), "two\n");
    worker.close().await.expect("closed");
}
