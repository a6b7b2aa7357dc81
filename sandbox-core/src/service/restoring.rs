//! How whoever comes back gets what was saved of their workspace when its tree went: a new tree is made
//! of it, and it goes once the record says that this is there. Ending anywhere between, it is done again
//! by the next request, or finished by the reconciler.

use std::time::Duration;

use jiff::Timestamp;

use super::{FaultPoint, SandboxService, ServiceError, as_read};
use crate::domain::{
    Cause, ConflictCause, FencingToken, Workspace, WorkspaceError, WorkspaceState,
    to_the_microsecond,
};
use crate::ports::locks::{LockClass, LockName};
use crate::ports::workspaces::SavedTree;

impl SandboxService {
    /// Makes the tree of an intent of what was saved under its key, if something was. The workspace is
    /// answered as ready, and as dirty, since nobody else has what was saved. If it can't be made, the
    /// intent is given up, and what was saved stays.
    pub(super) async fn restore(
        &self,
        intent: &Workspace,
        token: FencingToken,
    ) -> Result<Option<Workspace>, ServiceError> {
        match self.lay_saved(intent).await {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => {
                self.give_workspace_up(intent.clone(), token).await?;
                return Err(error);
            }
        }
        self.faults.pass(FaultPoint::EditsLaid);
        let now = Timestamp::now();
        let mut ready = intent.clone().moved_to(WorkspaceState::Ready, now)?;
        ready.dirty = true;
        ready.last_used_at = to_the_microsecond(now);
        let when = as_read(intent.version, token);
        let ready = self.adapters.store.update_workspace(&ready, when).await?;
        self.faults.pass(FaultPoint::EditsLaidReady);
        if let Err(error) = self.drop_saved(&ready).await {
            // The tree is there and says of what it was made, so the reconciler or its eviction does it.
            tracing::warn!(workspace = %ready.id, %error, "saved edits that a tree holds again weren't dropped");
        }
        Ok(Some(ready))
    }

    async fn lay_saved(&self, intent: &Workspace) -> Result<bool, ServiceError> {
        let (trees, path) = (&self.adapters.trees, &intent.local_path);
        let Some(saved) = trees.find_saved(path, &intent.key).await? else {
            return Ok(false);
        };
        if let Some(asked) = &intent.branch_name
            && saved.branch.as_ref() != Some(asked)
        {
            let cause = ConflictCause::OtherBranch {
                has: saved.branch.clone().map(Box::new),
                asked: Box::new(asked.clone()),
            };
            return Err(unusable(&saved, Box::new(cause)));
        }
        match trees.restore(path, &saved).await {
            Ok(_) => Ok(true),
            Err(error) => Err(unusable(&saved, Box::new(error))),
        }
    }

    /// Drops what was saved under a workspace's key, if its tree holds that again. For whoever holds its
    /// lock, once its record says that the tree is whole.
    async fn drop_saved(&self, workspace: &Workspace) -> Result<bool, ServiceError> {
        let (path, key) = (&workspace.local_path, &workspace.key);
        let trees = &self.adapters.trees;
        Ok(trees.drop_saved(path, workspace.id, key).await?)
    }

    /// The same for the reconciler, which has found a tree that says so.
    pub(super) async fn finish_restoring(
        &self,
        workspace: &Workspace,
    ) -> Result<u64, ServiceError> {
        let name = LockName::workspace(&workspace.key);
        let work = async |_| {
            let found = self.live_workspace(workspace.id).await?;
            match found.state {
                WorkspaceState::Ready | WorkspaceState::EvictionBlocked => {
                    self.drop_saved(&found).await.map(u64::from)
                }
                _ => Ok(0),
            }
        };
        self.under(&name, LockClass::Write, Duration::ZERO, work)
            .await
    }
}

fn unusable(saved: &SavedTree, source: Cause) -> ServiceError {
    WorkspaceError::SavedEditsUnusable {
        reference: saved.edits.reference.clone(),
        store: saved.edits.store.display().to_string(),
        source,
    }
    .into()
}
