//! Many at once, on one cache.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::join_all;
use unstall_sandbox_core::ports::caches::RepoCacheProvider;
use unstall_sandbox_core::ports::workspaces::{TreeRequest, WorkspaceProvider};

use crate::world::{World, base, on, raw_git};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_trees_at_once_while_the_cache_is_fetched() {
    let world = Arc::new(World::cached().await);
    let tasks = (0..30).map(|number| {
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            let tree = world.tree(&format!("agent/edits-{number}")).await;
            tree.write("mine.txt", &number.to_string());
            let commit = world.commit(&tree, "mine").await.expect("a commit");
            tree.write("more.txt", &number.to_string());
            let saved = world.save(&tree).await.expect("saved");
            world
                .git
                .push(&tree.path, &world.url, None)
                .await
                .expect("pushed");
            world.remove(&tree.path).await;
            (commit, saved)
        })
    });
    let tasks = join_all(tasks.collect::<Vec<_>>());
    // As one worker may, beside whatever others do: a fetch needs the cache's lock, trees don't.
    let fetches = async {
        for number in 0..3 {
            world.upstream("trunk", &[("README", &number.to_string())]);
            world.fetch().await.expect("fetched");
        }
    };
    let (done, ()) = tokio::join!(tasks, fetches);
    let mut commits = HashSet::new();
    for outcome in done {
        let (commit, saved) = outcome.expect("no panic");
        commits.insert(commit);
        let object = saved.commit.as_str();
        raw_git(&saved.store, &["cat-file", "-e", object]);
        raw_git(&saved.store, &["fsck", "--connectivity-only"]);
    }
    assert_eq!(commits.len(), 30);
    world.fetch().await.expect("fetched");
    for commit in commits {
        world
            .git
            .resolve(&world.cache, &base(&commit))
            .await
            .expect("the cache has it");
    }
    assert!(
        WorkspaceProvider::list(&world.git)
            .await
            .expect("a list")
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fetches_at_once_do_not_break_the_cache() {
    let world = Arc::new(World::cached().await);
    for round in 0..3 {
        for branch in ["one", "two", "three"] {
            world.upstream(branch, &[("README", &round.to_string())]);
        }
        // Two workers at once, although one should hold the lock: an expired lease does that.
        let (first, second) = tokio::join!(world.fetch(), world.fetch());
        assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
        for branch in ["one", "two", "three"] {
            let commit = world
                .git
                .resolve(&world.cache, &base(branch))
                .await
                .expect("a commit");
            assert_eq!(commit.as_str(), world.at_origin(branch));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_want_few_prepared_trees_each_gets_another_or_none() {
    let world = Arc::new(World::cached().await);
    let mut prepared = Vec::new();
    for _ in 0..5 {
        let path = world.new_prepared_path();
        world
            .git
            .prepare(&path, &base("trunk"))
            .await
            .expect("a tree");
        prepared.push(path);
    }
    let prepared = Arc::new(prepared);
    let tasks = (0..40_usize).map(|number| {
        let (world, prepared) = (Arc::clone(&world), Arc::clone(&prepared));
        tokio::spawn(async move {
            let (path, base, branch) = (world.new_path(), base("trunk"), on("mine"));
            let request = TreeRequest {
                path: &path,
                base: &base,
                branch: &branch,
            };
            world
                .git
                .adopt(&prepared[number % 5], request)
                .await
                .is_ok()
        })
    });
    let outcomes = join_all(tasks.collect::<Vec<_>>()).await;
    let adopted = outcomes
        .into_iter()
        .filter(|outcome| matches!(outcome, Ok(true)))
        .count();
    assert_eq!(adopted, 5);
    let found = WorkspaceProvider::list(&world.git).await.expect("a list");
    assert_eq!(found.len(), 5);
}
