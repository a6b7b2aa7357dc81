//! The door for agents and services: who asks gets a handle on one workspace, and works through that.
//!
//! A [`WorkspaceHandle`] is a [`Workbench`]: its files, commands, git and pull request, each under the
//! locks of the service. What it is about was settled when it was made.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::domain::{
    AuthToken, BaseRef, BranchName, Capabilities, RepoCache, WorkspaceId, WorkspaceRequest,
};
use crate::ports::workbench::Workbench;
use crate::ports::workspaces::CommitIdentity;
use crate::service::{CacheRequest, SandboxService, ServiceError};
use crate::tools::ToolBox;

mod bench;
mod files;

/// Gives out workspaces. Clones are the same.
#[derive(Clone)]
pub struct SandboxClient {
    service: Arc<SandboxService>,
}

/// One workspace, for whoever works in it. Clones are the same; it holds nothing that must be given
/// back, and its tree stays when it is dropped.
#[derive(Clone)]
pub struct WorkspaceHandle {
    service: Arc<SandboxService>,
    id: WorkspaceId,
    base: BaseRef,
    branch: Option<BranchName>,
    tree: PathBuf,
    capabilities: Capabilities,
    identity: CommitIdentity,
    access: Option<Arc<AuthToken>>,
}

impl SandboxClient {
    /// A client of that service.
    #[must_use]
    pub fn new(service: Arc<SandboxService>) -> Self {
        Self { service }
    }

    /// The workspace that a request asks for; asking again gets the same one. Commits are by `identity`.
    /// The request's token is kept in the handle's memory for its pushes.
    ///
    /// # Errors
    /// As [`SandboxService::get_or_create_workspace`].
    pub async fn get_workspace(
        &self,
        mut request: WorkspaceRequest,
        identity: CommitIdentity,
    ) -> Result<WorkspaceHandle, ServiceError> {
        let session = self.service.acquire_session(&request).await?;
        if session.workspace.dirty {
            files::sweep(&self.service, &session.workspace).await?;
        }
        let access = request.auth_token.take().map(Arc::new);
        self.handle_on(session.workspace.id, identity, access).await
    }

    /// A handle on a workspace that is there.
    ///
    /// # Errors
    /// `NotFound`, and those of the store.
    pub async fn handle_on(
        &self,
        id: WorkspaceId,
        identity: CommitIdentity,
        access: Option<Arc<AuthToken>>,
    ) -> Result<WorkspaceHandle, ServiceError> {
        let workspace = self.service.find_ready(id).await?;
        let tree = self.service.tree_of(&workspace)?;
        Ok(WorkspaceHandle {
            service: Arc::clone(&self.service),
            id,
            capabilities: workspace.capabilities(),
            base: workspace.base_ref,
            branch: workspace.branch_name,
            tree,
            identity,
            access,
        })
    }

    /// Ends the work in a workspace for now: its runtime is stopped, or destroyed, and its tree stays.
    ///
    /// # Errors
    /// As [`SandboxService::release_session`].
    pub async fn release_workspace(
        &self,
        handle: &WorkspaceHandle,
        destroy_runtime: bool,
    ) -> Result<(), ServiceError> {
        self.service
            .release_session(handle.id, destroy_runtime)
            .await
    }

    /// A repository's cache, cloned or fetched if it is missing or stale.
    ///
    /// # Errors
    /// As [`SandboxService::ensure_repo_cache`].
    pub async fn ensure_repo_cache(
        &self,
        request: &CacheRequest<'_>,
    ) -> Result<RepoCache, ServiceError> {
        self.service.ensure_repo_cache(request).await
    }

    /// The tools by which an agent works in a workspace: those that fit what may be done with it.
    #[must_use]
    pub fn tools(&self, handle: &WorkspaceHandle) -> ToolBox {
        let workbench: Arc<dyn Workbench> = Arc::new(handle.clone());
        ToolBox::for_handle(workbench)
    }
}

impl WorkspaceHandle {
    /// The workspace's id, by which it is found again.
    #[must_use]
    pub fn workspace_id(&self) -> WorkspaceId {
        self.id
    }

    /// Its branch; an analysis has none.
    #[must_use]
    pub fn branch(&self) -> Option<&BranchName> {
        self.branch.as_ref()
    }

    /// Where commands start, as they see it.
    #[must_use]
    pub fn working_dir(&self) -> &std::path::Path {
        &self.tree
    }

    /// Where its tree lies on this machine. Whoever writes there works around the locks.
    #[must_use]
    pub fn local_path(&self) -> Option<&std::path::Path> {
        Some(&self.tree)
    }
}

impl fmt::Debug for WorkspaceHandle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("WorkspaceHandle")
            .field("id", &self.id)
            .field("branch", &self.branch)
            .field("capabilities", &self.capabilities)
            .finish_non_exhaustive()
    }
}
