//! Trees made ahead of time: kept ready for bases that are asked for, and claimed by one worker each.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{FaultPoint, SandboxService, ServiceError};
use crate::domain::{
    BaseRef, FencingToken, PreparedTree, PreparedTreeState, RepoCache, SandboxError, Workspace,
    WorkspaceState,
};
use crate::ports::store::{Precondition, TreeClaim};
use crate::ports::workspaces::TreeRequest;

/// Older trees are far from what their base is by now; it costs more to bring them there.
const AGE_MAX: SignedDuration = SignedDuration::from_mins(25);
/// A claim that isn't adopted by then was a crashed worker's: adopting takes milliseconds.
const CLAIM_LEASE: Duration = Duration::from_secs(60);

impl SandboxService {
    /// Makes a prepared tree an intent's, if there is one. The workspace is answered as ready.
    pub(super) async fn adopt(
        &self,
        request: &TreeRequest<'_>,
        intent: &Workspace,
        token: FencingToken,
    ) -> Result<Option<Workspace>, ServiceError> {
        if self.settings.prepared_per_base == 0 {
            return Ok(None);
        }
        let now = Timestamp::now();
        let claim = TreeClaim {
            repo_cache_id: intent.repo_cache_id,
            base_ref: intent.base_ref.clone(),
            made_since: now - AGE_MAX,
            worker: self.settings.worker.clone(),
            now,
            lease_until: now
                + SignedDuration::try_from(CLAIM_LEASE).unwrap_or(SignedDuration::ZERO),
        };
        let store = &self.adapters.store;
        let Some(tree) = store.claim_prepared_tree(&claim).await? else {
            return Ok(None);
        };
        self.faults.pass(FaultPoint::TreeClaimed);
        if tree.claims > 1 {
            // Whoever had it before may have gone halfway.
            self.drain(tree).await?;
            return Ok(None);
        }
        match self.adapters.trees.adopt(&tree.local_path, *request).await {
            Ok(_) => {
                self.faults.pass(FaultPoint::TreeMade);
                let ready = intent
                    .clone()
                    .moved_to(WorkspaceState::Ready, Timestamp::now())?;
                let when = Precondition {
                    version: intent.version,
                    token,
                    unused_since: None,
                };
                Ok(Some(store.adopt_prepared_tree(&tree, &ready, when).await?))
            }
            Err(error) => {
                // Creating it the long way tells what is wrong, if something is.
                tracing::info!(tree = %tree.id, %error, "a prepared tree couldn't be adopted");
                self.drain(tree).await?;
                Ok(None)
            }
        }
    }

    /// Makes one tree ahead of time for a base, unless there are as many as are kept.
    ///
    /// # Errors
    /// Those of git and the store. Answers whether one was made.
    pub async fn prepare_tree(
        &self,
        cache: &RepoCache,
        base: &BaseRef,
    ) -> Result<bool, ServiceError> {
        let store = &self.adapters.store;
        let (path, now) = (cache.local_path.clone(), Timestamp::now());
        let mut intent = PreparedTree::intent(cache.id, base.clone(), path, now);
        intent.local_path = self
            .adapters
            .trees
            .prepared_path_of(&cache.local_path, intent.id);
        let unclaimed_max = self.settings.prepared_per_base;
        match store.insert_prepared_tree(&intent, unclaimed_max).await {
            Ok(()) => {}
            Err(SandboxError::TooMany { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        self.faults.pass(FaultPoint::PreparedIntent);
        let trees = &self.adapters.trees;
        let made = trees.prepare(&intent.local_path, base).await;
        let commit = match made {
            Ok(commit) => commit,
            Err(error) => {
                self.drain(intent).await?;
                return Err(error.into());
            }
        };
        self.faults.pass(FaultPoint::PreparedMade);
        let mut ready = intent.moved_to(PreparedTreeState::Ready, Timestamp::now())?;
        ready.commit = Some(commit);
        store.update_prepared_tree(&ready).await?;
        Ok(true)
    }

    /// Removes a prepared tree that nobody may have any more.
    pub(super) async fn drain(&self, tree: PreparedTree) -> Result<(), ServiceError> {
        let store = &self.adapters.store;
        let draining = match tree.state {
            PreparedTreeState::Draining => tree,
            _ => {
                let draining = tree.moved_to(PreparedTreeState::Draining, Timestamp::now())?;
                store.update_prepared_tree(&draining).await?
            }
        };
        self.adapters.trees.remove(&draining.local_path).await?;
        let gone = draining.moved_to(PreparedTreeState::Terminated, Timestamp::now())?;
        store.update_prepared_tree(&gone).await?;
        Ok(())
    }

    /// Is a prepared tree too old to be adopted?
    pub(super) fn is_stale(tree: &PreparedTree, now: Timestamp) -> bool {
        tree.created_at < now - AGE_MAX
    }
}
