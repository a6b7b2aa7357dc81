//! Links: followed for reading within the tree, never out of it, and never for changing anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use unstall_sandbox_core::ports::files::{EntryKind, Expected, FileAccess, FilesError};

use super::{Grounds, path};

#[tokio::test]
async fn links_within_the_tree_are_followed_for_reading() {
    let grounds = Grounds::new().await;
    grounds.put("real/file", "here");
    grounds.link("folder", "real");
    grounds.link("deep/up", "../real/file");
    for name in ["folder/file", "deep/up"] {
        let read = grounds.files.read(path(name), 10).await.expect(name);
        assert_eq!(read.bytes, b"here");
    }
    assert_eq!(
        grounds
            .files
            .list(path("folder"), 5)
            .await
            .expect("listed")
            .entries
            .len(),
        1
    );
    let entry = grounds.files.stat(path("folder")).await.expect("told");
    assert_eq!(entry.kind, EntryKind::Link);
}

#[tokio::test]
async fn links_out_of_the_tree_lead_nowhere() {
    let grounds = Grounds::new().await;
    grounds.link("absolute", grounds.outside().join("secret"));
    grounds.link("relative", "../outside/secret");
    grounds.link("folder", "../outside");
    grounds.link("deep/twice", "../folder");
    // Even an absolute one into the tree: it would lead elsewhere in a sandbox.
    grounds.put("inside", "x");
    grounds.link("home", grounds.tree().join("inside"));
    for name in [
        "absolute",
        "relative",
        "folder/secret",
        "deep/twice/secret",
        "home",
    ] {
        let refused = grounds.files.read(path(name), 10).await.expect_err(name);
        assert!(
            matches!(refused, FilesError::LeadsOut { .. }),
            "{name}: {refused}"
        );
        assert!(!refused.to_string().contains("outside"), "{refused}");
    }
    assert!(grounds.files.list(path("folder"), 5).await.is_err());
    for name in ["folder/new", "deep/twice/new", "absolute", "relative"] {
        let written = grounds
            .files
            .write(path(name), b"x".to_vec(), Expected::Anything)
            .await;
        assert!(
            matches!(written, Err(FilesError::IsALink { .. })),
            "{name}: {written:?}"
        );
    }
    assert!(grounds.files.remove(path("folder/secret")).await.is_err());
    assert!(grounds.files.make_folder(path("folder/new")).await.is_err());
    grounds.assert_unharmed();
}

#[tokio::test]
async fn magic_links_and_loops_lead_nowhere() {
    let grounds = Grounds::new().await;
    grounds.link("proc", "/proc/self/root/etc/passwd");
    grounds.link("a", "b");
    grounds.link("b", "a");
    for name in ["proc", "a"] {
        assert!(grounds.files.read(path(name), 10).await.is_err(), "{name}");
    }
}

#[tokio::test]
async fn a_dangling_link_is_told_and_never_written_through() {
    let grounds = Grounds::new().await;
    grounds.link("dangling", "nothing");
    grounds.link("out", "../outside/new");
    let read = grounds.files.read(path("dangling"), 10).await;
    assert!(matches!(read, Err(FilesError::NotFound { .. })), "{read:?}");
    for (name, target) in [("dangling", "nothing"), ("out", "../outside/new")] {
        let expected = format!(
            "nothing was changed at {name}, as {name} is a link to {target}; give the path that it leads to"
        );
        let refused = grounds
            .files
            .write(path(name), b"x".to_vec(), Expected::Anything)
            .await;
        assert_eq!(refused.expect_err("a link").to_string(), expected);
    }
    assert!(!grounds.tree().join("nothing").exists());
    grounds.assert_unharmed();
}

#[tokio::test]
async fn a_link_is_removed_and_not_what_it_leads_to() {
    let grounds = Grounds::new().await;
    grounds.link("folder", "../outside");
    grounds.put("real", "x");
    grounds.link("file", "real");
    for name in ["folder", "file"] {
        grounds.files.remove(path(name)).await.expect(name);
    }
    assert_eq!(grounds.content("real"), "x");
    grounds.assert_unharmed();
}

#[tokio::test]
async fn what_is_changed_by_way_of_a_link_within_the_tree_is_refused_with_the_way() {
    let grounds = Grounds::new().await;
    grounds.put("real/file", "here");
    grounds.link("folder", "real");
    let written = grounds
        .files
        .write(path("folder/file"), b"x".to_vec(), Expected::Anything)
        .await;
    let Err(FilesError::IsALink { link, target, .. }) = written else {
        panic!("{written:?}");
    };
    assert_eq!((link.as_str(), target.as_str()), ("folder", "real"));
    assert_eq!(grounds.content("real/file"), "here");
}

/// A command swaps a folder and a file for links out of the tree, back and forth, while they are
/// written: every write lands in the tree or nowhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_swapped_in_while_writing_lead_nowhere() {
    let grounds = Grounds::new().await;
    grounds.put("folder/file", "x");
    grounds.link("spare/folder", "../outside");
    grounds.link("spare/file", "../../outside/secret");
    let is_over = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (tree, is_over) = (grounds.tree(), Arc::clone(&is_over));
        std::thread::spawn(move || {
            use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
            let exchange = |from: &str, to: &str| {
                let flags = RenameFlags::RENAME_EXCHANGE;
                renameat2(AT_FDCWD, &tree.join(from), AT_FDCWD, &tree.join(to), flags)
            };
            let mut swaps = 0;
            while !is_over.load(Ordering::Relaxed) {
                // The file is in whichever of both is a folder now, so one of these fails.
                let _ = exchange("spare/file", "folder/file");
                let _ = exchange("folder", "spare/folder");
                swaps += 1;
            }
            swaps
        })
    };
    let mut written = 0;
    for round in 0..2000 {
        let content = format!("round {round}").into_bytes();
        let write = grounds
            .files
            .write(path("folder/file"), content, Expected::Anything);
        if write.await.is_ok() {
            written += 1;
        }
        let read = grounds.files.read(path("folder/file"), 100).await;
        assert!(read.is_err() || read.is_ok_and(|read| read.bytes != b"secret"));
    }
    is_over.store(true, Ordering::Relaxed);
    let swaps = swapper.join().expect("the swapper ends");
    assert!(swaps > 0 && written > 0, "{swaps} swaps, {written} written");
    grounds.assert_unharmed();
}
