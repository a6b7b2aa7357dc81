//! An origin, somebody who changes it, and a root for our caches and trees, in one temporary folder.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use unstall_sandbox_core::blocking_pool::BlockingPool;
use unstall_sandbox_core::domain::{
    AuthScopeHash, BaseRef, BranchName, CacheKey, ConversationId, LocalPath, PreparedTreeId,
    ProjectId, Purpose, RepoName, RepoUrl, UserId, WorkspaceId, WorkspaceKey, WorkspaceMode,
};
use unstall_sandbox_core::git::{GitTimes, LocalGit};
use unstall_sandbox_core::ports::caches::{CacheFacts, CacheSource, GitError, RepoCacheProvider};
use unstall_sandbox_core::ports::workspaces::{
    BranchRule, CommitIdentity, CommitRequest, NewTree, SavedEdits, TreeRequest, WorkspaceProvider,
};

/// Everything a test needs.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) git: LocalGit,
    pub(crate) url: RepoUrl,
    pub(crate) cache: LocalPath,
}

impl World {
    /// An origin with one commit on `trunk`, its default branch, of which there is no cache yet.
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        raw_git(
            path,
            &[
                "init",
                "--quiet",
                "--bare",
                "--initial-branch=trunk",
                "origin.git",
            ],
        );
        raw_git(path, &["init", "--quiet", "--initial-branch=trunk", "seed"]);
        let pool = BlockingPool::new(4).expect("threads");
        let git = LocalGit::open(path.join("root"), GitTimes::default(), pool)
            .await
            .expect("git is installed");
        let url = format!("file://{}", path.join("origin.git").display());
        let url = RepoUrl::parse(&url).expect("a URL");
        let key = CacheKey::new(url.host().clone(), &repo(), AuthScopeHash::public());
        let cache = RepoCacheProvider::path_of(&git, &key);
        let world = Self {
            folder,
            git,
            url,
            cache,
        };
        world.upstream("trunk", &[("README", "hello\n"), ("src/a.txt", "a\n")]);
        world
    }

    /// The same with a cache.
    pub(crate) async fn cached() -> Self {
        let world = Self::new().await;
        world.ensure().await.expect("a cache");
        world
    }

    /// Writes files, commits them to a branch and pushes that; answers the commit.
    pub(crate) fn upstream(&self, branch: &str, files: &[(&str, &str)]) -> String {
        let seed = self.folder.path().join("seed");
        if raw_git(&seed, &["branch", "--show-current"]).trim() != branch {
            raw_git(&seed, &["checkout", "--quiet", "-B", branch]);
        }
        for (path, text) in files {
            let path = seed.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            std::fs::write(path, text).expect("a file");
        }
        raw_git(&seed, &["add", "--all"]);
        raw_git(
            &seed,
            &["commit", "--quiet", "--allow-empty", "-m", "upstream"],
        );
        self.raw_push(&[&format!("+{branch}")]);
        raw_git(&seed, &["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// Pushes refspecs to the origin, by a raw git.
    pub(crate) fn raw_push(&self, refspecs: &[&str]) {
        let mut arguments = vec!["push", "--quiet", "../origin.git"];
        arguments.extend(refspecs);
        raw_git(&self.folder.path().join("seed"), &arguments);
    }

    /// The commit of a reference at the origin.
    pub(crate) fn at_origin(&self, reference: &str) -> String {
        let origin = self.folder.path().join("origin.git");
        raw_git(&origin, &["rev-parse", reference])
            .trim()
            .to_owned()
    }

    pub(crate) fn source(&self) -> CacheSource<'_> {
        CacheSource {
            path: &self.cache,
            url: &self.url,
            token: None,
        }
    }

    pub(crate) async fn ensure(&self) -> Result<CacheFacts, GitError> {
        self.git.ensure(self.source()).await
    }

    pub(crate) async fn fetch(&self) -> Result<CacheFacts, GitError> {
        self.git.fetch(self.source()).await
    }

    /// The cache's full path.
    pub(crate) fn cache_dir(&self) -> PathBuf {
        self.cache.under(self.git.root())
    }

    /// A new path for a workspace.
    pub(crate) fn new_path(&self) -> LocalPath {
        WorkspaceProvider::path_of(
            &self.git,
            &self.cache,
            WorkspaceMode::Edit,
            WorkspaceId::generate(),
        )
    }

    /// A new path for a prepared tree.
    pub(crate) fn new_prepared_path(&self) -> LocalPath {
        self.git
            .prepared_path_of(&self.cache, PreparedTreeId::generate())
    }

    pub(crate) async fn create_at(
        &self,
        path: &LocalPath,
        branch: &str,
    ) -> Result<NewTree, GitError> {
        let (base, branch) = (base("trunk"), on(branch));
        let request = TreeRequest {
            path,
            base: &base,
            branch: &branch,
        };
        self.git.create(request).await
    }

    /// A new tree on a new branch.
    pub(crate) async fn tree(&self, branch: &str) -> Tree {
        let path = self.new_path();
        self.create_at(&path, branch).await.expect("a tree");
        self.at(path)
    }

    /// The tree at a path.
    pub(crate) fn at(&self, path: LocalPath) -> Tree {
        let place = self.git.locate(&path).expect("a tree's path");
        Tree {
            path,
            dir: place.tree,
            git_dir: place.git_dir,
        }
    }

    pub(crate) async fn remove(&self, path: &LocalPath) {
        WorkspaceProvider::remove(&self.git, path)
            .await
            .expect("it can be removed");
    }

    /// Commits all changes of a tree.
    pub(crate) async fn commit(&self, tree: &Tree, message: &str) -> Result<String, GitError> {
        let identity = CommitIdentity::new("Ada", "ada@example.org").expect("an identity");
        let request = CommitRequest {
            message,
            paths: &[],
            identity: &identity,
        };
        let commit = self.git.commit(&tree.path, request).await?;
        Ok(commit.to_string())
    }

    /// Saves a tree's edits as those of a workspace of which nobody has heard.
    pub(crate) async fn save(&self, tree: &Tree) -> Result<SavedEdits, GitError> {
        let id = WorkspaceId::generate();
        self.git.save(&tree.path, id, &key(&id.to_string())).await
    }
}

/// A tree and where its parts are.
pub(crate) struct Tree {
    pub(crate) path: LocalPath,
    pub(crate) dir: PathBuf,
    pub(crate) git_dir: PathBuf,
}

impl Tree {
    pub(crate) fn write(&self, path: impl AsRef<Path>, text: &str) {
        let path = self.dir.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(path, text).expect("a file");
    }

    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        std::fs::read_to_string(self.dir.join(path)).ok()
    }

    /// What a raw git answers that is told the tree's git directory.
    pub(crate) fn raw(&self, arguments: &[&str]) -> String {
        let git_dir = format!("--git-dir={}", self.git_dir.display());
        let mut all = vec![git_dir.as_str()];
        all.extend(arguments);
        raw_git(&self.dir, &all)
    }
}

pub(crate) fn repo() -> RepoName {
    RepoName::parse("octo/hello").expect("a name")
}

/// The key of a conversation's workspace.
pub(crate) fn key(conversation: &str) -> WorkspaceKey {
    let conversation = ConversationId::parse(conversation).expect("an id");
    WorkspaceKey {
        user_id: UserId::parse("u").expect("a user"),
        project_id: ProjectId::parse("p").expect("a project"),
        purpose: Purpose::Conversation(conversation),
    }
}

pub(crate) fn base(text: &str) -> BaseRef {
    BaseRef::parse(text).expect("a base")
}

/// On this branch, which may be made.
pub(crate) fn on(branch: &str) -> BranchRule {
    BranchRule::On {
        branch: BranchName::parse(branch).expect("a branch"),
        may_create: true,
    }
}

/// What a git answers that isn't ours. It must succeed.
pub(crate) fn raw_git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(directory)
        .args(["-c", "protocol.file.allow=always"])
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "Upstream")
        .env("GIT_AUTHOR_EMAIL", "up@example.org")
        .env("GIT_COMMITTER_NAME", "Upstream")
        .env("GIT_COMMITTER_EMAIL", "up@example.org")
        .output()
        .expect("git runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// All names below a folder, and the content of all files, as bytes to search in.
pub(crate) fn everything_below(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            bytes.extend(path.as_os_str().as_bytes());
            let kind = path.symlink_metadata().expect("an entry").file_type();
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                bytes.extend(std::fs::read(path).expect("a file"));
            }
        }
    }
    bytes
}
