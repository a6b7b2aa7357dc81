//! How a workspace comes to be: served if it is there, else made, revived or finished.

use jiff::Timestamp;

use super::disk::Spared;
use super::removing::Removal;
use super::{CacheRequest, FaultPoint, SandboxService, ServiceError, as_read, failure};
use crate::domain::{
    BranchName, FencingToken, RepoCache, SandboxError, Workspace, WorkspaceKey, WorkspaceRequest,
    WorkspaceState, to_the_microsecond,
};
use crate::ports::caches::GitError;
use crate::ports::locks::{LockClass, LockName};
use crate::ports::workspaces::{BranchRule, TreeRequest};

/// A request, resolved.
pub(super) struct Wanted<'a> {
    pub(super) request: &'a WorkspaceRequest,
    pub(super) key: WorkspaceKey,
    pub(super) cache: CacheRequest<'a>,
    pub(super) branch: Option<BranchName>,
    pub(super) rule: BranchRule,
    asked_at: Timestamp,
}

impl<'a> Wanted<'a> {
    fn of(request: &'a WorkspaceRequest) -> Result<Self, ServiceError> {
        let branch = request.branch();
        let rule = match &branch {
            None => BranchRule::Detached,
            Some(branch) => BranchRule::On {
                branch: branch.clone(),
                // A branch that we name ourselves is there only once we made it.
                may_create: request.create_branch || request.branch_name.is_none(),
            },
        };
        Ok(Self {
            request,
            key: request.key()?,
            cache: CacheRequest::of(request)?,
            branch,
            rule,
            asked_at: Timestamp::now(),
        })
    }
}

impl SandboxService {
    /// The workspace that a request asks for, made if it isn't there. Asking again, from wherever, gets
    /// the same one with all its edits; if it was evicted meanwhile, a new one that is made of what was
    /// saved of it: on the same branch with its commits, and with what was uncommitted.
    ///
    /// # Errors
    /// `Conflict` when the workspace of that key is on another branch or of other access, `TooMany`
    /// when the user or all have as many as they may, `Scheme` when the repository is reached by a scheme
    /// that isn't allowed, `SavedEditsUnusable` when edits were saved and no tree can be made of them (they
    /// stay), `TreeLost` when its tree is gone with uncommitted changes, and those of git, the store and
    /// the lock. Nothing half-made is left.
    pub async fn get_or_create_workspace(
        &self,
        request: &WorkspaceRequest,
    ) -> Result<Workspace, ServiceError> {
        let wanted = Wanted::of(request)?;
        // Also of a workspace that was made when more was allowed.
        self.check_scheme(wanted.cache.url())?;
        let work = || self.serve_or_make(&wanted);
        self.with_room(Spared::Key(&wanted.key), work).await
    }

    async fn serve_or_make(&self, wanted: &Wanted<'_>) -> Result<Workspace, ServiceError> {
        if let Some(workspace) = self.serve(wanted).await? {
            return Ok(workspace);
        }
        let name = LockName::workspace(&wanted.key);
        let wait_max = self.settings.cache_wait;
        let work = |token| self.make(wanted, token);
        self.under(&name, LockClass::Write, wait_max, work).await
    }

    /// The usual case: it is there and whole, and no lock is needed to say so.
    async fn serve(&self, wanted: &Wanted<'_>) -> Result<Option<Workspace>, ServiceError> {
        let store = &self.adapters.store;
        let found = store.find_workspace_by_key(&wanted.key).await?;
        let Some(workspace) = found.filter(|found| found.state == WorkspaceState::Ready) else {
            return Ok(None);
        };
        let Some(cache) = store.find_cache_by_key(wanted.cache.key()).await? else {
            return Ok(None); // it was fetched with other access, which making it finds out
        };
        workspace.check_serves(cache.id, wanted.branch.as_ref())?;
        let now = Timestamp::now();
        match store.touch_workspace(workspace.id, None, now).await {
            Ok(()) => {}
            Err(SandboxError::NotFound(_)) => return Ok(None), // evicted a moment ago
            Err(error) => return Err(error.into()),
        }
        store.touch_cache(cache.id, now).await?;
        Ok(Some(workspace))
    }

    async fn make(
        &self,
        wanted: &Wanted<'_>,
        token: FencingToken,
    ) -> Result<Workspace, ServiceError> {
        let base = &wanted.request.base_ref;
        let cache = self.fresh_cache(&wanted.cache).await;
        let cache = cache.map_err(|error| error.about_cache(wanted.cache.key(), base))?;
        let store = &self.adapters.store;
        let Some(found) = store.find_workspace_by_key(&wanted.key).await? else {
            return self.make_new(wanted, &cache, token).await;
        };
        found.check_serves(cache.id, wanted.branch.as_ref())?;
        let when = as_read(found.version, token);
        let now = Timestamp::now();
        match found.state {
            WorkspaceState::Ready => {
                store.touch_workspace(found.id, None, now).await?;
                Ok(found)
            }
            WorkspaceState::EvictionBlocked => {
                let ready = found.moved_to(WorkspaceState::Ready, now)?;
                Ok(store.update_workspace(&ready, when).await?)
            }
            WorkspaceState::Missing => self.find_again(wanted, found, token).await,
            WorkspaceState::Creating => {
                let trees = &self.adapters.trees;
                trees.remove(&found.local_path).await?;
                self.build(wanted, found, token).await
            }
            WorkspaceState::Evicting | WorkspaceState::Deleted => {
                match self.finish_removal(found, token).await? {
                    Removal::Done { .. } => self.make_new(wanted, &cache, token).await,
                    // What couldn't be saved is there for whoever comes back.
                    Removal::Blocked { workspace, .. } => {
                        let when = as_read(workspace.version, token);
                        let ready = workspace.moved_to(WorkspaceState::Ready, Timestamp::now())?;
                        Ok(store.update_workspace(&ready, when).await?)
                    }
                }
            }
        }
    }

    /// Goes on with a workspace whose tree wasn't where it should be: that is there again, or is made
    /// again, unless edits would be given up by that without a word.
    async fn find_again(
        &self,
        wanted: &Wanted<'_>,
        found: Workspace,
        token: FencingToken,
    ) -> Result<Workspace, ServiceError> {
        let (trees, path) = (&self.adapters.trees, &found.local_path);
        let next = match trees.status(path).await {
            Ok(_) => WorkspaceState::Ready,
            Err(GitError::NotThere { .. }) => {
                let is_lost = found.dirty && trees.find_saved(path, &found.key).await?.is_none();
                if is_lost {
                    return Err(self.tree_lost(&found));
                }
                WorkspaceState::Creating
            }
            Err(error) => return Err(error.into()),
        };
        let when = as_read(found.version, token);
        let moved = found.moved_to(next, Timestamp::now())?;
        let moved = self.adapters.store.update_workspace(&moved, when).await?;
        match next {
            WorkspaceState::Ready => Ok(moved),
            _ => self.build(wanted, moved, token).await,
        }
    }

    async fn make_new(
        &self,
        wanted: &Wanted<'_>,
        cache: &RepoCache,
        token: FencingToken,
    ) -> Result<Workspace, ServiceError> {
        let mut intent = Workspace::intent(
            cache.id,
            wanted.key.clone(),
            wanted.request.base_ref.clone(),
            wanted.branch.clone(),
            cache.local_path.clone(),
            token,
            Timestamp::now(),
        );
        let mode = wanted.key.mode();
        intent.local_path = self
            .adapters
            .trees
            .path_of(&cache.local_path, mode, intent.id);
        intent
            .conversation_id
            .clone_from(&wanted.request.conversation_id);
        intent.task_id.clone_from(&wanted.request.task_id);
        self.adapters
            .store
            .insert_workspace(&intent, self.settings.quota)
            .await?;
        self.faults.pass(FaultPoint::WorkspaceIntent);
        self.build(wanted, intent, token).await
    }

    /// Makes the tree of an intent: of what was saved under its key, of a prepared tree, or anew. One that
    /// fails is given up.
    async fn build(
        &self,
        wanted: &Wanted<'_>,
        intent: Workspace,
        token: FencingToken,
    ) -> Result<Workspace, ServiceError> {
        if let Some(ready) = self.restore(&intent, token).await? {
            return Ok(ready);
        }
        let request = TreeRequest {
            path: &intent.local_path,
            base: &wanted.request.base_ref,
            branch: &wanted.rule,
        };
        if let Some(ready) = self.adopt(&request, &intent, token).await? {
            return Ok(ready);
        }
        let made = match self.adapters.trees.create(request).await {
            // What isn't in the cache may have come to the origin since.
            Err(GitError::NoSuchBase { .. } | GitError::NoSuchBranch { .. }) => {
                match self
                    .cache_fetched_since(&wanted.cache, wanted.asked_at)
                    .await
                {
                    Ok(_) => Ok(self.adapters.trees.create(request).await),
                    Err(error) => Err(error.about_cache(wanted.cache.key(), &intent.base_ref)),
                }
            }
            made => Ok(made),
        };
        if let Err(error) = made.and_then(|made| made.map_err(ServiceError::from)) {
            self.give_workspace_up(intent, token).await?;
            return Err(error);
        }
        self.faults.pass(FaultPoint::TreeMade);
        let when = as_read(intent.version, token);
        let mut ready = intent.moved_to(WorkspaceState::Ready, Timestamp::now())?;
        ready.last_used_at = to_the_microsecond(Timestamp::now());
        Ok(self.adapters.store.update_workspace(&ready, when).await?)
    }

    /// Ends an intent: nobody has edited what may be of it on disk.
    pub(super) async fn give_workspace_up(
        &self,
        intent: Workspace,
        token: FencingToken,
    ) -> Result<(), ServiceError> {
        self.adapters.trees.remove(&intent.local_path).await?;
        let when = as_read(intent.version, token);
        let ended = intent.moved_to(WorkspaceState::Deleted, Timestamp::now())?;
        self.adapters.store.update_workspace(&ended, when).await?;
        Ok(())
    }

    /// Pins a workspace until a time, or takes its pin away: what is pinned isn't evicted.
    ///
    /// # Errors
    /// `NotFound`, `Conflict`, and those of the store and the lock.
    pub async fn pin_workspace(
        &self,
        id: crate::domain::WorkspaceId,
        until: Option<Timestamp>,
    ) -> Result<Workspace, ServiceError> {
        let key = self.live_workspace(id).await?.key;
        let name = LockName::workspace(&key);
        let work = async |token| {
            let mut workspace = self.live_workspace(id).await?;
            failure::check_ready(&workspace)?;
            let when = as_read(workspace.version, token);
            workspace.pinned_until = until.map(to_the_microsecond);
            workspace.updated_at = to_the_microsecond(Timestamp::now());
            Ok(self
                .adapters
                .store
                .update_workspace(&workspace, when)
                .await?)
        };
        self.under(&name, LockClass::Write, self.settings.lock_wait, work)
            .await
    }
}
