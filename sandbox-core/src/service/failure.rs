//! What a use case can fail by: the domain's errors, and those of ports that the domain has no word for.

use std::io;
use std::path::PathBuf;

use super::reserve::is_full;
use crate::domain::{
    BaseRef, CacheKey, ConflictCause, Invalid, PlatformError, SandboxError, Subject, Workspace,
    WorkspaceError, WorkspaceId, WorkspaceState,
};
use crate::ports::caches::GitError;
use crate::ports::files::FilesError;
use crate::ports::locks::LockError;

/// Why a use case wasn't done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// With workspaces, runtimes or their store.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// With a working tree.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// With a code host.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// With git or the disk under it.
    #[error(transparent)]
    Git(GitError),
    /// With a lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// With a tree's files.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// With the disk itself.
    #[error("the disk of {root} can't be measured: {source}; see that the folder is there")]
    Disk {
        /// The folder that was asked about.
        root: String,
        /// What the system said.
        source: io::Error,
    },
    /// With the space that is kept back on it.
    #[error("the reserve {} can't be kept: {source}; see that the folder is there and that we may write in it", file.display())]
    Reserve {
        /// The file that keeps it.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl ServiceError {
    /// Is it that no space is left, so that making room may help?
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Git(error) => is_disk_full(error),
            Self::Workspace(
                WorkspaceError::RepoCacheUnavailable { source, .. }
                | WorkspaceError::SavedEditsUnusable { source, .. },
            ) => source.downcast_ref::<GitError>().is_some_and(is_disk_full),
            Self::Files(FilesError::NoSpace { .. }) => true,
            _ => false,
        }
    }

    /// May it be that, though it doesn't say so? A store that can't write doesn't tell why.
    pub(super) fn may_be_disk_full(&self) -> bool {
        matches!(self, Self::Sandbox(SandboxError::Unavailable { .. }))
    }

    /// Was it only that others hold the lock?
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(
            self,
            Self::Lock(LockError::Busy { .. }) | Self::Workspace(WorkspaceError::Locked { .. })
        )
    }

    /// Did somebody else change or use it meanwhile?
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Sandbox(SandboxError::Conflict { .. }))
    }

    /// The same, as one about a repository's cache that was wanted for a base.
    pub(super) fn about_cache(self, key: &CacheKey, base: &BaseRef) -> Self {
        match self {
            Self::Git(error) => Self::Workspace(WorkspaceError::RepoCacheUnavailable {
                key: Box::new(key.clone()),
                base: base.clone(),
                source: Box::new(error),
            }),
            other => other,
        }
    }

    /// The same, as one about a workspace that others work in.
    pub(super) fn about_commands(self, workspace: WorkspaceId) -> Self {
        match self {
            Self::Lock(LockError::Busy { waited_ms, .. }) => {
                Self::Workspace(WorkspaceError::Locked {
                    workspace,
                    waited_ms,
                })
            }
            other => other,
        }
    }
}

impl From<GitError> for ServiceError {
    fn from(error: GitError) -> Self {
        match error {
            GitError::AuthFailed { host, url } => match url.repo() {
                Some(repo) => Self::Workspace(WorkspaceError::RepoAuthFailed {
                    host,
                    repo: repo.clone(),
                }),
                None => Self::Git(GitError::AuthFailed { host, url }),
            },
            GitError::Invalid(error) => Self::Sandbox(SandboxError::Invalid(error)),
            other => Self::Git(other),
        }
    }
}

impl From<Invalid> for ServiceError {
    fn from(error: Invalid) -> Self {
        Self::Sandbox(SandboxError::Invalid(error))
    }
}

fn is_disk_full(error: &GitError) -> bool {
    match error {
        GitError::DiskFull { .. } => true,
        GitError::Io { source, .. } => is_full(source),
        _ => false,
    }
}

/// Can commands run in it?
pub(super) fn check_ready(workspace: &Workspace) -> Result<(), ServiceError> {
    match workspace.state {
        // What couldn't be saved is still there to be worked with.
        WorkspaceState::Ready | WorkspaceState::EvictionBlocked => Ok(()),
        WorkspaceState::Deleted => Err(WorkspaceError::NotFound(workspace.id).into()),
        state => {
            let subject = Subject::Workspace(workspace.id);
            let cause = ConflictCause::NotReady {
                what: Box::new(subject.clone()),
                is: state.as_str(),
            };
            Err(SandboxError::conflict(subject, cause).into())
        }
    }
}
