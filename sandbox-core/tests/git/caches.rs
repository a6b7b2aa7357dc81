//! Caches follow their origin, whatever it does, and never drop what a tree needs.

use std::time::Duration;

use unstall_sandbox_core::blocking_pool::BlockingPool;
use unstall_sandbox_core::domain::{BaseRef, LocalPath, RepoUrl};
use unstall_sandbox_core::git::{GitTimes, LocalGit};
use unstall_sandbox_core::ports::caches::{CacheSource, GitError, RepoCacheProvider};
use unstall_sandbox_core::ports::workspaces::{BranchRule, TreeRequest, WorkspaceProvider};

use crate::world::{World, base, on, raw_git};

#[tokio::test]
async fn a_cache_is_cloned_once_and_knows_the_default_branch() {
    let world = World::new().await;
    let facts = world.ensure().await.expect("a cache");
    let branch = facts.default_branch.map(|branch| branch.to_string());
    assert_eq!(branch.as_deref(), Some("trunk"));
    assert!(facts.was_fetched && facts.size_bytes.is_some_and(|bytes| bytes > 1000));
    let again = world.ensure().await.expect("a cache");
    assert!(!again.was_fetched && again.size_bytes.is_none());
    let listed = RepoCacheProvider::list(&world.git).await.expect("a list");
    assert_eq!(listed, std::slice::from_ref(&world.cache));
    RepoCacheProvider::remove(&world.git, &world.cache)
        .await
        .expect("removed");
    RepoCacheProvider::remove(&world.git, &world.cache)
        .await
        .expect("removed already");
    assert!(
        RepoCacheProvider::list(&world.git)
            .await
            .expect("a list")
            .is_empty()
    );
}

#[tokio::test]
async fn a_fetch_moves_branches_forward_back_and_away() {
    let world = World::cached().await;
    let resolve = async |name: &str| {
        let found = world.git.resolve(&world.cache, &base(name)).await;
        found.map(|commit| commit.to_string())
    };
    let first = world.at_origin("trunk");
    let second = world.upstream("trunk", &[("README", "more\n")]);
    assert_eq!(resolve("trunk").await.expect("a commit"), first);
    world.fetch().await.expect("fetched");
    assert_eq!(resolve("trunk").await.expect("a commit"), second);

    // Force-pushed back, and a tag beside it.
    let origin = world.folder.path().join("origin.git");
    raw_git(&origin, &["update-ref", "refs/heads/trunk", &first]);
    raw_git(&origin, &["tag", "-m", "a tag", "v1", &second]);
    raw_git(&origin, &["branch", "feature", &second]);
    world.fetch().await.expect("fetched");
    assert_eq!(resolve("trunk").await.expect("a commit"), first);
    assert_eq!(resolve("v1").await.expect("a commit"), second);
    assert_eq!(resolve("refs/tags/v1").await.expect("a commit"), second);
    assert_eq!(resolve(&second).await.expect("a commit"), second);

    // `feature` becomes `feature/x`, which can't both be there.
    raw_git(&origin, &["branch", "-m", "feature", "feature/x"]);
    world.fetch().await.expect("fetched");
    assert!(matches!(
        resolve("feature").await,
        Err(GitError::NoSuchBase { .. })
    ));
    assert_eq!(resolve("feature/x").await.expect("a commit"), second);
}

#[tokio::test]
async fn a_new_default_branch_is_noticed() {
    let world = World::cached().await;
    world.upstream("main", &[("README", "main\n")]);
    let origin = world.folder.path().join("origin.git");
    raw_git(&origin, &["symbolic-ref", "HEAD", "refs/heads/main"]);
    raw_git(&origin, &["branch", "-D", "trunk"]);
    let facts = world.fetch().await.expect("fetched");
    assert_eq!(
        facts
            .default_branch
            .map(|branch| branch.to_string())
            .as_deref(),
        Some("main")
    );
}

#[tokio::test]
async fn what_is_not_there_is_told_apart() {
    let world = World::new().await;
    assert!(matches!(
        world.fetch().await,
        Err(GitError::NotThere { .. })
    ));
    let missing = world.git.resolve(&world.cache, &base("trunk")).await;
    assert!(
        matches!(missing, Err(GitError::NotThere { .. })),
        "{missing:?}"
    );
    let url = format!("file://{}/nothing.git", world.folder.path().display());
    let url = RepoUrl::parse(&url).expect("a URL");
    let source = CacheSource {
        url: &url,
        ..world.source()
    };
    let refused = world.git.ensure(source).await;
    assert!(
        matches!(refused, Err(GitError::RepositoryNotFound { .. })),
        "{refused:?}"
    );
    world.ensure().await.expect("a cache");
    for text in ["no-such", "refs/tags/no-such", &"ab".repeat(20)] {
        let base = BaseRef::parse(text).expect(text);
        let refused = world.git.resolve(&world.cache, &base).await;
        assert!(
            matches!(refused, Err(GitError::NoSuchBase { .. })),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn an_empty_repository_has_no_default_branch_and_no_trees() {
    let world = World::new().await;
    raw_git(
        world.folder.path(),
        &["init", "--quiet", "--bare", "empty.git"],
    );
    let url = format!("file://{}/empty.git", world.folder.path().display());
    let url = RepoUrl::parse(&url).expect("a URL");
    let path = LocalPath::parse("octo/empty/.bare").expect("a path");
    let source = CacheSource {
        path: &path,
        url: &url,
        token: None,
    };
    assert_eq!(
        world
            .git
            .ensure(source)
            .await
            .expect("a cache")
            .default_branch,
        None
    );
    let base = base("main");
    let tree = LocalPath::parse("octo/empty/worktrees/x").expect("a path");
    let request = TreeRequest {
        path: &tree,
        base: &base,
        branch: &BranchRule::Detached,
    };
    let refused = world.git.create(request).await;
    assert!(
        matches!(refused, Err(GitError::NoSuchBase { .. })),
        "{refused:?}"
    );
    assert!(
        WorkspaceProvider::list(&world.git)
            .await
            .expect("a list")
            .is_empty()
    );
}

#[tokio::test]
async fn no_collection_takes_an_object_that_a_tree_needs() {
    let world = World::cached().await;
    world.upstream("old", &[("old.txt", "only here\n")]);
    world.fetch().await.expect("fetched");
    let path = world.new_path();
    let (base, branch) = (base("old"), on("mine"));
    let request = TreeRequest {
        path: &path,
        base: &base,
        branch: &branch,
    };
    world.git.create(request).await.expect("a tree");
    let tree = world.at(path);
    world.raw_push(&[":old"]);
    world.fetch().await.expect("fetched");
    // As a person might who is short of room. Git refuses, or takes nothing.
    let cache = world.cache_dir();
    for arguments in [
        vec!["gc", "--prune=now"],
        vec!["prune", "--expire=now"],
        vec!["repack", "-ad"],
    ] {
        let mut command = std::process::Command::new("git");
        let ended = command
            .arg("-C")
            .arg(&cache)
            .args(&arguments)
            .spawn()
            .expect("git")
            .wait();
        ended.expect("it ends");
    }
    assert_eq!(tree.raw(&["fsck", "--connectivity-only"]), "");
    assert_eq!(tree.raw(&["show", "HEAD:old.txt"]), "only here\n");
}

#[tokio::test]
async fn a_repository_of_another_hash_works_too() {
    let world = World::new().await;
    let path = world.folder.path();
    raw_git(
        path,
        &[
            "init",
            "--quiet",
            "--object-format=sha256",
            "-b",
            "main",
            "other",
        ],
    );
    raw_git(
        &path.join("other"),
        &["commit", "--quiet", "--allow-empty", "-m", "one"],
    );
    let url = RepoUrl::parse(&format!("file://{}/other", path.display())).expect("a URL");
    let cache = LocalPath::parse("octo/other/.bare").expect("a path");
    let source = CacheSource {
        path: &cache,
        url: &url,
        token: None,
    };
    world.git.ensure(source).await.expect("a cache");
    let tree = LocalPath::parse("octo/other/worktrees/x").expect("a path");
    let (base, branch) = (base("main"), on("mine"));
    let request = TreeRequest {
        path: &tree,
        base: &base,
        branch: &branch,
    };
    let made = world.git.create(request).await.expect("a tree");
    assert_eq!(made.head.as_str().len(), 64);
    let tree = world.at(tree);
    tree.write("new.txt", "new\n");
    assert_eq!(
        world.commit(&tree, "new").await.expect("a commit").len(),
        64
    );
}

#[tokio::test]
async fn a_clone_whose_time_is_over_is_told_so_and_leaves_nothing() {
    let world = World::new().await;
    let times = GitTimes {
        network_max: Duration::from_millis(1),
        ..GitTimes::default()
    };
    let pool = BlockingPool::new(1).expect("a thread");
    let root = world.git.root().to_owned();
    let hurried = LocalGit::open(root, times, pool).await.expect("git");
    let refused = hurried.ensure(world.source()).await;
    assert!(
        matches!(refused, Err(GitError::Timeout { limit_ms: 1, .. })),
        "{refused:?}"
    );
    let repository = world.cache_dir().parent().expect("a folder").to_owned();
    assert_eq!(std::fs::read_dir(repository).expect("a folder").count(), 0);
    world.ensure().await.expect("a cache");
}
