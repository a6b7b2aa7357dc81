//! What is written, made and removed: whole, as expected, or not at all.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use unstall_sandbox_core::ports::files::{Expected, FileAccess, FilesError};

use super::{Grounds, path};

async fn write(
    grounds: &Grounds,
    name: &str,
    content: &str,
    expected: Expected,
) -> Result<bool, FilesError> {
    let content = content.as_bytes().to_vec();
    let written = grounds.files.write(path(name), content, expected).await?;
    Ok(written.is_new)
}

#[tokio::test]
async fn a_new_file_gets_its_folders_and_an_old_one_keeps_its_mode() {
    let grounds = Grounds::new().await;
    assert!(
        write(&grounds, "a/b/c", "new", Expected::Anything)
            .await
            .expect("written")
    );
    assert_eq!(grounds.content("a/b/c"), "new");
    let mode = |name: &str| {
        let metadata = std::fs::metadata(grounds.tree().join(name)).expect(name);
        metadata.permissions().mode() & 0o7777
    };
    assert_eq!(mode("a/b/c"), 0o644);
    grounds.put("run.sh", "old");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(grounds.tree().join("run.sh"), executable).expect("a mode");
    assert!(
        !write(&grounds, "run.sh", "new", Expected::Anything)
            .await
            .expect("written")
    );
    assert_eq!(
        (grounds.content("run.sh").as_str(), mode("run.sh")),
        ("new", 0o755)
    );
    grounds.assert_unharmed();
}

#[tokio::test]
async fn a_file_of_somebody_else_stays_theirs() {
    use std::os::unix::fs::MetadataExt as _;
    let grounds = Grounds::new().await;
    grounds.put("file", "old");
    let file = grounds.tree().join("file");
    if let Err(error) = std::os::unix::fs::chown(&file, Some(1234), Some(1234)) {
        eprintln!("skipped: files can't be given away here ({error})");
        return;
    }
    let written = write(&grounds, "file", "new", Expected::Anything).await;
    assert!(!written.expect("written"));
    let metadata = std::fs::metadata(&file).expect("a file");
    assert_eq!((metadata.uid(), metadata.gid()), (1234, 1234));
    assert_eq!(grounds.content("file"), "new");
}

#[tokio::test]
async fn a_file_is_written_only_if_it_is_as_expected() {
    let grounds = Grounds::new().await;
    grounds.put("file", "one");
    let absent = write(&grounds, "file", "x", Expected::Absent).await;
    assert!(
        matches!(absent, Err(FilesError::AlreadyExists { .. })),
        "{absent:?}"
    );
    let read = grounds.files.read(path("file"), 10).await.expect("a file");
    let seen = Expected::Unchanged(read.version);
    assert!(
        !write(&grounds, "file", "two", seen)
            .await
            .expect("unchanged")
    );
    let again = write(&grounds, "file", "three", seen).await;
    assert!(
        matches!(again, Err(FilesError::Changed { .. })),
        "{again:?}"
    );
    std::fs::remove_file(grounds.tree().join("file")).expect("removed");
    let gone = write(&grounds, "file", "three", seen).await;
    assert!(matches!(gone, Err(FilesError::Changed { .. })), "{gone:?}");
    assert!(
        write(&grounds, "file", "four", Expected::Absent)
            .await
            .expect("absent")
    );
    grounds.assert_unharmed();
}

#[tokio::test]
async fn the_answer_of_a_write_is_what_the_next_one_expects() {
    let grounds = Grounds::new().await;
    let mut expected = Expected::Absent;
    for round in 0..20_u8 {
        let written = grounds
            .files
            .write(path("file"), vec![round], expected)
            .await;
        expected = Expected::Unchanged(written.expect("nobody else writes").version);
    }
}

#[tokio::test]
async fn git_and_the_root_are_kept_and_folders_are_no_files() {
    let grounds = Grounds::new().await;
    grounds.put("folder/x", "");
    for name in [".git/config", ".git", "sub/.GIT/hooks/pre-commit"] {
        let written = write(&grounds, name, "x", Expected::Anything).await;
        assert!(
            matches!(written, Err(FilesError::InvalidPath { .. })),
            "{name}: {written:?}"
        );
        assert!(grounds.files.make_folder(path(name)).await.is_err());
        assert!(grounds.files.remove(path(name)).await.is_err());
    }
    assert!(matches!(
        grounds.files.remove(path(".")).await,
        Err(FilesError::InvalidPath { .. })
    ));
    let folder = write(&grounds, "folder", "x", Expected::Anything).await;
    assert!(
        matches!(folder, Err(FilesError::WrongKind { is: "a folder", .. })),
        "{folder:?}"
    );
    let below_a_file = write(&grounds, "folder/x/y", "x", Expected::Anything).await;
    assert!(
        matches!(below_a_file, Err(FilesError::WrongKind { .. })),
        "{below_a_file:?}"
    );
    grounds.assert_unharmed();
}

#[tokio::test]
async fn folders_are_made_and_only_empty_ones_removed() {
    let grounds = Grounds::new().await;
    grounds.files.make_folder(path("a/b")).await.expect("made");
    grounds
        .files
        .make_folder(path("a/b"))
        .await
        .expect("it is there");
    grounds
        .files
        .make_folder(path(""))
        .await
        .expect("the root is there");
    let full = grounds.files.remove(path("a")).await;
    assert!(matches!(full, Err(FilesError::NotEmpty { .. })), "{full:?}");
    grounds.files.remove(path("a/b")).await.expect("removed");
    grounds.files.remove(path("a")).await.expect("removed");
    let gone = grounds.files.remove(path("a")).await;
    assert!(matches!(gone, Err(FilesError::NotFound { .. })), "{gone:?}");
    grounds.put("file", "");
    let on_a_file = grounds.files.make_folder(path("file")).await;
    assert!(
        matches!(on_a_file, Err(FilesError::WrongKind { .. })),
        "{on_a_file:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_reads_half_of_a_write() {
    let grounds = Grounds::new().await;
    let one = "1".repeat(300_000);
    let two = "2".repeat(200_000);
    grounds.put("file", &one);
    let is_over = Arc::new(AtomicBool::new(false));
    let reader = {
        let (file, is_over) = (grounds.tree().join("file"), Arc::clone(&is_over));
        let (one, two) = (one.clone(), two.clone());
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let read = std::fs::read_to_string(&file).expect("it is always there");
                assert!(read == one || read == two, "{} bytes", read.len());
            }
        })
    };
    for round in 0..100 {
        let content = if round % 2 == 0 { &two } else { &one };
        write(&grounds, "file", content, Expected::Anything)
            .await
            .expect("written");
    }
    is_over.store(true, Ordering::Relaxed);
    reader.join().expect("whole files");
}

/// What was begun before its answer was dropped may be done or not, but what is queued behind others
/// isn't done any more.
#[tokio::test]
async fn a_write_whose_answer_was_dropped_is_not_done_later() {
    let grounds = Grounds::new().await;
    for round in 0..50 {
        let name = format!("dropped-{round}");
        let write = grounds
            .files
            .write(path(&name), vec![0; 100_000], Expected::Anything);
        drop(tokio::time::timeout(std::time::Duration::ZERO, write).await);
    }
    let names = || {
        let entries = std::fs::read_dir(grounds.tree()).expect("a tree");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("one").file_name())
            .collect();
        names.sort();
        names
    };
    write(&grounds, "last", "x", Expected::Anything)
        .await
        .expect("written");
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let then = names();
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert_eq!(names(), then);
    for name in then
        .iter()
        .filter(|name| name.to_string_lossy().starts_with("dropped"))
    {
        assert_eq!(grounds.content(&name.to_string_lossy()).len(), 100_000);
    }
}

#[tokio::test]
async fn what_a_crash_left_is_swept_and_nothing_else() {
    let grounds = Grounds::new().await;
    grounds.put(".unstall-write-0123", "half");
    grounds.put("kept", "x");
    grounds.put("deep/.unstall-write-x", "somebody's own");
    assert_eq!(grounds.files.sweep().await.expect("swept"), 1);
    assert_eq!(grounds.files.sweep().await.expect("swept"), 0);
    assert!(grounds.tree().join("deep/.unstall-write-x").exists());
    grounds.assert_unharmed();
}

/// On a file system of 64 KiB of its own, where the machine lets us mount one.
#[tokio::test]
async fn a_full_disk_is_told_and_leaves_the_file_as_it_was() {
    let grounds = Grounds::new().await;
    let flags = rustix::mount::MountFlags::empty();
    let mounted = rustix::mount::mount("none", grounds.tree(), "tmpfs", flags, c"size=64k");
    if let Err(error) = mounted {
        eprintln!("skipped: no file system can be mounted here ({error})");
        return;
    }
    let pool = unstall_sandbox_core::blocking_pool::BlockingPool::new(1).expect("a thread");
    let files = unstall_sandbox_core::files::TreeFiles::open(grounds.tree(), pool)
        .await
        .expect("a tree");
    grounds.put("file", "old");
    let written = files
        .write(path("file"), vec![0; 200_000], Expected::Anything)
        .await;
    let content = grounds.content("file");
    let left = std::fs::read_dir(grounds.tree()).expect("a tree").count();
    drop(files);
    let detach = rustix::mount::UnmountFlags::DETACH;
    rustix::mount::unmount(grounds.tree(), detach).expect("unmounted");
    assert!(
        matches!(written, Err(FilesError::NoSpace { .. })),
        "{written:?}"
    );
    assert_eq!((content.as_str(), left), ("old", 1));
}
