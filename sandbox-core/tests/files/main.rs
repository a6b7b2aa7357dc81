//! Files of a real tree, with commands in it that do their worst: nothing leads out of it, nothing is
//! half written, nothing waits for ever.
#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk beside what they test, on threads of their own"
)]

use std::path::Path;

use tempfile::TempDir;
use unstall_sandbox_core::blocking_pool::BlockingPool;
use unstall_sandbox_core::domain::TreePath;
use unstall_sandbox_core::files::TreeFiles;

mod changing;
mod links;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod proof;
mod reading;
mod searching;

/// A tree with a folder beside it that nothing in the tree may reach.
struct Grounds {
    folder: TempDir,
    files: TreeFiles,
}

impl Grounds {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("tree")).expect("a tree");
        std::fs::create_dir(folder.path().join("outside")).expect("a folder beside it");
        std::fs::write(folder.path().join("outside/secret"), "secret").expect("a file");
        let pool = BlockingPool::new(4).expect("threads");
        let files = TreeFiles::open(folder.path().join("tree"), pool)
            .await
            .expect("a tree");
        Self { folder, files }
    }

    fn tree(&self) -> std::path::PathBuf {
        self.folder.path().join("tree")
    }

    fn outside(&self) -> std::path::PathBuf {
        self.folder.path().join("outside")
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.tree().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, content).expect("a file");
    }

    fn link(&self, path: &str, target: impl AsRef<Path>) {
        let path = self.tree().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::os::unix::fs::symlink(target, path).expect("a link");
    }

    fn content(&self, path: &str) -> String {
        std::fs::read_to_string(self.tree().join(path)).expect(path)
    }

    /// Nothing was changed beside the tree, and no unfinished file is in it.
    fn assert_unharmed(&self) {
        let outside: Vec<_> = std::fs::read_dir(self.outside())
            .expect("a folder")
            .collect();
        assert_eq!(outside.len(), 1, "{outside:?}");
        let secret = std::fs::read_to_string(self.outside().join("secret"));
        assert_eq!(secret.expect("a file"), "secret");
        for entry in std::fs::read_dir(self.tree()).expect("a tree") {
            let name = entry.expect("an entry").file_name();
            assert!(
                !name.to_string_lossy().starts_with(".unstall-write-"),
                "{name:?}"
            );
        }
    }
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text).expect(text)
}

fn mkfifo(path: &Path) {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
}
