//! Whatever a repository or a tree brings along, nothing of it runs, and nothing outside is touched.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use unstall_sandbox_core::domain::WorkspaceId;
use unstall_sandbox_core::ports::workspaces::{DiffBase, WorkspaceProvider};

use crate::world::{Tree, World, key, raw_git};

/// A program that leaves a trace when somebody runs it.
fn trap(folder: &Path) -> (PathBuf, PathBuf) {
    let (program, trace) = (folder.join("trap"), folder.join("sprung"));
    let script = format!(
        "#!/bin/sh\necho \"$0 $*\" >> {}\ncat\nexit 0\n",
        trace.display()
    );
    std::fs::write(&program, script).expect("a file");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    (program, trace)
}

/// A configuration that runs the trap wherever git would run something.
fn config(trap: &Path) -> String {
    let trap = trap.display();
    format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = {trap}\n\teditor = {trap}\n\
         \tpager = {trap}\n\tsshCommand = {trap}\n\taskPass = {trap}\n\tgitProxy = {trap}\n\
         [diff]\n\texternal = {trap}\n[diff \"evil\"]\n\tcommand = {trap}\n\ttextconv = {trap}\n\
         [filter \"evil\"]\n\tclean = {trap}\n\tsmudge = {trap}\n\tprocess = {trap}\n\trequired = true\n\
         [filter \"lfs\"]\n\tclean = {trap}\n\tsmudge = {trap}\n\
         [merge \"evil\"]\n\tdriver = {trap}\n[credential]\n\thelper = {trap}\n\
         [uploadpack]\n\tpackObjectsHook = {trap}\n[gpg]\n\tprogram = {trap}\n[commit]\n\tgpgSign = true\n"
    )
}

/// A `.git` with that configuration and all hooks, at a place in a tree.
fn plant(folder: &Path, trap: &Path) {
    raw_git(folder, &["init", "--quiet"]);
    std::fs::write(folder.join("filtered.txt"), "one\n").expect("a file");
    std::fs::write(folder.join(".gitattributes"), "* filter=evil diff=evil\n").expect("a file");
    raw_git(folder, &["add", "filtered.txt", ".gitattributes"]);
    raw_git(folder, &["commit", "--quiet", "-m", "inner"]);
    std::fs::write(folder.join("filtered.txt"), "two\n").expect("a file");
    let git_dir = folder.join(".git");
    std::fs::write(git_dir.join("config"), config(trap)).expect("a file");
    std::fs::create_dir_all(git_dir.join("hooks")).expect("a folder");
    for hook in [
        "pre-commit",
        "post-checkout",
        "post-index-change",
        "reference-transaction",
        "pre-push",
    ] {
        std::fs::copy(trap, git_dir.join("hooks").join(hook)).expect("a hook");
    }
}

/// Everything that we let git do in a tree. What it answers doesn't matter here.
async fn do_everything(world: &World, tree: &Tree) {
    let _any = world.git.status(&tree.path).await;
    let _any = world.git.diff(&tree.path, &DiffBase::Head, 100_000).await;
    let _any = world.save(tree).await;
    let _any = world.commit(tree, "all").await;
    let _any = world.git.push(&tree.path, &world.url, None).await;
    let _any = world.git.status(&tree.path).await;
}

#[tokio::test]
async fn nothing_that_a_tree_brings_along_is_run() {
    let world = World::new().await;
    let (program, trace) = trap(world.folder.path());
    let attributes = "* filter=evil diff=evil merge=evil\n*.bin filter=lfs\n";
    let modules = "[submodule \"inner\"]\n\tpath = inner\n\turl = ext::x\n\tignore = none\n";
    let files = [
        (".gitattributes", attributes),
        (".gitmodules", modules),
        (".lfsconfig", "[lfs]\n\turl = ext::x\n"),
        ("hooks/post-checkout", "#!/bin/sh\n"),
        ("big.bin", "x\n"),
    ];
    world.upstream("trunk", &files);
    // A submodule that is known, so that git has a reason to look into it.
    let seed = world.folder.path().join("seed");
    let commit = world.at_origin("trunk");
    raw_git(
        &seed,
        &[
            "update-index",
            "--add",
            "--cacheinfo",
            &format!("160000,{commit},inner"),
        ],
    );
    raw_git(&seed, &["commit", "--quiet", "-m", "a submodule"]);
    world.raw_push(&["trunk"]);
    world.ensure().await.expect("a cache");
    let tree = world.tree("mine").await;

    tree.write("README", "changed\n");
    do_everything(&world, &tree).await;
    assert!(
        !world
            .git
            .status(&tree.path)
            .await
            .expect("a status")
            .is_dirty()
    );
    // Now as a command in the tree would leave it: another repository where ours is, one where the
    // submodule is, and one beside it.
    std::fs::remove_file(tree.dir.join(".git")).expect("a file");
    for folder in ["", "inner", "vendor/thing"] {
        let folder = tree.dir.join(folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        plant(&folder, &program);
    }
    tree.write("README", "changed again\n");
    assert!(
        world
            .git
            .status(&tree.path)
            .await
            .expect("a status")
            .is_dirty()
    );
    world
        .git
        .diff(&tree.path, &DiffBase::Head, 100_000)
        .await
        .expect("a diff");
    do_everything(&world, &tree).await;
    std::fs::remove_dir_all(tree.dir.join("vendor")).expect("a folder");
    std::fs::remove_dir_all(tree.dir.join("inner")).expect("a folder");
    let (id, key) = (WorkspaceId::generate(), key("hostile"));
    let saved = world.git.save(&tree.path, id, &key).await;
    saved.expect("saved");
    world.commit(&tree, "all the same").await.expect("a commit");
    world.fetch().await.expect("fetched");
    world.remove(&tree.path).await;
    // A tree that is made of it runs nothing either.
    let path = world.new_path();
    let saved = world.git.find_saved(&path, &key).await.expect("looked");
    let saved = saved.expect("it was saved");
    world.git.restore(&path, &saved).await.expect("a tree");
    do_everything(&world, &world.at(path)).await;
    assert!(
        !trace.exists(),
        "{}",
        std::fs::read_to_string(&trace).unwrap_or_default()
    );
}

/// What a process is told that shall do everything within a hostile environment.
const INNER: &str = "UNSTALL_TEST_INNER";

#[tokio::test]
async fn the_environment_of_this_process_is_not_gits() {
    if std::env::var_os(INNER).is_some() {
        let world = World::cached().await;
        let tree = world.tree("mine").await;
        tree.write("README", "changed\n");
        do_everything(&world, &tree).await;
        assert_eq!(
            world.at_origin("mine"),
            tree.raw(&["rev-parse", "HEAD"]).trim()
        );
        return;
    }
    // The environment is a process's, so that another one runs this test.
    let folder = tempfile::tempdir().expect("a folder");
    let (program, trace) = trap(folder.path());
    std::fs::write(folder.path().join(".gitconfig"), config(&program)).expect("a file");
    let mut inner = std::process::Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "hostile::the_environment_of_this_process_is_not_gits",
        ])
        .env(INNER, "1")
        .env("HOME", folder.path())
        .env("XDG_CONFIG_HOME", folder.path())
        .env("GIT_DIR", folder.path().join("nothing"))
        .env("GIT_EXTERNAL_DIFF", &program)
        .env("GIT_ASKPASS", &program)
        .env("GIT_TRACE", &trace)
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "core.fsmonitor")
        .env("GIT_CONFIG_VALUE_0", &program)
        .spawn()
        .expect("a process");
    assert!(inner.wait().expect("it ends").success());
    assert!(
        !trace.exists(),
        "{}",
        std::fs::read_to_string(&trace).unwrap_or_default()
    );
}

#[tokio::test]
async fn links_that_lead_out_are_committed_as_links_and_never_followed() {
    let world = World::cached().await;
    let tree = world.tree("mine").await;
    let outside = world.folder.path().join("outside");
    std::fs::create_dir(&outside).expect("a folder");
    std::fs::write(outside.join("secret"), "secret\n").expect("a file");
    // A folder of the repository becomes a link to one outside, and back.
    std::fs::remove_dir_all(tree.dir.join("src")).expect("a folder");
    symlink(&outside, tree.dir.join("src")).expect("a link");
    symlink("nowhere", tree.dir.join("dangling")).expect("a link");
    let diff = world
        .git
        .diff(&tree.path, &DiffBase::Head, 100_000)
        .await
        .expect("a diff");
    assert!(!diff.text.contains("+secret"), "{}", diff.text);
    world.commit(&tree, "links").await.expect("a commit");
    assert_eq!(
        tree.raw(&["ls-tree", "-r", "--format=%(objectmode) %(path)", "HEAD"]),
        "100644 README\n120000 dangling\n120000 src\n"
    );
    world.remove(&tree.path).await;
    assert!(outside.join("secret").exists());
}

#[tokio::test]
async fn a_repository_that_is_no_tree_is_not_checked_out() {
    // A tree object with a path that leads into the git directory, as only a hostile origin has.
    let world = World::new().await;
    let seed = world.folder.path().join("seed");
    let blob = raw_git(&seed, &["rev-parse", "HEAD:README"]);
    std::fs::write(
        seed.join("listing"),
        format!("100644 blob {}\tx\n", blob.trim()),
    )
    .expect("a file");
    let inner = mktree(
        &seed,
        &format!("100755 blob {}\tpost-checkout", blob.trim()),
    );
    let hooks = mktree(&seed, &format!("040000 tree {inner}\thooks"));
    let evil = mktree(&seed, &format!("040000 tree {hooks}\t.git"));
    let commit = raw_git(&seed, &["commit-tree", &evil, "-m", "evil"]);
    world.raw_push(&[&format!("{}:refs/heads/evil", commit.trim())]);
    world.ensure().await.expect("a cache");
    let path = world.new_path();
    let refused = world.create_at(&path, "evil").await;
    assert!(refused.is_err(), "{refused:?}");
    assert!(
        WorkspaceProvider::list(&world.git)
            .await
            .expect("a list")
            .is_empty()
    );
}

fn mktree(at: &Path, line: &str) -> String {
    std::fs::write(at.join("listing"), format!("{line}\n")).expect("a file");
    let output = std::process::Command::new("sh")
        .current_dir(at)
        .args(["-c", "git mktree < listing"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("git")
        .wait_with_output()
        .expect("it ends");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
