//! The store in memory: for tests, and the plainest statement of what the port promises.
//!
//! Each record goes through its row on the way in, so that what a database would refuse or shorten is
//! refused and shortened here.

use jiff::Timestamp;
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};

use self::tables::Tables;
use super::failure::closed;
use crate::domain::{
    CacheId, CacheKey, FencingToken, PreparedTree, PreparedTreeId, RepoCache, Runtime, RuntimeId,
    SandboxError, Workspace, WorkspaceId, WorkspaceKey,
};
use crate::ports::Answer;
use crate::ports::store::{
    IdleRuntimeQuery, Page, Precondition, SandboxStore, TreeClaim, WorkspaceEvictionQuery,
    WorkspaceQuota,
};

mod caches;
mod prepared_trees;
mod runtimes;
mod tables;
mod workspaces;

/// Records in memory, which end with it.
#[derive(Debug)]
pub struct MemoryStore {
    /// Nothing once it is closed.
    tables: Mutex<Option<Tables>>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self {
            tables: Mutex::new(Some(Tables::default())),
        }
    }

    /// Forgets everything. From now on every call is answered with `Unavailable`.
    pub async fn close(&self) {
        *self.tables.lock().await = None;
    }

    async fn tables(&self) -> Result<MappedMutexGuard<'_, Tables>, SandboxError> {
        let tables = self.tables.lock().await;
        MutexGuard::try_map(tables, Option::as_mut)
            .map_err(|_closed| closed("reading the tables in memory"))
    }
}

impl SandboxStore for MemoryStore {
    fn insert_cache<'a>(&'a self, cache: &'a RepoCache) -> Answer<'a, ()> {
        Box::pin(async move { self.tables().await?.insert_cache(cache) })
    }

    fn find_cache(&self, id: CacheId) -> Answer<'_, Option<RepoCache>> {
        Box::pin(async move { Ok(self.tables().await?.find_cache(id).cloned()) })
    }

    fn find_cache_by_key<'a>(&'a self, key: &'a CacheKey) -> Answer<'a, Option<RepoCache>> {
        Box::pin(async move { Ok(self.tables().await?.find_cache_by_key(key).cloned()) })
    }

    fn update_cache<'a>(
        &'a self,
        cache: &'a RepoCache,
        when: Precondition,
    ) -> Answer<'a, RepoCache> {
        Box::pin(async move { self.tables().await?.update_cache(cache, when) })
    }

    fn begin_cache_eviction(
        &self,
        id: CacheId,
        when: Precondition,
        now: Timestamp,
    ) -> Answer<'_, RepoCache> {
        Box::pin(async move { self.tables().await?.begin_cache_eviction(id, when, now) })
    }

    fn touch_cache(&self, id: CacheId, used_at: Timestamp) -> Answer<'_, ()> {
        Box::pin(async move { self.tables().await?.touch_cache(id, used_at) })
    }

    fn find_caches_for_eviction(
        &self,
        used_before: Timestamp,
        rows_max: u32,
    ) -> Answer<'_, Vec<RepoCache>> {
        Box::pin(async move {
            let tables = self.tables().await?;
            Ok(tables.find_caches_for_eviction(used_before, rows_max))
        })
    }

    fn list_caches(&self, page: Page<CacheId>) -> Answer<'_, Vec<RepoCache>> {
        Box::pin(async move { Ok(self.tables().await?.list_caches(page)) })
    }

    fn insert_workspace<'a>(
        &'a self,
        workspace: &'a Workspace,
        quota: WorkspaceQuota,
    ) -> Answer<'a, ()> {
        Box::pin(async move { self.tables().await?.insert_workspace(workspace, quota) })
    }

    fn find_workspace(&self, id: WorkspaceId) -> Answer<'_, Option<Workspace>> {
        Box::pin(async move { Ok(self.tables().await?.find_workspace(id).cloned()) })
    }

    fn find_workspace_by_key<'a>(&'a self, key: &'a WorkspaceKey) -> Answer<'a, Option<Workspace>> {
        Box::pin(async move { Ok(self.tables().await?.find_workspace_by_key(key).cloned()) })
    }

    fn update_workspace<'a>(
        &'a self,
        workspace: &'a Workspace,
        when: Precondition,
    ) -> Answer<'a, Workspace> {
        Box::pin(async move { self.tables().await?.update_workspace(workspace, when) })
    }

    fn touch_workspace(
        &self,
        id: WorkspaceId,
        commands_token: Option<FencingToken>,
        used_at: Timestamp,
    ) -> Answer<'_, ()> {
        Box::pin(async move {
            let mut tables = self.tables().await?;
            tables.touch_workspace(id, commands_token, used_at)
        })
    }

    fn mark_workspace_dirty(
        &self,
        id: WorkspaceId,
        commands_token: FencingToken,
        used_at: Timestamp,
    ) -> Answer<'_, u64> {
        Box::pin(async move {
            let mut tables = self.tables().await?;
            tables.mark_workspace_dirty(id, commands_token, used_at)
        })
    }

    fn mark_workspace_clean(
        &self,
        id: WorkspaceId,
        version: u64,
        commands_token: FencingToken,
        now: Timestamp,
    ) -> Answer<'_, u64> {
        Box::pin(async move {
            let mut tables = self.tables().await?;
            tables.mark_workspace_clean(id, version, commands_token, now)
        })
    }

    fn list_workspaces_by_repo(
        &self,
        cache: CacheId,
        page: Page<WorkspaceId>,
    ) -> Answer<'_, Vec<Workspace>> {
        Box::pin(async move { Ok(self.tables().await?.list_workspaces_by_repo(cache, page)) })
    }

    fn list_workspaces(&self, page: Page<WorkspaceId>) -> Answer<'_, Vec<Workspace>> {
        Box::pin(async move { Ok(self.tables().await?.list_workspaces(page)) })
    }

    fn find_workspaces_for_eviction(
        &self,
        query: WorkspaceEvictionQuery,
    ) -> Answer<'_, Vec<Workspace>> {
        Box::pin(async move { Ok(self.tables().await?.find_workspaces_for_eviction(query)) })
    }

    fn insert_runtime<'a>(&'a self, runtime: &'a Runtime, runtimes_max: u32) -> Answer<'a, ()> {
        Box::pin(async move { self.tables().await?.insert_runtime(runtime, runtimes_max) })
    }

    fn find_runtime(&self, id: RuntimeId) -> Answer<'_, Option<Runtime>> {
        Box::pin(async move { Ok(self.tables().await?.find_runtime(id).cloned()) })
    }

    fn find_runtime_of_workspace(&self, workspace: WorkspaceId) -> Answer<'_, Option<Runtime>> {
        Box::pin(async move {
            let tables = self.tables().await?;
            Ok(tables.find_runtime_of_workspace(workspace).cloned())
        })
    }

    fn update_runtime<'a>(
        &'a self,
        runtime: &'a Runtime,
        when: Precondition,
    ) -> Answer<'a, Runtime> {
        Box::pin(async move { self.tables().await?.update_runtime(runtime, when) })
    }

    fn touch_runtime(
        &self,
        id: RuntimeId,
        commands_token: Option<FencingToken>,
        used_at: Timestamp,
        expires_at: Option<Timestamp>,
    ) -> Answer<'_, ()> {
        Box::pin(async move {
            let mut tables = self.tables().await?;
            tables.touch_runtime(id, commands_token, used_at, expires_at)
        })
    }

    fn find_idle_runtimes(&self, query: IdleRuntimeQuery) -> Answer<'_, Vec<Runtime>> {
        Box::pin(async move { Ok(self.tables().await?.find_idle_runtimes(query)) })
    }

    fn find_orphan_runtimes(&self, rows_max: u32) -> Answer<'_, Vec<Runtime>> {
        Box::pin(async move { Ok(self.tables().await?.find_orphan_runtimes(rows_max)) })
    }

    fn list_runtimes(&self, page: Page<RuntimeId>) -> Answer<'_, Vec<Runtime>> {
        Box::pin(async move { Ok(self.tables().await?.list_runtimes(page)) })
    }

    fn insert_prepared_tree<'a>(
        &'a self,
        tree: &'a PreparedTree,
        unclaimed_max: u32,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            self.tables()
                .await?
                .insert_prepared_tree(tree, unclaimed_max)
        })
    }

    fn claim_prepared_tree<'a>(&'a self, claim: &'a TreeClaim) -> Answer<'a, Option<PreparedTree>> {
        Box::pin(async move { Ok(self.tables().await?.claim_prepared_tree(claim)) })
    }

    fn update_prepared_tree<'a>(&'a self, tree: &'a PreparedTree) -> Answer<'a, PreparedTree> {
        Box::pin(async move { self.tables().await?.update_prepared_tree(tree) })
    }

    fn adopt_prepared_tree<'a>(
        &'a self,
        tree: &'a PreparedTree,
        workspace: &'a Workspace,
        when: Precondition,
    ) -> Answer<'a, Workspace> {
        Box::pin(async move {
            let mut tables = self.tables().await?;
            tables.adopt_prepared_tree(tree, workspace, when)
        })
    }

    fn list_prepared_trees(&self, page: Page<PreparedTreeId>) -> Answer<'_, Vec<PreparedTree>> {
        Box::pin(async move { Ok(self.tables().await?.list_prepared_trees(page)) })
    }
}
