//! The store of records: what must hold across workers and crashes, as one trait.
//!
//! **What is live.** A row in the state `Deleted`, `Destroyed`, `Adopted` or `Terminated` is history: no
//! call finds, lists, counts or changes it, and its key is free. All other rows are *live*.
//!
//! **How a row is changed.** By compare-and-set: `update_…` takes the record as it shall be and a
//! [`Precondition`], checks, in this order, that the row is live (`NotFound`), that no newer token has
//! written it (`Conflict`, `StaleToken`), that its version is the expected one (`Version`) and that it
//! was not used since (`UsedSince`), and else writes and answers the record as it is then: its version
//! one larger, its token the precondition's. What never changes (ids, key, provenance, `created_at`) is
//! not written. `last_used_at` and `expires_at` only grow: of the stored and the given value the later
//! stays. Whether a state may follow another is the domain's matter (`may_become`), not the store's.
//!
//! **Whose token.** That of the lock which guards the row: the cache's lock for a cache, the
//! workspace's lock for a workspace and its runtimes. Tokens of other locks must not be mixed in.
//!
//! A workspace has a second one beside it, for what is written under the lock on its commands:
//! `commands_token`, the newest under which somebody announced to write in the tree
//! ([`mark_workspace_dirty`](SandboxStore::mark_workspace_dirty)). Whoever says under an older one that the tree
//! is dirty or clean, or that it or its runtime is used, has lost that lock, and is refused (`Conflict`,
//! `StaleToken`). Readers leave no token, since they don't lose the lock to each other. A touch without that
//! lock needs no token: all it says is that somebody was there.
//!
//! **Time** is kept to the microsecond, as [`to_the_microsecond`](crate::domain::to_the_microsecond)
//! does it. `now` is the caller's: a clock that is wrong makes a lease end early or late, and a late
//! holder is then refused by its version.
//!
//! **Errors** of every call, beside its own: `Unavailable` when the store doesn't answer, `Damaged` when
//! a row can't be read, `Invalid` when a number is too large to keep (above 2⁶³−1).

use jiff::Timestamp;

use super::Answer;
use crate::domain::{
    BaseRef, CacheId, CacheKey, FencingToken, PreparedTree, PreparedTreeId, RepoCache, Runtime,
    RuntimeId, RuntimeState, WorkerId, Workspace, WorkspaceId, WorkspaceKey, WorkspaceMode,
};

/// What must hold for a row to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Precondition {
    /// The version that the writer has read.
    pub version: u64,
    /// The token of the lock that the writer holds. The row's may be as large, but not larger.
    pub token: FencingToken,
    /// If given: the row's `last_used_at` isn't later than this. For whoever ends what is idle.
    pub unused_since: Option<Timestamp>,
}

/// A part of a list in the order of ids, which is that of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page<Id> {
    /// The last id of the part before; nothing for the first part.
    pub after: Option<Id>,
    /// How many at most. A shorter answer is the last part.
    pub rows_max: u32,
}

/// How many workspaces there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkspaceQuota {
    /// Of one user.
    pub per_user_max: u32,
    /// In all.
    pub total_max: u32,
}

/// Which workspaces to look for, for eviction: one tier's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkspaceEvictionQuery {
    /// Of this mode.
    pub mode: WorkspaceMode,
    /// Dirty, or clean.
    pub dirty: bool,
    /// Last used before this.
    pub used_before: Timestamp,
    /// The time, for pins.
    pub now: Timestamp,
    /// How many at most.
    pub rows_max: u32,
}

/// Which runtimes to look for, to stop or destroy them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleRuntimeQuery {
    /// In this state.
    pub state: RuntimeState,
    /// Last used before this.
    pub used_before: Timestamp,
    /// The time, for leases.
    pub now: Timestamp,
    /// How many at most.
    pub rows_max: u32,
}

/// Which prepared tree a worker wants, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeClaim {
    /// Made from this cache.
    pub repo_cache_id: CacheId,
    /// Prepared for this base.
    pub base_ref: BaseRef,
    /// Made at this time or later.
    pub made_since: Timestamp,
    /// Who claims it.
    pub worker: WorkerId,
    /// The time: a lease that ended by now holds nobody off.
    pub now: Timestamp,
    /// When the lease ends.
    pub lease_until: Timestamp,
}

/// Keeps caches, workspaces, runtimes and prepared trees. All calls of one store, from any number of
/// workers, see each other's writes at once, and each call is atomic.
pub trait SandboxStore: Send + Sync {
    /// Keeps the intent to make a cache.
    ///
    /// Errors: `AlreadyExists` ([`Subject::CacheKey`](crate::domain::Subject)) when a live one has its key.
    fn insert_cache<'a>(&'a self, cache: &'a RepoCache) -> Answer<'a, ()>;

    /// A live cache by its id.
    fn find_cache(&self, id: CacheId) -> Answer<'_, Option<RepoCache>>;

    /// The live cache of a key.
    fn find_cache_by_key<'a>(&'a self, key: &'a CacheKey) -> Answer<'a, Option<RepoCache>>;

    /// Writes a cache's URL, path, fetch time, size, state and times. To evict one, call
    /// [`begin_cache_eviction`](Self::begin_cache_eviction) instead: this doesn't look at what uses it.
    ///
    /// Errors: as the module says of updates.
    fn update_cache<'a>(
        &'a self,
        cache: &'a RepoCache,
        when: Precondition,
    ) -> Answer<'a, RepoCache>;

    /// Makes a ready cache `Evicting`, `updated_at` being `now`. From then on no workspace and no
    /// prepared tree of it can be inserted.
    ///
    /// Errors: as an update; then `Conflict` with `State` when it isn't ready, or `InUse` when live
    /// workspaces or prepared trees stand on it.
    fn begin_cache_eviction(
        &self,
        id: CacheId,
        when: Precondition,
        now: Timestamp,
    ) -> Answer<'_, RepoCache>;

    /// Says that a cache was used. Changes neither version nor token.
    ///
    /// Errors: `NotFound`.
    fn touch_cache(&self, id: CacheId, used_at: Timestamp) -> Answer<'_, ()>;

    /// Ready caches last used before `used_before` on which no live workspace and no live prepared tree
    /// stands, the longest unused first.
    fn find_caches_for_eviction(
        &self,
        used_before: Timestamp,
        rows_max: u32,
    ) -> Answer<'_, Vec<RepoCache>>;

    /// Live caches.
    fn list_caches(&self, page: Page<CacheId>) -> Answer<'_, Vec<RepoCache>>;

    /// Keeps the intent to make a workspace, if its user and all may have one more.
    ///
    /// Errors, in this order: `NotFound` ([`Subject::Cache`](crate::domain::Subject)) when its cache isn't live,
    /// `Conflict` with `NotReady` when its cache is being evicted, `AlreadyExists`
    /// ([`Subject::WorkspaceKey`](crate::domain::Subject)) when a live one has its key, `TooMany` when the user or
    /// all have as many as they may. Counting and inserting are one step.
    fn insert_workspace<'a>(
        &'a self,
        workspace: &'a Workspace,
        quota: WorkspaceQuota,
    ) -> Answer<'a, ()>;

    /// A live workspace by its id.
    fn find_workspace(&self, id: WorkspaceId) -> Answer<'_, Option<Workspace>>;

    /// The live workspace of a key.
    fn find_workspace_by_key<'a>(&'a self, key: &'a WorkspaceKey) -> Answer<'a, Option<Workspace>>;

    /// Writes a workspace's path, state, dirtiness, pin, size and times.
    ///
    /// Errors: as the module says of updates.
    fn update_workspace<'a>(
        &'a self,
        workspace: &'a Workspace,
        when: Precondition,
    ) -> Answer<'a, Workspace>;

    /// Says that a workspace was used, with the token of the lock on its commands if that is held.
    /// Changes neither version nor tokens.
    ///
    /// Errors: `NotFound`; `Conflict` with `StaleToken`.
    fn touch_workspace(
        &self,
        id: WorkspaceId,
        commands_token: Option<FencingToken>,
        used_at: Timestamp,
    ) -> Answer<'_, ()>;

    /// Says, before a command that may write, that a workspace may hold what no commit holds; it is
    /// touched, too. The token is that of the lock on its commands, which is held for writing, and stays in
    /// the row. The version grows each time, also when it was dirty already, and is answered.
    ///
    /// Errors: `NotFound`; `Conflict` with `StaleToken`.
    fn mark_workspace_dirty(
        &self,
        id: WorkspaceId,
        commands_token: FencingToken,
        used_at: Timestamp,
    ) -> Answer<'_, u64>;

    /// Says that git found a workspace clean, if its version is still the one read before git was
    /// asked: so nobody has announced to write since. The token is that of the lock on its commands, which
    /// is held, and changes none in the row. The new version is answered.
    ///
    /// Errors, in this order: `NotFound`; `Conflict` with `StaleToken` or with `Version`.
    fn mark_workspace_clean(
        &self,
        id: WorkspaceId,
        version: u64,
        commands_token: FencingToken,
        now: Timestamp,
    ) -> Answer<'_, u64>;

    /// The live workspaces of a repository's cache.
    fn list_workspaces_by_repo(
        &self,
        cache: CacheId,
        page: Page<WorkspaceId>,
    ) -> Answer<'_, Vec<Workspace>>;

    /// Live workspaces.
    fn list_workspaces(&self, page: Page<WorkspaceId>) -> Answer<'_, Vec<Workspace>>;

    /// Workspaces of one tier, ready or with a blocked eviction, not pinned at `now` (a pin that ends
    /// then has ended), without a runtime that is being made or runs, the longest unused first.
    fn find_workspaces_for_eviction(
        &self,
        query: WorkspaceEvictionQuery,
    ) -> Answer<'_, Vec<Workspace>>;

    /// Keeps the intent to make a runtime, if there may be one more.
    ///
    /// Errors, in this order: `NotFound` ([`Subject::Workspace`](crate::domain::Subject)) when its workspace isn't
    /// live, `Conflict` with `NotReady` when that isn't ready, `AlreadyExists`
    /// ([`Subject::RuntimeOf`](crate::domain::Subject)) when that has a live one, `TooMany` when there are
    /// `runtimes_max`. Counting and inserting are one step.
    fn insert_runtime<'a>(&'a self, runtime: &'a Runtime, runtimes_max: u32) -> Answer<'a, ()>;

    /// A live runtime by its id.
    fn find_runtime(&self, id: RuntimeId) -> Answer<'_, Option<Runtime>>;

    /// The live runtime of a workspace.
    fn find_runtime_of_workspace(&self, workspace: WorkspaceId) -> Answer<'_, Option<Runtime>>;

    /// Writes a runtime's backend id, state and times.
    ///
    /// Errors: as the module says of updates.
    fn update_runtime<'a>(
        &'a self,
        runtime: &'a Runtime,
        when: Precondition,
    ) -> Answer<'a, Runtime>;

    /// Says that a runtime is used, and until when its idleness doesn't count, with the token of the lock
    /// on its workspace's commands if that is held. Changes neither version nor token.
    ///
    /// Errors: `NotFound`; `Conflict` about the runtime with `StaleToken`.
    fn touch_runtime(
        &self,
        id: RuntimeId,
        commands_token: Option<FencingToken>,
        used_at: Timestamp,
        expires_at: Option<Timestamp>,
    ) -> Answer<'_, ()>;

    /// Runtimes of one state that nobody uses: no lease of theirs reaches beyond `now`. The longest
    /// unused first.
    fn find_idle_runtimes(&self, query: IdleRuntimeQuery) -> Answer<'_, Vec<Runtime>>;

    /// Live runtimes whose workspace isn't live.
    fn find_orphan_runtimes(&self, rows_max: u32) -> Answer<'_, Vec<Runtime>>;

    /// Live runtimes.
    fn list_runtimes(&self, page: Page<RuntimeId>) -> Answer<'_, Vec<Runtime>>;

    /// Keeps the intent to make a prepared tree, if its base may have one more that nobody has claimed
    /// (warming or ready).
    ///
    /// Errors, in this order: `NotFound` ([`Subject::Cache`](crate::domain::Subject)) when its cache isn't live,
    /// `Conflict` with `NotReady` when its cache is being evicted, `TooMany` when there are
    /// `unclaimed_max`. Counting and inserting are one step.
    fn insert_prepared_tree<'a>(
        &'a self,
        tree: &'a PreparedTree,
        unclaimed_max: u32,
    ) -> Answer<'a, ()>;

    /// Claims one ready tree, or one whose claim has ended, by one atomic statement: of any number of
    /// workers at once, each gets another tree, or none. The newest ready one is taken first, and ended
    /// claims after these. The tree is answered as claimed, `claims` and version one larger,
    /// `updated_at` being `now`.
    fn claim_prepared_tree<'a>(&'a self, claim: &'a TreeClaim) -> Answer<'a, Option<PreparedTree>>;

    /// Writes a prepared tree's commit, state, claim and times, if its version (`tree.version`) is still
    /// that one.
    ///
    /// Errors: `NotFound`; `Conflict` with `Version`.
    fn update_prepared_tree<'a>(&'a self, tree: &'a PreparedTree) -> Answer<'a, PreparedTree>;

    /// Makes a claimed tree's folder a workspace's, in one step: the tree becomes `Adopted`, and the
    /// workspace is written as by [`update_workspace`](Self::update_workspace), with
    /// `updated_at` of both being the workspace's.
    ///
    /// Errors: `NotFound` for either; `Conflict` about the tree with `Version` when `tree.version` isn't
    /// its version any more, or with `State` when it isn't claimed; about the workspace as an update.
    /// Then neither is changed.
    fn adopt_prepared_tree<'a>(
        &'a self,
        tree: &'a PreparedTree,
        workspace: &'a Workspace,
        when: Precondition,
    ) -> Answer<'a, Workspace>;

    /// Live prepared trees.
    fn list_prepared_trees(&self, page: Page<PreparedTreeId>) -> Answer<'_, Vec<PreparedTree>>;
}
