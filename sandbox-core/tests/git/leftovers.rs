//! What a worker that was killed leaves behind is found, and hinders nobody.

use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::time::timeout;
use unstall_sandbox_core::domain::LocalPath;
use unstall_sandbox_core::ports::caches::GitError;
use unstall_sandbox_core::ports::workspaces::{FoundKind, WorkspaceProvider};

use crate::world::{World, base};

#[tokio::test]
async fn all_that_lies_on_disk_is_listed_as_what_it_is() {
    let world = World::cached().await;
    let tree = world.tree("mine").await;
    let prepared = world.new_prepared_path();
    world
        .git
        .prepare(&prepared, &base("trunk"))
        .await
        .expect("a tree");
    let gone = world.new_path();
    let name = gone.as_str().rsplit('/').next().expect("a name");
    let left = gone
        .under(world.git.root())
        .with_file_name(format!(".new-{name}.0123456789abcdef"));
    std::fs::create_dir_all(left.join("tree/deep")).expect("folders");
    let mut found = WorkspaceProvider::list(&world.git).await.expect("a list");
    found.sort_by_key(|found| found.kind as u8);
    assert_eq!(found.len(), 3);
    assert_eq!(
        (found[0].kind, &found[0].path),
        (FoundKind::Workspace, &tree.path)
    );
    assert_eq!(
        (found[1].kind, &found[1].path),
        (FoundKind::Prepared, &prepared)
    );
    assert_eq!(found[2].kind, FoundKind::Leftover);
    assert!(found.iter().all(|found| found.age_s < 600));
    world.remove(&found[2].path).await;
    world.remove(&prepared).await;
    let found = WorkspaceProvider::list(&world.git).await.expect("a list");
    assert_eq!(found.len(), 1);
}

#[tokio::test]
async fn what_was_half_made_is_made_again_or_removed_by_its_own_name() {
    let world = World::cached().await;
    for attempt in 0..2 {
        let path = world.new_path();
        let name = path.as_str().rsplit('/').next().expect("a name");
        for prefix in [".new-", ".old-"] {
            let left = format!("{prefix}{name}.0123456789abcdef");
            let left = path.under(world.git.root()).with_file_name(left);
            std::fs::create_dir_all(left.join("tree")).expect("folders");
        }
        if attempt == 0 {
            world.create_at(&path, "mine").await.expect("a tree");
        } else {
            world.remove(&path).await;
        }
    }
    let found = WorkspaceProvider::list(&world.git).await.expect("a list");
    assert_eq!(found.len(), 1, "{found:?}");
}

#[tokio::test]
async fn half_a_clone_is_no_cache_and_hinders_no_other() {
    let world = World::new().await;
    let cache = world.cache_dir();
    let left = cache.with_file_name(".new-.bare.0123456789abcdef");
    std::fs::create_dir_all(left.join("objects")).expect("folders");
    world.ensure().await.expect("a cache");
    assert!(!left.exists());
}

#[tokio::test]
async fn what_is_left_of_saving_is_removed_by_its_path_and_what_was_saved_is_not() {
    let world = World::cached().await;
    let tree = world.tree("mine").await;
    tree.write("x", "x\n");
    let saved = world.save(&tree).await.expect("saved");
    world.remove(&tree.path).await;
    let left = saved.store.with_file_name(".new-x.0123456789abcdef");
    std::fs::create_dir_all(left.join("objects")).expect("folders");
    let found = WorkspaceProvider::list(&world.git).await.expect("a list");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].kind, FoundKind::Leftover);
    assert_eq!(found[0].path.under(world.git.root()), left);
    world.remove(&found[0].path).await;
    assert!(!left.exists());
    let whole = saved.store.strip_prefix(world.git.root()).expect("below");
    let whole = LocalPath::parse(&whole.to_string_lossy()).expect("a path");
    let refused = WorkspaceProvider::remove(&world.git, &whole).await;
    assert!(
        matches!(refused, Err(GitError::InvalidPath { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_lock_whose_git_was_killed_is_taken_over() {
    let world = World::cached().await;
    let tree = world.tree("mine").await;
    tree.write("x", "x\n");
    std::fs::write(tree.git_dir.join("index.lock"), "").expect("a file");
    // Looking needs no lock.
    assert!(
        world
            .git
            .status(&tree.path)
            .await
            .expect("a status")
            .is_dirty()
    );
    world.save(&tree).await.expect("saved");
    std::fs::write(tree.git_dir.join("index.lock"), "").expect("a file");
    world.commit(&tree, "x").await.expect("a commit");
    assert!(!tree.git_dir.join("index.lock").exists());
}

#[tokio::test]
async fn locks_on_references_that_nobody_holds_are_removed() {
    let world = World::cached().await;
    let tree = world.tree("mine").await;
    let locks = [
        "HEAD.lock",
        "refs/heads/mine.lock",
        "refs/sandbox/handed-over.lock",
    ];
    for round in ["commit", "save"] {
        std::fs::create_dir_all(tree.git_dir.join("refs/sandbox")).expect("a folder");
        for lock in locks {
            std::fs::write(tree.git_dir.join(lock), "").expect("a file");
        }
        tree.write(round, "x\n");
        match round {
            "commit" => drop(world.commit(&tree, "x").await.expect("a commit")),
            _ => drop(world.save(&tree).await.expect("saved")),
        }
        for lock in locks {
            assert!(!tree.git_dir.join(lock).exists(), "{round}: {lock}");
        }
    }
}

#[tokio::test]
async fn a_lock_of_a_git_that_runs_is_waited_for_and_kept() {
    let world = World::cached().await;
    let tree = world.tree("mine").await;
    tree.write("x", "x\n");
    let lock = tree.git_dir.join("index.lock");
    std::fs::write(&lock, "").expect("a file");
    let git = || {
        let mut command = Command::new("git");
        command
            .args(["cat-file", "--batch"])
            .env("GIT_DIR", &tree.git_dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        command.spawn().expect("git")
    };
    let mut running = git();
    let refused = world.commit(&tree, "x").await;
    assert!(
        matches!(refused, Err(GitError::Locked { .. })),
        "{refused:?}"
    );
    assert!(lock.exists());
    running.kill().expect("it runs");
    running.wait().expect("it ends");
    world.commit(&tree, "x").await.expect("a commit");
}

#[tokio::test]
async fn work_that_is_dropped_half_way_leaves_nothing_that_hinders() {
    let world = World::cached().await;
    let files: Vec<(String, String)> = (0..300)
        .map(|number| {
            (
                format!("many/{number}.txt"),
                number.to_string().repeat(1000),
            )
        })
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    world.upstream("trunk", &files);
    world.fetch().await.expect("fetched");
    let tree = world.tree("mine").await;
    for wait_ms in [1, 3, 5, 8, 12, 20, 35, 60] {
        let wait = Duration::from_millis(wait_ms);
        let path = world.new_path();
        let _dropped = timeout(wait, world.create_at(&path, "other")).await;
        world.remove(&path).await;
        tree.write(format!("{wait_ms}.txt"), "edit\n");
        let _dropped = timeout(wait, world.commit(&tree, "edit")).await;
        let _dropped = timeout(wait, world.save(&tree)).await;
    }
    // What is dropped may still be on its way for a moment; then nothing of it is left.
    tokio::time::sleep(Duration::from_millis(500)).await;
    tree.write("last.txt", "last\n");
    world.commit(&tree, "last").await.expect("a commit");
    let saved = world.save(&tree).await.expect("saved");
    for name in ["1.txt", "20.txt", "last.txt"] {
        tree.raw(&["cat-file", "-e", &format!("{}:{name}", saved.commit)]);
    }
    tree.raw(&["fsck", "--connectivity-only"]);
}
