//! Edits are seen, compared, committed, pushed and saved, whatever their files are called.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use unstall_sandbox_core::domain::WorkspaceId;
use unstall_sandbox_core::ports::caches::{GitError, RepoCacheProvider};
use unstall_sandbox_core::ports::workspaces::{
    ChangeKind, CommitIdentity, CommitRequest, DiffBase, WorkspaceProvider,
};

use crate::world::{Tree, World, base, key, raw_git};

/// Names that are hard to read in a list: a byte that is no UTF-8, a line break, an arrow, and so on.
const STRANGE: [&[u8]; 6] = [
    b"\xff\xfe",
    b"line\nbreak",
    b"a -> b",
    b" space ",
    b":(top)x",
    b"-rf",
];

fn strange(tree: &Tree) -> Vec<PathBuf> {
    let names = STRANGE.map(|name| PathBuf::from(OsStr::from_bytes(name)));
    for name in &names {
        tree.write(name, "strange\n");
    }
    names.into()
}

#[tokio::test]
async fn each_kind_of_change_is_seen() {
    let world = World::cached().await;
    let tree = world.tree("mine").await;
    let names = strange(&tree);
    tree.write("README", "changed\n");
    tree.write("ignored.log", "x\n");
    tree.write(".gitignore", "*.log\n");
    std::fs::remove_file(tree.dir.join("src/a.txt")).expect("a file");
    let status = world.git.status(&tree.path).await.expect("a status");
    assert!(status.is_dirty() && !status.has_unsaved_commits);
    let kind_of = |path: &Path| {
        let change = status.changes.iter().find(|change| change.path == path);
        change.map(|change| change.kind)
    };
    assert_eq!(kind_of(Path::new("README")), Some(ChangeKind::Modified));
    assert_eq!(kind_of(Path::new("src/a.txt")), Some(ChangeKind::Deleted));
    assert_eq!(kind_of(Path::new("ignored.log")), None);
    for name in &names {
        assert_eq!(
            kind_of(name),
            Some(ChangeKind::Untracked),
            "{}",
            name.display()
        );
    }
    assert_eq!(status.changes.len(), names.len() + 3);
}

#[tokio::test]
async fn a_commit_has_its_author_its_message_and_all_changes() {
    let world = World::cached().await;
    let tree = world.tree("mine").await;
    let names = strange(&tree);
    tree.write("ignored.log", "x\n");
    tree.write(".gitignore", "*.log\n");
    std::fs::remove_file(tree.dir.join("src/a.txt")).expect("a file");
    let commit = world
        .commit(&tree, "A title\n\n# not a comment\n")
        .await
        .expect("a commit");
    assert_eq!(tree.raw(&["rev-parse", "refs/heads/mine"]).trim(), commit);
    let shown = tree.raw(&["log", "-1", "--format=%an <%ae> %cn%n%B"]);
    assert_eq!(
        shown,
        "Ada <ada@example.org> Ada\nA title\n\n# not a comment\n\n"
    );
    let listed = tree.raw(&["ls-tree", "-r", "--name-only", "HEAD"]);
    assert_eq!(listed.lines().count(), names.len() + 2, "{listed}");
    let status = world.git.status(&tree.path).await.expect("a status");
    assert!(
        status.changes.is_empty() && status.has_unsaved_commits,
        "{status:?}"
    );
    let again = world.commit(&tree, "again").await;
    assert!(
        matches!(again, Err(GitError::NothingToCommit { .. })),
        "{again:?}"
    );
}

fn some<'a>(paths: &'a [PathBuf], identity: &'a CommitIdentity) -> CommitRequest<'a> {
    CommitRequest {
        message: "some",
        paths,
        identity,
    }
}

#[tokio::test]
async fn only_the_chosen_paths_are_committed_and_taken_literally() {
    let world = World::cached().await;
    let tree = world.tree("mine").await;
    for name in ["*", "other.txt", "sub/x.txt"] {
        tree.write(name, "x\n");
    }
    let identity = CommitIdentity::new("Ada", "ada@example.org").expect("an identity");
    let paths = [PathBuf::from("*"), PathBuf::from("sub")];
    world
        .git
        .commit(&tree.path, some(&paths, &identity))
        .await
        .expect("a commit");
    let listed = tree.raw(&["ls-tree", "-r", "--name-only", "HEAD"]);
    assert_eq!(listed, "*\nREADME\nsrc/a.txt\nsub/x.txt\n");
    for path in ["../outside", "/etc/passwd", ""] {
        let paths = [PathBuf::from(path)];
        let refused = world.git.commit(&tree.path, some(&paths, &identity)).await;
        assert!(
            matches!(refused, Err(GitError::InvalidPath { .. })),
            "{refused:?}"
        );
    }
    // A failed commit holds no lock.
    let paths = [PathBuf::from("missing")];
    assert!(
        world
            .git
            .commit(&tree.path, some(&paths, &identity))
            .await
            .is_err()
    );
    assert!(!tree.git_dir.join("index.lock").exists());
    assert!(CommitIdentity::new("A\nB", "x").is_err() && CommitIdentity::new("A", "<x>").is_err());
}

#[tokio::test]
async fn a_difference_has_new_files_and_leaves_no_trace() {
    let world = World::cached().await;
    let tree = world.tree("mine").await;
    tree.write("README", "changed\n");
    tree.write("new/file.txt", "new\n");
    let diff = world
        .git
        .diff(&tree.path, &DiffBase::Head, 100_000)
        .await
        .expect("a diff");
    assert!(!diff.is_truncated);
    for line in ["-hello", "+changed", "+++ b/new/file.txt", "+new"] {
        assert!(
            diff.text.lines().any(|found| found == line),
            "{line} in {}",
            diff.text
        );
    }
    let cut = world
        .git
        .diff(&tree.path, &DiffBase::Head, 40)
        .await
        .expect("a diff");
    assert_eq!((cut.text.len(), cut.is_truncated), (40, true));
    let status = world.git.status(&tree.path).await.expect("a status");
    let new = status
        .changes
        .iter()
        .find(|change| change.path == Path::new("new/"));
    assert_eq!(new.map(|change| change.kind), Some(ChangeKind::Untracked));

    // Against the base: what was committed counts, and what the base got meanwhile doesn't.
    world.commit(&tree, "mine").await.expect("a commit");
    world.upstream("trunk", &[("theirs.txt", "theirs\n")]);
    world.fetch().await.expect("fetched");
    let base = DiffBase::ForkOf(base("trunk"));
    let diff = world
        .git
        .diff(&tree.path, &base, 100_000)
        .await
        .expect("a diff");
    assert!(
        diff.text.contains("+changed") && !diff.text.contains("theirs"),
        "{}",
        diff.text
    );
    let head = world
        .git
        .diff(&tree.path, &DiffBase::Head, 100_000)
        .await
        .expect("a diff");
    assert_eq!(head.text, "");
}

#[tokio::test]
async fn a_pushed_branch_is_at_the_origin_and_its_tree_is_clean() {
    let world = World::cached().await;
    let tree = world.tree("agent/task-1").await;
    tree.write("new.txt", "new\n");
    let commit = world.commit(&tree, "new").await.expect("a commit");
    let pushed = world
        .git
        .push(&tree.path, &world.url, None)
        .await
        .expect("pushed");
    assert_eq!(
        (pushed.commit.as_str(), pushed.branch.as_str()),
        (commit.as_str(), "agent/task-1")
    );
    assert_eq!(world.at_origin("refs/heads/agent/task-1"), commit);
    assert!(
        !world
            .git
            .status(&tree.path)
            .await
            .expect("a status")
            .is_dirty()
    );
    // Pushing again what is there already is no error.
    world
        .git
        .push(&tree.path, &world.url, None)
        .await
        .expect("pushed");
}

#[tokio::test]
async fn a_push_never_overwrites_what_others_pushed() {
    let world = World::cached().await;
    let tree = world.tree("shared").await;
    tree.write("mine.txt", "mine\n");
    world.commit(&tree, "mine").await.expect("a commit");
    let theirs = world.upstream("shared", &[("theirs.txt", "theirs\n")]);
    let refused = world.git.push(&tree.path, &world.url, None).await;
    let Err(GitError::PushRejected { branch, said }) = refused else {
        panic!("{refused:?}");
    };
    assert!(
        branch.as_str() == "shared" && said.contains("fetch first"),
        "{said}"
    );
    assert_eq!(world.at_origin("refs/heads/shared"), theirs);
}

#[tokio::test]
async fn saved_edits_outlive_their_tree_where_no_other_tree_reads_them() {
    let world = World::cached().await;
    let tree = world.tree("mine").await;
    tree.write("committed.txt", "committed\n");
    world.commit(&tree, "committed").await.expect("a commit");
    let names = strange(&tree);
    tree.write("README", "changed\n");
    tree.write(".gitignore", "*.log\n");
    tree.write("ignored.log", "x\n");
    std::fs::remove_file(tree.dir.join("src/a.txt")).expect("a file");
    let before = world.git.status(&tree.path).await.expect("a status");
    let (id, key) = (WorkspaceId::generate(), key("c"));
    let saved = world.git.save(&tree.path, id, &key).await.expect("saved");
    assert_eq!(saved.reference, format!("refs/sandbox/evicted/{id}"));
    assert!(saved.to_string().starts_with(&saved.reference), "{saved}");
    // The tree is as it was.
    assert_eq!(
        world
            .git
            .status(&tree.path)
            .await
            .expect("a status")
            .changes,
        before.changes
    );
    // Again, with one more edit.
    tree.write("late.txt", "late\n");
    let saved = world.git.save(&tree.path, id, &key).await.expect("saved");
    world.remove(&tree.path).await;
    world.fetch().await.expect("fetched");

    let store = &saved.store;
    let commit = raw_git(store, &["rev-parse", &saved.reference]);
    assert_eq!(commit.trim(), saved.commit.as_str());
    let show = |path: &str| raw_git(store, &["show", &format!("{}:{path}", saved.commit)]);
    assert_eq!(
        (show("README").as_str(), show("late.txt").as_str()),
        ("changed\n", "late\n")
    );
    assert_eq!(show("committed.txt"), "committed\n");
    let listed = raw_git(
        store,
        &["ls-tree", "-r", "-z", "--name-only", saved.commit.as_str()],
    );
    assert_eq!(listed.matches('\0').count(), names.len() + 4, "{listed}");
    assert!(!listed.contains("ignored.log") && !listed.contains("src/a.txt"));
    raw_git(store, &["fsck", "--connectivity-only"]);

    // The cache, whose objects all trees of the repository read, has nothing of it.
    let cache = world.cache_dir();
    assert_eq!(raw_git(&cache, &["for-each-ref", "refs/sandbox/"]), "");
    let here = base(saved.commit.as_str());
    let in_cache = world.git.resolve(&world.cache, &here).await;
    assert!(in_cache.is_err(), "{in_cache:?}");
    assert!(
        world
            .git
            .has_saved_edits(&world.cache)
            .await
            .expect("looked")
    );
}

#[tokio::test]
async fn a_tree_that_is_made_of_saved_edits_is_as_the_one_before() {
    let world = World::cached().await;
    let tree = world.tree("mine").await;
    tree.write("committed.txt", "committed\n");
    let commit = world.commit(&tree, "committed").await.expect("a commit");
    strange(&tree);
    tree.write("README", "changed\n");
    // A folder becomes a file.
    std::fs::remove_dir_all(tree.dir.join("src")).expect("a folder");
    tree.write("src", "a file\n");
    let before = world.git.status(&tree.path).await.expect("a status");
    let (id, key) = (WorkspaceId::generate(), key("c"));
    let kept = world.git.save(&tree.path, id, &key).await.expect("saved");
    world.remove(&tree.path).await;
    // The base goes another way meanwhile, and somebody pushes a branch of that name.
    world.upstream("trunk", &[("README", "moved\n")]);
    world.upstream("mine", &[("theirs.txt", "theirs\n")]);
    world.fetch().await.expect("fetched");

    let path = world.new_path();
    let saved = world.git.find_saved(&path, &key).await.expect("looked");
    let saved = saved.expect("it was saved");
    assert_eq!((saved.workspace, &saved.edits), (id, &kept));
    assert_eq!(saved.head.as_str(), commit);
    let head = world.git.restore(&path, &saved).await.expect("a tree");
    assert_eq!(head.as_str(), commit);
    let back = world.at(path);
    let after = world.git.status(&back.path).await.expect("a status");
    assert_eq!(after, before);
    assert!(after.has_unsaved_commits && !after.changes.is_empty());
    // Git needn't read the files that are as they were to know that.
    let touched = back.raw(&["diff-files", "--name-only", "committed.txt"]);
    assert_eq!(touched, "");

    // What was saved stays until somebody says that the tree is whole; then the tree stands alone.
    assert!(kept.store.exists());
    let found = WorkspaceProvider::list(&world.git).await.expect("a list");
    assert!(found[0].holds_saved_edits, "{found:?}");
    let other = WorkspaceId::generate();
    let dropped = world.git.drop_saved(&back.path, other, &key).await;
    assert!(dropped.expect("dropped") && !kept.store.exists());
    let again = world.git.drop_saved(&back.path, other, &key).await;
    assert!(!again.expect("nothing to drop"));
    let found = WorkspaceProvider::list(&world.git).await.expect("a list");
    assert!(!found[0].holds_saved_edits, "{found:?}");
    back.raw(&["fsck", "--connectivity-only"]);
    assert!(
        !world
            .git
            .has_saved_edits(&world.cache)
            .await
            .expect("looked")
    );
    let found = world.git.find_saved(&back.path, &key).await;
    assert_eq!(found.expect("looked"), None);
}

#[tokio::test]
async fn what_a_tree_does_not_hold_is_neither_dropped_nor_replaced_for_it() {
    let world = World::cached().await;
    let first = world.tree("mine").await;
    first.write("first.txt", "first\n");
    let key = key("c");
    let id = WorkspaceId::generate();
    let kept = world.git.save(&first.path, id, &key).await.expect("saved");
    let (second, other) = (world.tree("mine").await, WorkspaceId::generate());
    second.write("second.txt", "second\n");
    let refused = world.git.save(&second.path, other, &key).await;
    assert!(
        matches!(refused, Err(GitError::AlreadyThere { .. })),
        "{refused:?}"
    );
    let dropped = world.git.drop_saved(&second.path, other, &key).await;
    assert!(!dropped.expect("left as it is"));
    let object = format!("{}:first.txt", kept.reference);
    assert_eq!(raw_git(&kept.store, &["show", &object]), "first\n");
    // Of a tree that is gone it may be all there is.
    world.remove(&first.path).await;
    let refused = world.git.drop_saved(&first.path, id, &key).await;
    assert!(
        matches!(refused, Err(GitError::NotThere { .. })),
        "{refused:?}"
    );
    // A damaged one is told, with its place.
    raw_git(&kept.store, &["update-ref", "-d", &kept.reference]);
    let damaged = world.git.find_saved(&first.path, &key).await;
    let Err(GitError::SavedUnreadable { store, .. }) = damaged else {
        panic!("{damaged:?}");
    };
    assert_eq!(store, kept.store);
}

#[tokio::test]
async fn a_tree_without_edits_is_saved_as_its_last_commit() {
    let world = World::cached().await;
    let tree = world.tree("mine").await;
    let saved = world.save(&tree).await.expect("saved");
    assert_eq!(saved.commit.as_str(), world.at_origin("trunk"));
    tree.write("x", "x\n");
    let commit = world.commit(&tree, "x").await.expect("a commit");
    let (id, key) = (WorkspaceId::generate(), key("c"));
    let saved = world.git.save(&tree.path, id, &key).await.expect("saved");
    assert_eq!(saved.commit.as_str(), commit);
    let path = world.new_path();
    let saved = world.git.find_saved(&path, &key).await.expect("looked");
    let saved = saved.expect("it was saved");
    world.git.restore(&path, &saved).await.expect("a tree");
    let status = world.git.status(&path).await.expect("a status");
    assert_eq!(status.head.as_str(), commit);
    assert!(
        status.changes.is_empty() && status.has_unsaved_commits,
        "{status:?}"
    );
}

#[tokio::test]
async fn a_repository_within_a_tree_is_never_saved_as_a_mere_pointer() {
    let world = World::cached().await;
    let tree = world.tree("mine").await;
    tree.write("vendor/thing/file.txt", "only here\n");
    raw_git(&tree.dir.join("vendor/thing"), &["init", "--quiet"]);
    for attempt in 0..2 {
        let refused = world.save(&tree).await;
        let Err(GitError::NestedRepository { path }) = refused else {
            panic!("{attempt}: {refused:?}");
        };
        assert_eq!(path, Path::new("vendor/thing/"));
        // With a commit of its own git would take it for a submodule without a word.
        raw_git(&tree.dir.join("vendor/thing"), &["add", "--all"]);
        raw_git(
            &tree.dir.join("vendor/thing"),
            &["commit", "--quiet", "--allow-empty", "-m", "inner"],
        );
    }
    let refused = world.commit(&tree, "all").await;
    assert!(
        matches!(refused, Err(GitError::NestedRepository { .. })),
        "{refused:?}"
    );
    let status = world.git.status(&tree.path).await.expect("a status");
    assert!(status.is_dirty(), "{status:?}");
    // A difference shows all else.
    tree.write("else.txt", "else\n");
    let diff = world
        .git
        .diff(&tree.path, &DiffBase::Head, 100_000)
        .await
        .expect("a diff");
    assert!(
        diff.text.contains("else.txt") && !diff.text.contains("vendor"),
        "{}",
        diff.text
    );
}

#[tokio::test]
async fn a_submodule_that_was_filled_is_not_lost() {
    let world = World::new().await;
    let seed = world.folder.path().join("seed");
    raw_git(world.folder.path(), &["init", "--quiet", "inner"]);
    raw_git(
        &world.folder.path().join("inner"),
        &["commit", "--quiet", "--allow-empty", "-m", "i"],
    );
    raw_git(&seed, &["submodule", "--quiet", "add", "../inner", "inner"]);
    world.upstream("trunk", &[("x", "x\n")]);
    world.ensure().await.expect("a cache");
    let tree = world.tree("mine").await;
    assert!(
        !world
            .git
            .status(&tree.path)
            .await
            .expect("a status")
            .is_dirty()
    );
    world.save(&tree).await.expect("it is empty");
    tree.write("inner/precious.txt", "only here\n");
    let refused = world.save(&tree).await;
    assert!(
        matches!(refused, Err(GitError::NestedRepository { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn pointers_to_large_files_stay_pointers() {
    let world = World::new().await;
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n";
    let attributes = "*.bin filter=lfs diff=lfs merge=lfs -text\n";
    world.upstream(
        "trunk",
        &[(".gitattributes", attributes), ("big.bin", pointer)],
    );
    world.ensure().await.expect("a cache");
    let tree = world.tree("mine").await;
    assert_eq!(tree.read("big.bin").as_deref(), Some(pointer));
    tree.write("other.bin", "whole\n");
    world.commit(&tree, "other").await.expect("a commit");
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
