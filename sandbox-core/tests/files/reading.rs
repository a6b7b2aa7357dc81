//! What is read and listed, and what isn't.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use unstall_sandbox_core::domain::TreePath;
use unstall_sandbox_core::ports::files::{EntryKind, FileAccess, FilesError};

use super::{Grounds, mkfifo, path};

#[tokio::test]
async fn a_file_is_read_up_to_a_bound_and_what_is_cut_is_told() {
    let grounds = Grounds::new().await;
    grounds.put("a/b.txt", "grüße");
    let whole = grounds
        .files
        .read(path("a/b.txt"), 7)
        .await
        .expect("a file");
    assert_eq!(whole.text(), ("grüße".into(), true));
    assert!(!whole.is_truncated && whole.size_bytes == 7);
    let part = grounds
        .files
        .read(path("a/b.txt"), 3)
        .await
        .expect("a file");
    // The third byte is the first of `ü`.
    assert_eq!(part.text(), ("gr".into(), true));
    assert!(part.is_truncated && part.size_bytes == 7);
    let none = grounds
        .files
        .read(path("a/b.txt"), 0)
        .await
        .expect("a file");
    assert!(none.bytes.is_empty() && none.is_truncated);
}

#[tokio::test]
async fn bytes_that_are_no_utf8_are_told() {
    let grounds = Grounds::new().await;
    grounds.put("latin1", b"gr\xfc\xdfe");
    let read = grounds
        .files
        .read(path("latin1"), 100)
        .await
        .expect("a file");
    assert_eq!(read.text(), ("gr\u{fffd}\u{fffd}e".into(), false));
    assert_eq!(read.bytes, b"gr\xfc\xdfe");
}

#[tokio::test]
async fn only_regular_files_are_read_and_nothing_waits_for_a_pipe() {
    let grounds = Grounds::new().await;
    mkfifo(&grounds.tree().join("pipe"));
    let _socket = std::os::unix::net::UnixListener::bind(grounds.tree().join("socket"));
    grounds.put("folder/x", "");
    for name in ["pipe", "socket", "folder", "."] {
        let refused = grounds.files.read(path(name), 10).await.expect_err(name);
        assert!(matches!(refused, FilesError::WrongKind { .. }), "{refused}");
    }
    for name in ["none", "none/x", "folder/x/y"] {
        let refused = grounds.files.read(path(name), 10).await.expect_err(name);
        assert!(matches!(refused, FilesError::NotFound { .. }), "{refused}");
    }
}

#[tokio::test]
async fn a_folder_is_listed_by_name_with_kinds_sizes_and_where_links_lead() {
    let grounds = Grounds::new().await;
    grounds.put("b", "12345");
    grounds.put("a/x", "");
    grounds.link("c", "/nowhere\n");
    mkfifo(&grounds.tree().join("d"));
    let listing = grounds
        .files
        .list(TreePath::root(), 10)
        .await
        .expect("a folder");
    assert!(!listing.is_truncated);
    let told: Vec<_> = listing
        .entries
        .iter()
        .map(|entry| (entry.name.as_slice(), entry.kind))
        .collect();
    let expected: [(&[u8], EntryKind); 4] = [
        (b"a", EntryKind::Folder),
        (b"b", EntryKind::File),
        (b"c", EntryKind::Link),
        (b"d", EntryKind::Other),
    ];
    assert_eq!(told, expected);
    assert_eq!(listing.entries[1].size_bytes, 5);
    assert_eq!(
        listing.entries[2].link_target.as_deref(),
        Some(&b"/nowhere\n"[..])
    );
    let part = grounds
        .files
        .list(TreePath::root(), 2)
        .await
        .expect("a folder");
    assert!(part.is_truncated && part.entries.len() == 2);
    let refused = grounds
        .files
        .list(path("b"), 10)
        .await
        .expect_err("no folder");
    assert!(
        matches!(refused, FilesError::WrongKind { is: "a file", .. }),
        "{refused}"
    );
}

#[tokio::test]
async fn names_of_any_bytes_can_be_listed_read_and_removed() {
    let grounds = Grounds::new().await;
    let names: [&[u8]; 3] = [b"a\nb", b"x -> y", b"\xff\xfe"];
    for name in names {
        std::fs::write(grounds.tree().join(OsStr::from_bytes(name)), name).expect("a file");
    }
    let listing = grounds
        .files
        .list(TreePath::root(), 10)
        .await
        .expect("a folder");
    let told: Vec<_> = listing
        .entries
        .iter()
        .map(|entry| entry.name.as_slice())
        .collect();
    assert_eq!(told, names);
    for name in names {
        let path = TreePath::parse(name).expect("a path");
        let read = grounds.files.read(path.clone(), 10).await.expect("a file");
        assert_eq!(read.bytes, name);
        grounds.files.remove(path).await.expect("removed");
    }
    assert_eq!(
        std::fs::read_dir(grounds.tree()).expect("a tree").count(),
        0
    );
}

#[tokio::test]
async fn the_tree_that_was_opened_stays_the_one_that_is_read() {
    let grounds = Grounds::new().await;
    grounds.put("x", "mine");
    std::fs::rename(grounds.tree(), grounds.folder.path().join("moved")).expect("renamed");
    grounds.put("x", "another's");
    let read = grounds.files.read(path("x"), 10).await.expect("a file");
    assert_eq!(read.bytes, b"mine");
}

#[tokio::test]
async fn a_link_is_no_tree() {
    let grounds = Grounds::new().await;
    let link = grounds.folder.path().join("link");
    std::os::unix::fs::symlink(grounds.outside(), &link).expect("a link");
    let pool = unstall_sandbox_core::blocking_pool::BlockingPool::new(1).expect("a thread");
    let opened = unstall_sandbox_core::files::TreeFiles::open(link, pool).await;
    assert!(opened.is_err());
}
