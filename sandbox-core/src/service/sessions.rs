//! Sessions: a repository's cache and a workspace together, and what is left running when one ends.

use super::{CacheRequest, SandboxService, ServiceError};
use crate::domain::{RepoCache, SandboxError, Subject, Workspace, WorkspaceId, WorkspaceRequest};
use crate::ports::locks::LockClass;

/// What somebody works with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The repository's cache.
    pub cache: RepoCache,
    /// The working tree.
    pub workspace: Workspace,
}

impl SandboxService {
    /// A repository's cache and the workspace that a request asks for: both, or neither if this fails.
    /// To spare whoever comes next the wait, call [`prepare_for`](Self::prepare_for) afterwards.
    ///
    /// # Errors
    /// As [`get_or_create_workspace`](Self::get_or_create_workspace).
    pub async fn acquire_session(
        &self,
        request: &WorkspaceRequest,
    ) -> Result<Session, ServiceError> {
        let workspace = self.get_or_create_workspace(request).await?;
        let id = workspace.repo_cache_id;
        let found = self.adapters.store.find_cache(id).await?;
        let cache = found.ok_or(SandboxError::NotFound(Subject::Cache(id)))?;
        Ok(Session { cache, workspace })
    }

    /// Ends a session: its runtime is stopped, or destroyed, and its workspace stays with all edits.
    /// Ending it twice is ending it once.
    ///
    /// # Errors
    /// Those of the backend, git, the store and the lock.
    pub async fn release_session(
        &self,
        id: WorkspaceId,
        destroy_runtime: bool,
    ) -> Result<(), ServiceError> {
        let Some(workspace) = self.adapters.store.find_workspace(id).await? else {
            return Ok(());
        };
        if workspace.dirty {
            let look = async |token| {
                let workspace = self.ready_workspace(id).await?;
                self.look(&workspace, token).await.map(drop)
            };
            self.with_commands(id, LockClass::Read, look).await?;
        }
        if destroy_runtime {
            self.destroy_runtime(id).await
        } else {
            self.hibernate_runtime(id).await
        }
    }

    /// Makes a tree ready for whoever asks for the same base next.
    ///
    /// # Errors
    /// As [`prepare_tree`](Self::prepare_tree), and those of a clone or fetch.
    pub async fn prepare_for(&self, request: &WorkspaceRequest) -> Result<bool, ServiceError> {
        let wanted = CacheRequest::of(request)?;
        let cache = self.ensure_repo_cache(&wanted).await?;
        self.prepare_tree(&cache, &request.base_ref).await
    }
}
