//! A handle's commands and git.

use std::path::PathBuf;

use super::WorkspaceHandle;
use crate::domain::{BranchName, Capabilities, CommandKind, CommitId, SandboxError};
use crate::ports::Answer;
use crate::ports::runtimes::{ExecRequest, ExecResult};
use crate::ports::workbench::{OpenedPullRequest, Workbench, WorkbenchError};
use crate::ports::workspaces::{DiffBase, Pushed, TreeDiff, TreeStatus};
use crate::service::{CommandOrder, CommitOrder, ServiceError};

impl Workbench for WorkspaceHandle {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn exec(
        &self,
        request: ExecRequest,
        kind: CommandKind,
    ) -> Answer<'_, ExecResult, WorkbenchError> {
        Box::pin(async move {
            let kind = Some(kind);
            let order = CommandOrder { request, kind };
            Ok(self.service.exec(self.id, order).await?)
        })
    }

    fn status(&self) -> Answer<'_, TreeStatus, WorkbenchError> {
        Box::pin(async move { Ok(self.service.status(self.id).await?) })
    }

    fn diff(&self, base: DiffBase, bytes_max: usize) -> Answer<'_, TreeDiff, WorkbenchError> {
        Box::pin(async move { Ok(self.service.diff(self.id, &base, bytes_max).await?) })
    }

    fn commit(&self, message: String, paths: Vec<PathBuf>) -> Answer<'_, CommitId, WorkbenchError> {
        Box::pin(async move {
            let order = CommitOrder {
                message,
                paths,
                identity: self.identity.clone(),
            };
            Ok(self.service.commit(self.id, &order).await?)
        })
    }

    fn push(&self) -> Answer<'_, Pushed, WorkbenchError> {
        Box::pin(async move { Ok(self.service.push(self.id, self.access.as_deref()).await?) })
    }

    fn open_pull_request(
        &self,
        title: String,
        body: String,
    ) -> Answer<'_, OpenedPullRequest, WorkbenchError> {
        Box::pin(async move {
            let into = BranchName::parse(self.base.as_str()).map_err(SandboxError::from)?;
            let access = self.access.as_deref();
            let service = &self.service;
            Ok(service
                .create_pull_request(self.id, &into, &title, &body, access)
                .await?)
        })
    }
}

impl From<ServiceError> for WorkbenchError {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::Sandbox(error) => Self::Sandbox(error),
            ServiceError::Workspace(error) => Self::Workspace(error),
            ServiceError::Platform(error) => Self::Platform(error),
            ServiceError::Git(error) => Self::Git(error),
            ServiceError::Lock(error) => Self::Lock(error),
            ServiceError::Files(error) => Self::Files(error),
            error @ ServiceError::Disk { .. } => Self::Sandbox(SandboxError::Unavailable {
                service: "the disk",
                doing: "measuring it",
                source: Box::new(error),
            }),
            error @ ServiceError::Reserve { .. } => Self::Sandbox(SandboxError::Unavailable {
                service: "the disk",
                doing: "keeping space back on it",
                source: Box::new(error),
            }),
        }
    }
}
