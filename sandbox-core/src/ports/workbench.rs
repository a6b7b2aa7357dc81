//! The door from tools to a workspace: what an agent may do with the one workspace that it was given.
//!
//! The service implements it, under its locks: which workspace, user and branch it is about was decided
//! when it was made, and nothing that an agent says changes that.

use std::path::PathBuf;

use super::Answer;
use super::caches::GitError;
use super::files::{FileAccess, FilesError};
use super::locks::LockError;
use super::runtimes::{ExecRequest, ExecResult};
use super::workspaces::{DiffBase, Pushed, TreeDiff, TreeStatus};
use crate::domain::{
    Capabilities, CommandKind, CommitId, PlatformError, SandboxError, WorkspaceError,
};

/// A pull request that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedPullRequest {
    /// Its number at the code host.
    pub number: u64,
    /// Its page.
    pub url: String,
}

/// One workspace, its files included.
pub trait Workbench: FileAccess {
    /// What may be done with it.
    fn capabilities(&self) -> Capabilities;

    /// Runs a command in it. `kind` is the caller's claim: a command that is said to read runs where it
    /// can't write.
    fn exec(
        &self,
        request: ExecRequest,
        kind: CommandKind,
    ) -> Answer<'_, ExecResult, WorkbenchError>;

    /// How it differs from what others have.
    fn status(&self) -> Answer<'_, TreeStatus, WorkbenchError>;

    /// How it differs from a base, as a patch of `bytes_max` bytes at most.
    fn diff(&self, base: DiffBase, bytes_max: usize) -> Answer<'_, TreeDiff, WorkbenchError>;

    /// Commits these paths, or all changes if none is named, in its user's name.
    fn commit(&self, message: String, paths: Vec<PathBuf>) -> Answer<'_, CommitId, WorkbenchError>;

    /// Pushes its branch to the origin.
    fn push(&self) -> Answer<'_, Pushed, WorkbenchError>;

    /// Opens a pull request of its branch, which is pushed, against the project's base.
    fn open_pull_request(
        &self,
        title: String,
        body: String,
    ) -> Answer<'_, OpenedPullRequest, WorkbenchError>;
}

/// Why something wasn't done in a workspace: what whoever was asked said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkbenchError {
    /// Its files.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// Git.
    #[error(transparent)]
    Git(#[from] GitError),
    /// Its locks.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The code host.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// The service, the store or the runtime.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The workspace.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}
