//! A bench for a test: an origin, a root, a store, and services on them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;
use unstall_sandbox_core::blocking_pool::BlockingPool;
use unstall_sandbox_core::client::SandboxClient;
use unstall_sandbox_core::domain::{
    BaseRef, BranchName, ConversationId, ProjectId, RepoName, RepoUrl, TaskId, UrlScheme, UserId,
    WorkerId, Workspace, WorkspaceId, WorkspaceMode, WorkspaceRequest,
};
use unstall_sandbox_core::git::{GitTimes, LocalGit};
use unstall_sandbox_core::locks::LocalLocks;
use unstall_sandbox_core::ports::locks::LockManager;
use unstall_sandbox_core::ports::runtimes::{ExecRequest, ExecResult};
use unstall_sandbox_core::ports::store::SandboxStore;
use unstall_sandbox_core::ports::workspaces::{CommitIdentity, SavedEdits};
use unstall_sandbox_core::runtime::{Bubblewrap, BubblewrapSettings, SupervisorProgram};
use unstall_sandbox_core::service::{
    Adapters, CommandOrder, Faults, SandboxService, ServiceError, Settings,
};
use unstall_sandbox_core::stores::SqliteStore;

/// What workers share, and what one of them is made of.
pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) locks: LocalLocks,
    pub(crate) pool: BlockingPool,
}

impl Bench {
    /// An origin with one commit on `main`, and an empty store.
    pub(crate) async fn new() -> Self {
        Self::within(TempDir::new().expect("a folder")).await
    }

    /// The same in a folder of the caller's.
    pub(crate) async fn within(folder: TempDir) -> Self {
        let origin = folder.path().join("origin");
        std::fs::create_dir(&origin).expect("a folder");
        git(&origin, &["init", "-q", "-b", "main"]);
        git(&origin, &["config", "receive.denyCurrentBranch", "ignore"]);
        let store = SqliteStore::open(&store_file(folder.path())).await;
        let store = store.expect("a store");
        store.migrate().await.expect("tables");
        let bench = Self {
            folder,
            store: Arc::new(store),
            locks: LocalLocks::new(),
            pool: BlockingPool::new(8).expect("threads"),
        };
        bench.push("read.me", "one\n");
        bench
    }

    pub(crate) fn origin(&self) -> PathBuf {
        self.folder.path().join("origin")
    }

    /// A commit more at the origin's `main`.
    pub(crate) fn push(&self, name: &str, text: &str) {
        let origin = self.origin();
        std::fs::write(origin.join(name), text).expect("a file");
        git(&origin, &["add", "-A"]);
        git(&origin, &["commit", "-q", "-m", name]);
    }

    /// A worker.
    pub(crate) async fn worker(&self) -> Arc<SandboxService> {
        self.worker_with(|_| {}).await
    }

    /// A worker with other settings.
    pub(crate) async fn worker_with(
        &self,
        change: impl FnOnce(&mut Settings),
    ) -> Arc<SandboxService> {
        self.worker_on(Arc::new(self.locks.clone()), change).await
    }

    /// A worker with other locks.
    pub(crate) async fn worker_on(
        &self,
        locks: Arc<dyn LockManager>,
        change: impl FnOnce(&mut Settings),
    ) -> Arc<SandboxService> {
        let store = Arc::clone(&self.store);
        let pool = self.pool.clone();
        worker_in(self.folder.path(), store, locks, pool, change).await
    }

    /// Edits of a conversation.
    pub(crate) fn edits(&self, conversation: &str) -> WorkspaceRequest {
        WorkspaceRequest {
            user_id: UserId::parse("u").expect("an id"),
            project_id: ProjectId::parse("p").expect("an id"),
            repo_name: RepoName::parse("octo/hello").expect("a name"),
            repo_url: Some(self.url()),
            base_ref: BaseRef::parse("main").expect("a base"),
            mode: WorkspaceMode::Edit,
            conversation_id: Some(ConversationId::parse(conversation).expect("an id")),
            task_id: None,
            branch_name: None,
            create_branch: false,
            auth_token: None,
        }
    }

    /// Reading of `main`.
    pub(crate) fn reading(&self) -> WorkspaceRequest {
        WorkspaceRequest {
            mode: WorkspaceMode::Analysis,
            conversation_id: None,
            ..self.edits("none")
        }
    }

    /// A task.
    pub(crate) fn task(&self, task: &str) -> WorkspaceRequest {
        WorkspaceRequest {
            mode: WorkspaceMode::Task,
            conversation_id: None,
            task_id: Some(TaskId::parse(task).expect("an id")),
            ..self.edits("none")
        }
    }

    fn url(&self) -> RepoUrl {
        let text = format!("file://{}", self.origin().display());
        RepoUrl::parse(&text).expect("a URL")
    }

    /// The record of a workspace.
    pub(crate) async fn row(&self, id: WorkspaceId) -> Workspace {
        let found = self
            .store
            .find_workspace(id)
            .await
            .expect("the store answers");
        found.expect("it is live")
    }

    /// The cache's folder.
    pub(crate) fn cache_dir(&self) -> PathBuf {
        let root = self.folder.path().join("root");
        find(&root, ".bare").expect("a cache")
    }

    /// What was saved of a workspace holds at a path, wherever beside the cache it lies.
    pub(crate) fn in_saved_of(&self, id: WorkspaceId, path: &str) -> String {
        let reference = format!("refs/sandbox/evicted/{id}");
        let saved = self.cache_dir().with_file_name(".saved");
        let stores = std::fs::read_dir(saved).expect("something was saved");
        let stores = stores.map(|entry| entry.expect("an entry").path());
        let mut of_it =
            stores.filter(|store| !git(store, &["for-each-ref", &reference]).is_empty());
        let store = of_it.next().expect("it was saved");
        git(&store, &["show", &format!("{reference}:{path}")])
    }
}

/// What saved edits hold at a path.
pub(crate) fn in_saved(saved: &SavedEdits, path: &str) -> String {
    git(
        &saved.store,
        &["show", &format!("{}:{path}", saved.reference)],
    )
}

/// The file of the store of a bench that is in that folder.
pub(crate) fn store_file(folder: &Path) -> PathBuf {
    folder.join("sandbox.sqlite")
}

/// A worker on a bench that is in that folder.
pub(crate) async fn worker_in(
    folder: &Path,
    store: Arc<SqliteStore>,
    locks: Arc<dyn LockManager>,
    pool: BlockingPool,
    change: impl FnOnce(&mut Settings),
) -> Arc<SandboxService> {
    let root = folder.join("root");
    let git = LocalGit::open(root, GitTimes::default(), pool.clone()).await;
    let git = Arc::new(git.expect("git"));
    let program = SupervisorProgram::at(env!("CARGO_BIN_EXE_unstall-sandbox"));
    let runtimes = Bubblewrap::probe(BubblewrapSettings::new(program), pool.clone()).await;
    let worker = WorkerId::parse(&WorkspaceId::generate().to_string()).expect("an id");
    let mut settings = Settings::below(git.root().to_owned(), worker).expect("settings");
    // The origin is a folder.
    settings.schemes = settings.schemes.and(UrlScheme::File);
    change(&mut settings);
    let adapters = Adapters {
        store: store as Arc<dyn SandboxStore>,
        locks,
        caches: Arc::clone(&git) as _,
        trees: git,
        runtimes: Arc::new(runtimes.expect("bubblewrap")),
        platform: None,
        pool,
    };
    Arc::new(SandboxService::new(adapters, settings, Faults::none()))
}

/// A client and the one who commits.
pub(crate) fn client(service: &Arc<SandboxService>) -> (SandboxClient, CommitIdentity) {
    let identity = CommitIdentity::new("Ada", "ada@example.org").expect("an identity");
    (SandboxClient::new(Arc::clone(service)), identity)
}

pub(crate) fn branch(name: &str) -> BranchName {
    BranchName::parse(name).expect("a branch")
}

/// A shell line, of the kind that its first words tell: writing.
pub(crate) fn shell(line: &str) -> CommandOrder {
    CommandOrder {
        request: ExecRequest::new(["sh", "-c", line]),
        kind: None,
    }
}

/// A workspace in which the file of the repository has other content, uncommitted.
pub(crate) async fn edited(worker: &SandboxService, request: &WorkspaceRequest) -> Workspace {
    let made = worker.get_or_create_workspace(request).await.expect("made");
    run(worker, made.id, "echo two > read.me")
        .await
        .expect("it runs");
    made
}

pub(crate) async fn run(
    service: &SandboxService,
    id: WorkspaceId,
    line: &str,
) -> Result<ExecResult, ServiceError> {
    service.exec(id, shell(line)).await
}

/// Runs git, and answers what it wrote.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(folder)
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.org"])
        .args(arguments)
        .output()
        .expect("git runs");
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The first folder of that name below another.
pub(crate) fn find(below: &Path, name: &str) -> Option<PathBuf> {
    for entry in std::fs::read_dir(below).ok()?.flatten() {
        let path = entry.path();
        if entry.file_name() == name {
            return Some(path);
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Some(found) = find(&path, name)
        {
            return Some(found);
        }
    }
    None
}
