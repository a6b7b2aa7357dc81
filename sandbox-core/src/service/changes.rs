//! What git says of a workspace, and what is committed and pushed of it.

use std::path::PathBuf;

use jiff::Timestamp;

use super::disk::Spared;
use super::{FaultPoint, SandboxService, ServiceError, as_read};
use crate::domain::{
    AuthToken, BranchName, CommandKind, CommitId, ConflictCause, FencingToken, GitHost,
    PlatformError, SandboxError, Subject, Workspace, WorkspaceError, WorkspaceId,
    to_the_microsecond,
};
use crate::ports::locks::{LockClass, LockName};
use crate::ports::platforms::PullRequestDraft;
use crate::ports::workbench::OpenedPullRequest;
use crate::ports::workspaces::{
    CommitIdentity, CommitRequest, DiffBase, Pushed, TreeDiff, TreeStatus,
};

/// What to commit.
#[derive(Debug, Clone)]
pub struct CommitOrder {
    /// The message.
    pub message: String,
    /// These paths only, relative to the tree; all changes if there are none.
    pub paths: Vec<PathBuf>,
    /// By whom.
    pub identity: CommitIdentity,
}

impl SandboxService {
    /// How a workspace differs from what others have. If git says that it is clean, its record says so
    /// from then on.
    ///
    /// # Errors
    /// `Locked`, and those of git, the store and the lock.
    pub async fn status(&self, id: WorkspaceId) -> Result<TreeStatus, ServiceError> {
        let work = async |token| {
            let workspace = self.ready_workspace(id).await?;
            let (store, now) = (&self.adapters.store, Timestamp::now());
            store.touch_workspace(id, Some(token), now).await?;
            self.look(&workspace, token).await
        };
        self.with_commands(id, LockClass::Read, work).await
    }

    /// A workspace's difference as a patch, of `bytes_max` bytes at most.
    ///
    /// # Errors
    /// `Locked`, and those of git, the store and the lock.
    pub async fn diff(
        &self,
        id: WorkspaceId,
        base: &DiffBase,
        bytes_max: usize,
    ) -> Result<TreeDiff, ServiceError> {
        let work = async |_| {
            let workspace = self.ready_workspace(id).await?;
            let path = &workspace.local_path;
            Ok(self.adapters.trees.diff(path, base, bytes_max).await?)
        };
        self.with_commands(id, LockClass::Read, work).await
    }

    /// Commits changes of a workspace, of which the record still says that it holds what nobody else
    /// has: the commit.
    ///
    /// # Errors
    /// `Unauthorized` when it is for reading, `Locked`, and those of git, the store and the lock.
    pub async fn commit(
        &self,
        id: WorkspaceId,
        order: &CommitOrder,
    ) -> Result<CommitId, ServiceError> {
        let work = || self.commit_once(id, order);
        self.with_room(Spared::Workspace(id), work).await
    }

    async fn commit_once(
        &self,
        id: WorkspaceId,
        order: &CommitOrder,
    ) -> Result<CommitId, ServiceError> {
        let work = async |token| {
            let workspace = self.ready_workspace(id).await?;
            check_writable(&workspace)?;
            let (store, now) = (&self.adapters.store, Timestamp::now());
            store.mark_workspace_dirty(id, token, now).await?;
            let request = CommitRequest {
                message: &order.message,
                paths: &order.paths,
                identity: &order.identity,
            };
            let path = &workspace.local_path;
            let commit = self.adapters.trees.commit(path, request).await?;
            self.faults.pass(FaultPoint::Committed);
            Ok(commit)
        };
        self.with_commands(id, LockClass::Write, work).await
    }

    /// Pushes a workspace's branch to the origin. The token is for this call and nowhere else.
    ///
    /// # Errors
    /// `InvalidPath` when it is for reading, `Scheme` when its repository is reached by a scheme that isn't
    /// allowed, `Locked`, and those of git, the store and the lock.
    pub async fn push(
        &self,
        id: WorkspaceId,
        token: Option<&AuthToken>,
    ) -> Result<Pushed, ServiceError> {
        let work = async |commands_token| {
            let workspace = self.ready_workspace(id).await?;
            check_writable(&workspace)?;
            let (store, now) = (&self.adapters.store, Timestamp::now());
            store.touch_workspace(id, Some(commands_token), now).await?;
            let cache_id = workspace.repo_cache_id;
            let cache = store.find_cache(cache_id).await?;
            let cache = cache.ok_or(SandboxError::NotFound(Subject::Cache(cache_id)))?;
            self.check_scheme(&cache.repo_url)?;
            let path = &workspace.local_path;
            let trees = &self.adapters.trees;
            let pushed = trees.push(path, &cache.repo_url, token).await?;
            self.look(&workspace, commands_token).await?;
            Ok(pushed)
        };
        self.with_commands(id, LockClass::Write, work).await
    }

    /// Makes a pull request of a workspace's branch, which is pushed.
    ///
    /// # Errors
    /// `NotConfigured` without a platform, `PullRequestFailed`, and those of the store.
    pub async fn create_pull_request(
        &self,
        id: WorkspaceId,
        into: &BranchName,
        title: &str,
        body: &str,
        token: Option<&AuthToken>,
    ) -> Result<OpenedPullRequest, ServiceError> {
        let workspace = self.ready_workspace(id).await?;
        check_writable(&workspace)?;
        let cache_id = workspace.repo_cache_id;
        let cache = self.adapters.store.find_cache(cache_id).await?;
        let cache = cache.ok_or(SandboxError::NotFound(Subject::Cache(cache_id)))?;
        let not_configured = || -> ServiceError {
            let host: GitHost = cache.repo_url.host().clone();
            PlatformError::NotConfigured(host).into()
        };
        let platform = self.adapters.platform.as_ref().ok_or_else(not_configured)?;
        let branch = workspace.branch_name.as_ref().ok_or_else(not_configured)?;
        let draft = PullRequestDraft {
            url: &cache.repo_url,
            branch,
            into,
            title,
            body,
            token,
        };
        Ok(platform.create_pull_request(draft).await?)
    }

    /// Asks git about a tree, and says in its record that it is clean if git does, unless somebody has
    /// announced to write meanwhile. For whoever holds the lock on its commands, with that token.
    pub(super) async fn look(
        &self,
        workspace: &Workspace,
        token: FencingToken,
    ) -> Result<TreeStatus, ServiceError> {
        let status = self.adapters.trees.status(&workspace.local_path).await?;
        if !workspace.dirty || status.is_dirty() {
            return Ok(status);
        }
        let (id, now) = (workspace.id, Timestamp::now());
        let store = &self.adapters.store;
        let version = workspace.version;
        match store.mark_workspace_clean(id, version, token, now).await {
            Ok(_) => {}
            Err(SandboxError::Conflict {
                cause: ConflictCause::Version { .. },
                ..
            }) => tracing::debug!(workspace = %id, "it was written meanwhile, and stays dirty"),
            Err(error) => return Err(error.into()),
        }
        Ok(status)
    }

    /// Measures what a workspace takes on disk, for whoever holds its lock.
    pub(super) async fn measure(
        &self,
        mut workspace: Workspace,
        token: FencingToken,
    ) -> Result<Workspace, ServiceError> {
        let size_bytes = self.adapters.trees.size_of(&workspace.local_path).await?;
        workspace.size_bytes = Some(size_bytes);
        workspace.updated_at = to_the_microsecond(Timestamp::now());
        let when = as_read(workspace.version, token);
        Ok(self
            .adapters
            .store
            .update_workspace(&workspace, when)
            .await?)
    }

    /// Does `work` in a workspace's tree, of which the path is handed to it, as a command of that kind
    /// would: if it may write, alone, and the record says so before.
    ///
    /// # Errors
    /// `InvalidPath` when the workspace is for reading and the work isn't, `Locked`, those of the work,
    /// the store and the lock.
    pub async fn in_tree<T, F>(
        &self,
        id: WorkspaceId,
        kind: CommandKind,
        work: impl FnOnce(PathBuf) -> F + Send,
    ) -> Result<T, ServiceError>
    where
        F: Future<Output = Result<T, ServiceError>> + Send,
    {
        let class = if kind.is_mutating() {
            LockClass::Write
        } else {
            LockClass::Read
        };
        let work = async move |token| {
            let workspace = self.ready_workspace(id).await?;
            let (store, now) = (&self.adapters.store, Timestamp::now());
            if kind.is_mutating() {
                check_writable(&workspace)?;
                store.mark_workspace_dirty(id, token, now).await?;
            } else {
                store.touch_workspace(id, Some(token), now).await?;
            }
            work(self.tree_of(&workspace)?).await
        };
        self.with_commands(id, class, work).await
    }

    /// Does `work` under the lock on a workspace's commands.
    pub(super) async fn with_commands<T, F>(
        &self,
        id: WorkspaceId,
        class: LockClass,
        work: impl FnOnce(FencingToken) -> F + Send,
    ) -> Result<T, ServiceError>
    where
        F: Future<Output = Result<T, ServiceError>> + Send,
    {
        let name = LockName::workspace_command(id);
        let wait_max = self.settings.lock_wait;
        let done = self.under(&name, class, wait_max, work).await;
        done.map_err(|error| error.about_commands(id))
    }
}

/// May it be changed?
pub(super) fn check_writable(workspace: &Workspace) -> Result<(), ServiceError> {
    if workspace.capabilities().writable {
        return Ok(());
    }
    let path = workspace.local_path.as_str().to_owned();
    let reason = "the workspace is for reading; ask for one that edits";
    Err(WorkspaceError::InvalidPath { path, reason }.into())
}
