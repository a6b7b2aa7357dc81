//! A handle's files: read beside others who read, written alone, on a tree that is opened for each call,
//! so that it is the one that the record means now.

use std::time::Duration;

use super::WorkspaceHandle;
use crate::domain::{CommandKind, SandboxError, TreePath, Workspace, WorkspaceError};
use crate::files::TreeFiles;
use crate::ports::Answer;
use crate::ports::files::{
    Entry, Expected, FileAccess, FileRead, FilesError, Listing, SearchFound, SearchRequest, Written,
};
use crate::ports::locks::{LockClass, LockError, LockName};
use crate::service::{SandboxService, ServiceError};

impl WorkspaceHandle {
    async fn with_files<T, F>(
        &self,
        kind: CommandKind,
        work: impl FnOnce(TreeFiles) -> F + Send,
    ) -> Result<T, FilesError>
    where
        F: Future<Output = Result<T, FilesError>> + Send,
    {
        let pool = self.service.adapters().pool.clone();
        let in_tree = async move |tree| {
            let files = TreeFiles::open(tree, pool).await?;
            Ok(work(files).await?)
        };
        let done = self.service.in_tree(self.id, kind, in_tree).await;
        done.map_err(of_files)
    }
}

impl FileAccess for WorkspaceHandle {
    fn read(&self, path: TreePath, bytes_max: usize) -> Answer<'_, FileRead, FilesError> {
        let work = async move |files: TreeFiles| files.read(path, bytes_max).await;
        Box::pin(self.with_files(CommandKind::Read, work))
    }

    fn write(
        &self,
        path: TreePath,
        bytes: Vec<u8>,
        expected: Expected,
    ) -> Answer<'_, Written, FilesError> {
        let work = async move |files: TreeFiles| files.write(path, bytes, expected).await;
        Box::pin(self.with_files(CommandKind::Write, work))
    }

    fn list(&self, path: TreePath, entries_max: usize) -> Answer<'_, Listing, FilesError> {
        let work = async move |files: TreeFiles| files.list(path, entries_max).await;
        Box::pin(self.with_files(CommandKind::Read, work))
    }

    fn stat(&self, path: TreePath) -> Answer<'_, Entry, FilesError> {
        let work = async move |files: TreeFiles| files.stat(path).await;
        Box::pin(self.with_files(CommandKind::Read, work))
    }

    fn make_folder(&self, path: TreePath) -> Answer<'_, (), FilesError> {
        let work = async move |files: TreeFiles| files.make_folder(path).await;
        Box::pin(self.with_files(CommandKind::Write, work))
    }

    fn remove(&self, path: TreePath) -> Answer<'_, (), FilesError> {
        let work = async move |files: TreeFiles| files.remove(path).await;
        Box::pin(self.with_files(CommandKind::Write, work))
    }

    fn search(&self, request: SearchRequest) -> Answer<'_, SearchFound, FilesError> {
        let work = async move |files: TreeFiles| files.search(request).await;
        Box::pin(self.with_files(CommandKind::Read, work))
    }
}

/// Removes what writes left that a crash ended, unless somebody writes right now.
pub(super) async fn sweep(
    service: &SandboxService,
    workspace: &Workspace,
) -> Result<(), ServiceError> {
    let name = LockName::workspace_command(workspace.id);
    let locks = &service.adapters().locks;
    let lease = match locks.acquire(&name, LockClass::Write, Duration::ZERO).await {
        Ok(lease) => lease,
        Err(LockError::Busy { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let tree = service.tree_of(workspace)?;
    let pool = service.adapters().pool.clone();
    let swept = lease
        .run(async { TreeFiles::open(tree, pool).await?.sweep().await })
        .await?;
    let removed = swept?;
    if removed > 0 {
        tracing::info!(workspace = %workspace.id, removed, "files were left half-written, and removed");
    }
    Ok(lease.release().await?)
}

/// What the service says, in the words of files.
fn of_files(error: ServiceError) -> FilesError {
    let unavailable = |service, source| {
        FilesError::Sandbox(SandboxError::Unavailable {
            service,
            doing: "using a workspace's files",
            source,
        })
    };
    match error {
        ServiceError::Files(error) => error,
        ServiceError::Sandbox(error) => FilesError::Sandbox(error),
        ServiceError::Workspace(WorkspaceError::Locked { waited_ms, .. })
        | ServiceError::Lock(LockError::Busy { waited_ms, .. }) => {
            FilesError::Sandbox(SandboxError::Timeout {
                doing: "waiting for others who change the workspace",
                limit_ms: waited_ms,
            })
        }
        ServiceError::Workspace(WorkspaceError::InvalidPath { path, reason }) => {
            FilesError::InvalidPath { path, reason }
        }
        error @ ServiceError::Lock(_) => unavailable("the lock", Box::new(error)),
        other => unavailable("the workspace", Box::new(other)),
    }
}
