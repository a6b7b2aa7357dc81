//! Trees are made, prepared, adopted, found and removed.

use unstall_sandbox_core::domain::BranchName;
use unstall_sandbox_core::ports::caches::GitError;
use unstall_sandbox_core::ports::workspaces::{BranchRule, TreeRequest, WorkspaceProvider};

use crate::world::{World, base, on, raw_git};

#[tokio::test]
async fn a_tree_is_clean_and_on_its_branch() {
    let world = World::cached().await;
    let path = world.new_path();
    let made = world
        .create_at(&path, "agent/edits-1")
        .await
        .expect("a tree");
    assert!(made.is_new_branch);
    assert_eq!(made.head.as_str(), world.at_origin("trunk"));
    let status = world.git.status(&path).await.expect("a status");
    assert!(!status.is_dirty(), "{status:?}");
    assert_eq!(
        status.branch,
        Some(BranchName::parse("agent/edits-1").expect("a branch"))
    );
    let tree = world.at(path.clone());
    assert_eq!(tree.read("src/a.txt").as_deref(), Some("a\n"));
    // Whoever works in the tree finds its repository, too.
    assert_eq!(raw_git(&tree.dir, &["status", "--porcelain"]), "");
    assert_eq!(raw_git(&tree.dir, &["log", "--format=%s"]), "upstream\n");
    let again = world.create_at(&path, "agent/edits-1").await;
    assert!(
        matches!(again, Err(GitError::AlreadyThere { .. })),
        "{again:?}"
    );
    assert!(world.git.size_of(&path).await.expect("a size") > 4096);
}

#[tokio::test]
async fn a_branch_of_the_origin_is_taken_where_it_is() {
    let world = World::new().await;
    let feature = world.upstream("feature", &[("feature.txt", "f\n")]);
    world.ensure().await.expect("a cache");
    let path = world.new_path();
    let made = world.create_at(&path, "feature").await.expect("a tree");
    assert_eq!(
        (made.head.as_str(), made.is_new_branch),
        (feature.as_str(), false)
    );

    let must_be_there = BranchRule::On {
        branch: BranchName::parse("missing").expect("a branch"),
        may_create: false,
    };
    let (path, base) = (world.new_path(), base("trunk"));
    let request = TreeRequest {
        path: &path,
        base: &base,
        branch: &must_be_there,
    };
    let refused = world.git.create(request).await;
    assert!(
        matches!(refused, Err(GitError::NoSuchBranch { .. })),
        "{refused:?}"
    );
    assert!(!path.under(world.git.root()).exists());
}

#[tokio::test]
async fn branches_that_exclude_each_other_in_one_repository_are_trees_beside_each_other() {
    let world = World::cached().await;
    for branch in [
        "feature",
        "feature/x",
        "feat/a",
        "feat-a",
        "trunk",
        "trunk",
        "(detached)",
    ] {
        let tree = world.tree(branch).await;
        tree.write("mine.txt", branch);
        world.commit(&tree, "mine").await.expect("a commit");
        let status = world.git.status(&tree.path).await.expect("a status");
        assert_eq!(
            status.branch.map(|name| name.to_string()).as_deref(),
            Some(branch)
        );
    }
}

#[tokio::test]
async fn an_analysis_is_on_no_branch() {
    let world = World::cached().await;
    let (path, commit) = (world.new_path(), base(&world.at_origin("trunk")));
    let request = TreeRequest {
        path: &path,
        base: &commit,
        branch: &BranchRule::Detached,
    };
    world.git.create(request).await.expect("a tree");
    let status = world.git.status(&path).await.expect("a status");
    assert_eq!(status.branch, None);
    let refused = world.git.push(&path, &world.url, None).await;
    assert!(
        matches!(refused, Err(GitError::OnNoBranch { .. })),
        "{refused:?}"
    );
    // What is committed there all the same is saved with it.
    let tree = world.at(path);
    tree.write("found.txt", "found\n");
    world
        .commit(&tree, "found")
        .await
        .expect("a commit on no branch");
    assert!(
        world
            .git
            .status(&tree.path)
            .await
            .expect("a status")
            .has_unsaved_commits
    );
}

#[tokio::test]
async fn a_prepared_tree_is_adopted_by_one_of_two() {
    let world = World::cached().await;
    let prepared = world.new_prepared_path();
    let commit = world
        .git
        .prepare(&prepared, &base("trunk"))
        .await
        .expect("a tree");
    assert_eq!(commit.as_str(), world.at_origin("trunk"));
    let (base, branch) = (base("trunk"), on("mine"));
    let (one, other) = (world.new_path(), world.new_path());
    let request = |path| TreeRequest {
        path,
        base: &base,
        branch: &branch,
    };
    let (first, second) = tokio::join!(
        world.git.adopt(&prepared, request(&one)),
        world.git.adopt(&prepared, request(&other)),
    );
    assert!(first.is_ok() ^ second.is_ok(), "{first:?} {second:?}");
    let (path, refused) = if first.is_ok() {
        (one, second)
    } else {
        (other, first)
    };
    assert!(
        matches!(refused, Err(GitError::NotThere { .. })),
        "{refused:?}"
    );
    let status = world.git.status(&path).await.expect("a status");
    assert!(!status.is_dirty(), "{status:?}");
    assert_eq!(
        status.branch.map(|name| name.to_string()).as_deref(),
        Some("mine")
    );
}

#[tokio::test]
async fn an_adopted_tree_is_brought_along_when_its_base_has_moved() {
    let world = World::cached().await;
    let prepared = world.new_prepared_path();
    world
        .git
        .prepare(&prepared, &base("trunk"))
        .await
        .expect("a tree");
    let seed = world.folder.path().join("seed");
    raw_git(&seed, &["rm", "--quiet", "src/a.txt"]);
    let moved = world.upstream("trunk", &[("README", "moved\n"), ("src/b.txt", "b\n")]);
    world.fetch().await.expect("fetched");
    let (path, base, branch) = (world.new_path(), base("trunk"), on("mine"));
    let request = TreeRequest {
        path: &path,
        base: &base,
        branch: &branch,
    };
    let made = world.git.adopt(&prepared, request).await.expect("a tree");
    assert_eq!(made.head.as_str(), moved);
    assert!(!world.git.status(&path).await.expect("a status").is_dirty());
    let tree = world.at(path);
    assert_eq!(tree.read("README").as_deref(), Some("moved\n"));
    assert_eq!(
        (tree.read("src/a.txt"), tree.read("src/b.txt").as_deref()),
        (None, Some("b\n"))
    );
}

#[tokio::test]
async fn the_root_may_move() {
    let world = World::cached().await;
    let tree = world.tree("mine").await;
    let moved = world.folder.path().join("elsewhere");
    std::fs::rename(world.git.root(), &moved).expect("it can be moved");
    let dir = tree.path.under(&moved).join("tree");
    assert_eq!(raw_git(&dir, &["status", "--porcelain"]), "");
    assert_eq!(raw_git(&dir, &["show", "HEAD:README"]), "hello\n");
}

#[tokio::test]
async fn a_removed_tree_is_gone_while_a_child_still_writes_in_it() {
    let world = World::cached().await;
    let tree = world.tree("mine").await;
    let dir = tree.dir.clone();
    // The child's working directory goes with the tree, as a shell's does.
    let script =
        "i=0; while [ $i -lt 2000 ]; do mkdir -p d$i && : > d$i/f; i=$((i+1)); done 2>/dev/null";
    let mut child = std::process::Command::new("sh")
        .args(["-c", script])
        .current_dir(&dir)
        .spawn()
        .expect("a child");
    while !dir.join("d20").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    world.remove(&tree.path).await;
    child.kill().expect("it can be ended");
    child.wait().expect("it ends");
    assert!(!tree.path.under(world.git.root()).exists());
    assert!(
        WorkspaceProvider::list(&world.git)
            .await
            .expect("a list")
            .is_empty()
    );
    let status = world.git.status(&tree.path).await;
    assert!(
        matches!(status, Err(GitError::NotThere { .. })),
        "{status:?}"
    );
}

#[tokio::test]
async fn a_tree_of_another_user_can_be_used() {
    let world = World::cached().await;
    let tree = world.tree("mine").await;
    // As a runtime's user leaves it. Only root can give files away, so that elsewhere this shows less.
    if rustix::process::geteuid().is_root() {
        let nobody = Some(65534);
        std::os::unix::fs::chown(&tree.dir, nobody, nobody).expect("given away");
        std::os::unix::fs::chown(tree.dir.join("README"), nobody, nobody).expect("given away");
    }
    tree.write("new.txt", "new\n");
    world.commit(&tree, "new").await.expect("a commit");
    assert!(
        world
            .git
            .status(&tree.path)
            .await
            .expect("a status")
            .changes
            .is_empty()
    );
}
