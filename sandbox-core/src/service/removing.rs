//! How a workspace goes: said first, its changes saved, its runtime ended, its tree removed. Its
//! repository's cache stays.

use std::time::Duration;

use jiff::Timestamp;

use super::{FaultPoint, SandboxService, ServiceError, as_read};
use crate::domain::{FencingToken, Workspace, WorkspaceError, WorkspaceId, WorkspaceState};
use crate::ports::caches::GitError;
use crate::ports::locks::{LockClass, LockName};
use crate::ports::store::Precondition;
use crate::ports::workspaces::SavedEdits;

/// How a removal ended.
#[derive(Debug)]
pub(super) enum Removal {
    /// Nothing of it is on disk.
    Done {
        /// What was saved of it, if something would have been lost.
        saved: Option<SavedEdits>,
    },
    /// It couldn't be saved, so it is still there.
    Blocked {
        /// As it is now.
        workspace: Box<Workspace>,
        /// Why.
        reason: String,
    },
}

impl SandboxService {
    /// Removes a workspace, saving what would be lost, but no ignored files, beside its cache. Where is
    /// answered; whoever asks for the workspace next gets a tree that is made of it. One that isn't there
    /// is removed already, and one of which the tree is lost is given up.
    ///
    /// # Errors
    /// `EvictionBlocked`, with the reason, when its changes can't be saved: then it stays, and can be
    /// worked in. `Locked` when others work in it, and those of git, the store and the lock.
    pub async fn destroy_workspace(
        &self,
        id: WorkspaceId,
    ) -> Result<Option<SavedEdits>, ServiceError> {
        let Some(workspace) = self.adapters.store.find_workspace(id).await? else {
            return Ok(None);
        };
        let removal = self.remove_workspace(&workspace, None, self.settings.lock_wait);
        match self.with_reserve(removal).await? {
            Some(Removal::Done { saved }) => Ok(saved),
            Some(Removal::Blocked { workspace, reason }) => {
                let workspace = workspace.id;
                Err(WorkspaceError::EvictionBlocked { workspace, reason }.into())
            }
            None => Ok(None),
        }
    }

    /// The same under its locks. With `unused_since` it stays if it was used since; `None` is answered
    /// when it is gone already.
    pub(super) async fn remove_workspace(
        &self,
        found: &Workspace,
        unused_since: Option<Timestamp>,
        wait_max: Duration,
    ) -> Result<Option<Removal>, ServiceError> {
        let id = found.id;
        let name = LockName::workspace(&found.key);
        let work = async |token| {
            let Some(workspace) = self.adapters.store.find_workspace(id).await? else {
                return Ok(None);
            };
            if workspace.state == WorkspaceState::Creating {
                self.give_workspace_up(workspace, token).await?;
                return Ok(Some(Removal::Done { saved: None }));
            }
            let commands = LockName::workspace_command(id);
            let alone = async |_| self.begin_removal(workspace, unused_since, token).await;
            let removal = self
                .under(&commands, LockClass::Write, wait_max, alone)
                .await;
            removal.map(Some).map_err(|error| error.about_commands(id))
        };
        self.under(&name, LockClass::Write, wait_max, work).await
    }

    async fn begin_removal(
        &self,
        workspace: Workspace,
        unused_since: Option<Timestamp>,
        token: FencingToken,
    ) -> Result<Removal, ServiceError> {
        let evicting = match workspace.state {
            WorkspaceState::Evicting => workspace,
            _ => {
                // Nobody has named it, so nobody gives up what was in it.
                if unused_since.is_some() && workspace.dirty {
                    self.refuse_lost(&workspace).await?;
                }
                let when = Precondition {
                    version: workspace.version,
                    token,
                    unused_since,
                };
                let evicting = workspace.moved_to(WorkspaceState::Evicting, Timestamp::now())?;
                self.adapters
                    .store
                    .update_workspace(&evicting, when)
                    .await?
            }
        };
        self.go_on_removing(evicting, token).await
    }

    /// Refuses to end a workspace of which the tree is gone with uncommitted changes.
    async fn refuse_lost(&self, workspace: &Workspace) -> Result<(), ServiceError> {
        match self.adapters.trees.status(&workspace.local_path).await {
            Err(GitError::NotThere { .. }) => Err(self.tree_lost(workspace)),
            // Whatever else it is, saving it finds that out.
            _ => Ok(()),
        }
    }

    /// That a tree is gone with uncommitted changes.
    pub(super) fn tree_lost(&self, workspace: &Workspace) -> ServiceError {
        match self.tree_of(workspace) {
            Ok(path) => WorkspaceError::TreeLost {
                workspace: workspace.id,
                path: path.display().to_string(),
            }
            .into(),
            Err(error) => error,
        }
    }

    /// Finishes what a row says that goes. For whoever holds the workspace's lock.
    pub(super) async fn finish_removal(
        &self,
        workspace: Workspace,
        token: FencingToken,
    ) -> Result<Removal, ServiceError> {
        let id = workspace.id;
        let commands = LockName::workspace_command(id);
        let alone = |_| self.go_on_removing(workspace, token);
        let wait_max = self.settings.lock_wait;
        let removal = self
            .under(&commands, LockClass::Write, wait_max, alone)
            .await;
        removal.map_err(|error| error.about_commands(id))
    }

    async fn go_on_removing(
        &self,
        workspace: Workspace,
        token: FencingToken,
    ) -> Result<Removal, ServiceError> {
        self.faults.pass(FaultPoint::WorkspaceEvicting);
        self.end_runtime_of(workspace.id, token).await?;
        let saved = match self.save_if_needed(&workspace).await {
            Ok(saved) => saved,
            Err(error) => return self.block_removal(workspace, &error, token).await,
        };
        if saved.is_some() {
            // Before the row goes: an eviction of the cache that was decided earlier is refused by it.
            let store = &self.adapters.store;
            store
                .touch_cache(workspace.repo_cache_id, Timestamp::now())
                .await?;
        }
        self.faults.pass(FaultPoint::EditsSaved);
        self.adapters.trees.remove(&workspace.local_path).await?;
        self.faults.pass(FaultPoint::TreeRemoved);
        let when = as_read(workspace.version, token);
        let gone = workspace.moved_to(WorkspaceState::Deleted, Timestamp::now())?;
        self.adapters.store.update_workspace(&gone, when).await?;
        Ok(Removal::Done { saved })
    }

    /// Git is asked, whatever the row says: what nobody announced would be lost as well.
    async fn save_if_needed(&self, workspace: &Workspace) -> Result<Option<SavedEdits>, GitError> {
        let trees = &self.adapters.trees;
        let would_lose = match trees.status(&workspace.local_path).await {
            Ok(status) => status.is_dirty(),
            Err(GitError::NotThere { .. }) => return Ok(None),
            Err(error) => {
                tracing::warn!(workspace = %workspace.id, %error, "a tree that goes can't be looked at, and is saved as if it had changes");
                true
            }
        };
        let (path, key) = (&workspace.local_path, &workspace.key);
        if !would_lose {
            // Of what it was made, or what was saved of it when its removal was blocked, was since
            // published or undone: nobody shall get that again.
            trees.drop_saved(path, workspace.id, key).await?;
            return Ok(None);
        }
        trees.save(path, workspace.id, key).await.map(Some)
    }

    async fn block_removal(
        &self,
        workspace: Workspace,
        error: &GitError,
        token: FencingToken,
    ) -> Result<Removal, ServiceError> {
        tracing::error!(workspace = %workspace.id, %error, "changes can't be saved, so the tree stays: look at it");
        let when = as_read(workspace.version, token);
        let blocked = workspace.moved_to(WorkspaceState::EvictionBlocked, Timestamp::now())?;
        let workspace = self.adapters.store.update_workspace(&blocked, when).await?;
        Ok(Removal::Blocked {
            workspace: Box::new(workspace),
            reason: error.to_string(),
        })
    }
}
