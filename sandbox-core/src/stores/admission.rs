//! Whether a row may be inserted, or a cache go, by what a store found in the same step.

use crate::domain::{
    CacheId, ConflictCause, Countable, PreparedTree, RepoCache, RepoCacheState, Runtime,
    SandboxError, Subject, Workspace, WorkspaceState,
};
use crate::ports::store::WorkspaceQuota;

/// What there is already when a workspace is to be inserted.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkspacesFound {
    /// Has a live one its key?
    pub(super) key_is_taken: bool,
    /// How many live ones its user has.
    pub(super) of_user: u64,
    /// How many live ones there are.
    pub(super) of_all: u64,
}

/// May a workspace be inserted?
pub(super) fn admit_workspace(
    workspace: &Workspace,
    cache: Option<RepoCacheState>,
    found: WorkspacesFound,
    quota: WorkspaceQuota,
) -> Result<(), SandboxError> {
    let key = Subject::WorkspaceKey(Box::new(workspace.key.clone()));
    check_cache(&key, workspace.repo_cache_id, cache)?;
    if found.key_is_taken {
        return Err(SandboxError::AlreadyExists(key));
    }
    check_room(
        Countable::WorkspacesOfUser,
        found.of_user,
        quota.per_user_max,
    )?;
    check_room(Countable::Workspaces, found.of_all, quota.total_max)
}

/// What there is already when a runtime is to be inserted.
#[derive(Debug, Clone, Copy)]
pub(super) struct RuntimesFound {
    /// Has its workspace a live one?
    pub(super) workspace_has_one: bool,
    /// How many live ones there are.
    pub(super) of_all: u64,
}

/// May a runtime be inserted?
pub(super) fn admit_runtime(
    runtime: &Runtime,
    workspace: Option<WorkspaceState>,
    found: RuntimesFound,
    runtimes_max: u32,
) -> Result<(), SandboxError> {
    let id = runtime.workspace_id;
    match workspace {
        None => return Err(SandboxError::NotFound(Subject::Workspace(id))),
        Some(WorkspaceState::Ready) => {}
        Some(state) => {
            let what = Subject::Workspace(id);
            return Err(not_ready(Subject::RuntimeOf(id), what, state.as_str()));
        }
    }
    if found.workspace_has_one {
        return Err(SandboxError::AlreadyExists(Subject::RuntimeOf(id)));
    }
    check_room(Countable::Runtimes, found.of_all, runtimes_max)
}

/// May a prepared tree be inserted beside `unclaimed` ones of its base?
pub(super) fn admit_prepared_tree(
    tree: &PreparedTree,
    cache: Option<RepoCacheState>,
    unclaimed: u64,
    unclaimed_max: u32,
) -> Result<(), SandboxError> {
    check_cache(&Subject::PreparedTree(tree.id), tree.repo_cache_id, cache)?;
    check_room(Countable::PreparedTrees, unclaimed, unclaimed_max)
}

/// May a cache, which `uses` live workspaces and trees stand on, be evicted?
pub(super) fn check_eviction(cache: &RepoCache, uses: u64) -> Result<(), SandboxError> {
    let cause = if cache.state != RepoCacheState::Ready {
        ConflictCause::State {
            is: cache.state.as_str(),
            wanted: RepoCacheState::Evicting.as_str(),
        }
    } else if uses > 0 {
        ConflictCause::InUse { uses }
    } else {
        return Ok(());
    };
    Err(SandboxError::conflict(Subject::Cache(cache.id), cause))
}

/// May something new stand on a cache? It may while the cache is still being made: both are intents.
fn check_cache(
    subject: &Subject,
    id: CacheId,
    live_state: Option<RepoCacheState>,
) -> Result<(), SandboxError> {
    match live_state {
        None => Err(SandboxError::NotFound(Subject::Cache(id))),
        Some(RepoCacheState::Evicting) => {
            let is = RepoCacheState::Evicting.as_str();
            Err(not_ready(subject.clone(), Subject::Cache(id), is))
        }
        Some(_) => Ok(()),
    }
}

fn not_ready(subject: Subject, what: Subject, is: &'static str) -> SandboxError {
    let what = Box::new(what);
    SandboxError::conflict(subject, ConflictCause::NotReady { what, is })
}

fn check_room(what: Countable, count: u64, limit: u32) -> Result<(), SandboxError> {
    if count < u64::from(limit) {
        Ok(())
    } else {
        Err(SandboxError::TooMany { what, limit })
    }
}
