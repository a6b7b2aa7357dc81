//! Caches and working trees on this machine's disk, by the git that is installed.
//!
//! **Whose word git takes.** Its environment is ours alone, its configuration is ours or in a git
//! directory that no command in a tree can write, and every call names that directory. So neither the
//! machine's settings nor anything in a repository or tree decides what git runs: no hook, filter, file
//! watcher, pager or foreign helper.
//!
//! **Where things lie**, below the root: `owner/repo/.bare` is a cache, `owner/repo/worktrees/NAME` holds
//! a workspace, with its `tree` and its own `git` directory, `owner/repo/prepared/NAME` a prepared one,
//! and `owner/repo/.saved/KEY` what was saved of one that went. What is being made or removed has a name
//! that begins with `.new-` or `.old-`. A rename is the last step of making and the first of removing.
//! `.sandbox` is nobody's repository, but holds what is ours.
//!
//! **Who has the objects.** A tree's git directory reads those of its cache and adds its own. The cache
//! never drops one, which git itself guards (`extensions.preciousObjects`), so nothing has to be told
//! to it about its trees. All who may read a repository read its cache, in their runtimes too, so nothing
//! of one user's edits is put there before it is pushed: what is saved has a repository of its own, which
//! reads the cache's objects and which no runtime is given.

mod caches;
mod commits;
mod credentials;
mod differences;
mod disk;
mod guard;
mod index_lock;
mod layout;
mod listing;
mod making;
mod process;
mod program;
mod pushing;
mod references;
mod removal;
mod restoring;
mod said;
mod saving;
mod status;
mod trees;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::blocking_pool::BlockingPool;
use crate::domain::OWN_FOLDER;
use crate::ports::caches::GitError;
use program::Git;

/// The oldest git whose options and answers are relied on.
const VERSION_MIN: (u32, u32) = (2, 40);

/// How long git may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GitTimes {
    /// For what talks to a code host: large repositories take minutes.
    pub network_max: Duration,
    /// For everything else.
    pub local_max: Duration,
}

impl Default for GitTimes {
    fn default() -> Self {
        Self {
            network_max: Duration::from_mins(20),
            local_max: Duration::from_mins(5),
        }
    }
}

/// Caches and trees below one root, for any number of callers.
#[derive(Debug, Clone)]
pub struct LocalGit {
    root: PathBuf,
    git: Git,
}

impl LocalGit {
    /// Makes the root if there is none, removes sockets there whose process is gone, and looks at which
    /// git is installed. From now on a shell waits for this process's end, however that comes, to end
    /// the gits that it leaves.
    ///
    /// # Errors
    /// `NoGit` when there is none or an old one, `Io` when the root can't be made or there is no `sh`.
    pub async fn open(
        root: PathBuf,
        times: GitTimes,
        pool: BlockingPool,
    ) -> Result<Self, GitError> {
        let made = root.clone();
        let root = pool
            .run(move || {
                // What is in it is of many users, and of nobody else on this machine.
                let mut folders = std::fs::DirBuilder::new();
                folders
                    .recursive(true)
                    .mode(0o700)
                    .create(&made)
                    .and_then(|()| std::fs::canonicalize(&made))
                    .map_err(disk::failed("making the root", &made))
            })
            .await?;
        let sockets = sockets_below(&root);
        let swept = pool.run(move || credentials::sweep(&sockets)).await;
        if let Err(error) = swept {
            tracing::warn!(%error, "what a killed process left of a token's socket stays");
        }
        let git = Git::start(times, pool).await?;
        let version = git.version().await?;
        if version < VERSION_MIN {
            let (major, minor) = version;
            let source = std::io::Error::other(format!("it is version {major}.{minor}"));
            return Err(GitError::NoGit { source });
        }
        Ok(Self { root, git })
    }

    /// Where everything lies, as a full path without links.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where sockets of tokens are.
    fn socket_folder(&self) -> PathBuf {
        sockets_below(&self.root)
    }
}

fn sockets_below(root: &Path) -> PathBuf {
    root.join(OWN_FOLDER).join("run")
}
