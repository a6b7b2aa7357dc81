//! The store in PostgreSQL, for many workers on many machines.
//!
//! A single row is written by one statement that carries its own precondition, and only when that wrote
//! nothing is it asked why: what refuses once refuses for ever, as versions, tokens and times only grow.
//! Whoever counts and then inserts holds a row of `sandbox_limits`, or the cache's, meanwhile.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool};

use super::opening::OpenError;
use crate::domain::{
    CacheId, CacheKey, FencingToken, PreparedTree, PreparedTreeId, RepoCache, Runtime, RuntimeId,
    Workspace, WorkspaceId, WorkspaceKey,
};
use crate::ports::Answer;
use crate::ports::store::{
    IdleRuntimeQuery, Page, Precondition, SandboxStore, TreeClaim, WorkspaceEvictionQuery,
    WorkspaceQuota,
};

mod caches;
mod prepared_trees;
mod runtimes;
mod workspaces;

/// Connections of one worker. A statement takes about a millisecond, so these do for some thousand in
/// a second, and ten workers stay below what a server takes by default (100).
const CONNECTIONS_MAX: u32 = 10;
/// How long a call waits for a connection. A thousand that come at once are through well before that;
/// and so long does a call wait for a server that doesn't answer.
const CONNECTION_WAIT: Duration = Duration::from_secs(10);
/// Which migrations were applied. A table of our own, so that the database may be shared.
const MIGRATIONS_TABLE: &str = "sandbox_migrations";

/// Records in a PostgreSQL database, which any number of workers may use.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    pool: PgPool,
}

impl PostgresStore {
    /// Connects to a database. Its schema must be brought up to date by [`migrate`](Self::migrate)
    /// before the store is used, by whoever starts first.
    ///
    /// # Errors
    /// When the URL can't be understood, or the server doesn't answer within 10 s.
    pub async fn connect(database_url: &str) -> Result<Self, OpenError> {
        let options = PgConnectOptions::from_str(database_url).map_err(OpenError::Url)?;
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS_MAX)
            .acquire_timeout(CONNECTION_WAIT)
            .connect_with(options)
            .await
            .map_err(cannot_connect)?;
        Ok(Self { pool })
    }

    /// Brings the schema up to date; a second run changes nothing. Workers that migrate at the same
    /// time wait for each other.
    ///
    /// # Errors
    /// When a migration fails, or one that was applied has changed since.
    pub async fn migrate(&self) -> Result<(), OpenError> {
        // Not one of the pool's: a migration that fails leaves its lock to the connection's end.
        let mut connection = PgConnection::connect_with(&self.pool.connect_options())
            .await
            .map_err(cannot_connect)?;
        let mut migrator = sqlx::migrate!("migrations/postgres");
        migrator.dangerous_set_table_name(MIGRATIONS_TABLE);
        // Not `run`, whose future can't be sent to another thread.
        migrator.run_direct(None, &mut connection, false).await?;
        connection.close().await.map_err(cannot_connect)
    }

    /// Lets calls that run end, and closes all connections. From now on every call is answered with
    /// `Unavailable`, on all clones.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

fn cannot_connect(source: sqlx::Error) -> OpenError {
    OpenError::Connect {
        store: "PostgreSQL".to_owned(),
        source,
    }
}

impl SandboxStore for PostgresStore {
    fn insert_cache<'a>(&'a self, cache: &'a RepoCache) -> Answer<'a, ()> {
        Box::pin(caches::insert(&self.pool, cache))
    }

    fn find_cache(&self, id: CacheId) -> Answer<'_, Option<RepoCache>> {
        Box::pin(caches::find(&self.pool, id))
    }

    fn find_cache_by_key<'a>(&'a self, key: &'a CacheKey) -> Answer<'a, Option<RepoCache>> {
        Box::pin(caches::find_by_key(&self.pool, key))
    }

    fn update_cache<'a>(
        &'a self,
        cache: &'a RepoCache,
        when: Precondition,
    ) -> Answer<'a, RepoCache> {
        Box::pin(caches::update(&self.pool, cache, when))
    }

    fn begin_cache_eviction(
        &self,
        id: CacheId,
        when: Precondition,
        now: Timestamp,
    ) -> Answer<'_, RepoCache> {
        Box::pin(caches::begin_eviction(&self.pool, id, when, now))
    }

    fn touch_cache(&self, id: CacheId, used_at: Timestamp) -> Answer<'_, ()> {
        Box::pin(caches::touch(&self.pool, id, used_at))
    }

    fn find_caches_for_eviction(
        &self,
        used_before: Timestamp,
        rows_max: u32,
    ) -> Answer<'_, Vec<RepoCache>> {
        Box::pin(caches::find_for_eviction(&self.pool, used_before, rows_max))
    }

    fn list_caches(&self, page: Page<CacheId>) -> Answer<'_, Vec<RepoCache>> {
        Box::pin(caches::list(&self.pool, page))
    }

    fn insert_workspace<'a>(
        &'a self,
        workspace: &'a Workspace,
        quota: WorkspaceQuota,
    ) -> Answer<'a, ()> {
        Box::pin(workspaces::insert(&self.pool, workspace, quota))
    }

    fn find_workspace(&self, id: WorkspaceId) -> Answer<'_, Option<Workspace>> {
        Box::pin(workspaces::find(&self.pool, id))
    }

    fn find_workspace_by_key<'a>(&'a self, key: &'a WorkspaceKey) -> Answer<'a, Option<Workspace>> {
        Box::pin(workspaces::find_by_key(&self.pool, key))
    }

    fn update_workspace<'a>(
        &'a self,
        workspace: &'a Workspace,
        when: Precondition,
    ) -> Answer<'a, Workspace> {
        Box::pin(workspaces::update(&self.pool, workspace, when))
    }

    fn touch_workspace(
        &self,
        id: WorkspaceId,
        commands_token: Option<FencingToken>,
        used_at: Timestamp,
    ) -> Answer<'_, ()> {
        Box::pin(workspaces::touch(&self.pool, id, commands_token, used_at))
    }

    fn mark_workspace_dirty(
        &self,
        id: WorkspaceId,
        commands_token: FencingToken,
        used_at: Timestamp,
    ) -> Answer<'_, u64> {
        Box::pin(workspaces::mark_dirty(
            &self.pool,
            id,
            commands_token,
            used_at,
        ))
    }

    fn mark_workspace_clean(
        &self,
        id: WorkspaceId,
        version: u64,
        commands_token: FencingToken,
        now: Timestamp,
    ) -> Answer<'_, u64> {
        let marking = workspaces::mark_clean(&self.pool, id, version, commands_token, now);
        Box::pin(marking)
    }

    fn list_workspaces_by_repo(
        &self,
        cache: CacheId,
        page: Page<WorkspaceId>,
    ) -> Answer<'_, Vec<Workspace>> {
        Box::pin(workspaces::list_of_cache(&self.pool, cache, page))
    }

    fn list_workspaces(&self, page: Page<WorkspaceId>) -> Answer<'_, Vec<Workspace>> {
        Box::pin(workspaces::list(&self.pool, page))
    }

    fn find_workspaces_for_eviction(
        &self,
        query: WorkspaceEvictionQuery,
    ) -> Answer<'_, Vec<Workspace>> {
        Box::pin(workspaces::find_for_eviction(&self.pool, query))
    }

    fn insert_runtime<'a>(&'a self, runtime: &'a Runtime, runtimes_max: u32) -> Answer<'a, ()> {
        Box::pin(runtimes::insert(&self.pool, runtime, runtimes_max))
    }

    fn find_runtime(&self, id: RuntimeId) -> Answer<'_, Option<Runtime>> {
        Box::pin(runtimes::find(&self.pool, id))
    }

    fn find_runtime_of_workspace(&self, workspace: WorkspaceId) -> Answer<'_, Option<Runtime>> {
        Box::pin(runtimes::find_of_workspace(&self.pool, workspace))
    }

    fn update_runtime<'a>(
        &'a self,
        runtime: &'a Runtime,
        when: Precondition,
    ) -> Answer<'a, Runtime> {
        Box::pin(runtimes::update(&self.pool, runtime, when))
    }

    fn touch_runtime(
        &self,
        id: RuntimeId,
        commands_token: Option<FencingToken>,
        used_at: Timestamp,
        expires_at: Option<Timestamp>,
    ) -> Answer<'_, ()> {
        let touching = runtimes::touch(&self.pool, id, commands_token, used_at, expires_at);
        Box::pin(touching)
    }

    fn find_idle_runtimes(&self, query: IdleRuntimeQuery) -> Answer<'_, Vec<Runtime>> {
        Box::pin(runtimes::find_idle(&self.pool, query))
    }

    fn find_orphan_runtimes(&self, rows_max: u32) -> Answer<'_, Vec<Runtime>> {
        Box::pin(runtimes::find_orphans(&self.pool, rows_max))
    }

    fn list_runtimes(&self, page: Page<RuntimeId>) -> Answer<'_, Vec<Runtime>> {
        Box::pin(runtimes::list(&self.pool, page))
    }

    fn insert_prepared_tree<'a>(
        &'a self,
        tree: &'a PreparedTree,
        unclaimed_max: u32,
    ) -> Answer<'a, ()> {
        Box::pin(prepared_trees::insert(&self.pool, tree, unclaimed_max))
    }

    fn claim_prepared_tree<'a>(&'a self, claim: &'a TreeClaim) -> Answer<'a, Option<PreparedTree>> {
        Box::pin(prepared_trees::claim(&self.pool, claim))
    }

    fn update_prepared_tree<'a>(&'a self, tree: &'a PreparedTree) -> Answer<'a, PreparedTree> {
        Box::pin(prepared_trees::update(&self.pool, tree))
    }

    fn adopt_prepared_tree<'a>(
        &'a self,
        tree: &'a PreparedTree,
        workspace: &'a Workspace,
        when: Precondition,
    ) -> Answer<'a, Workspace> {
        Box::pin(prepared_trees::adopt(&self.pool, tree, workspace, when))
    }

    fn list_prepared_trees(&self, page: Page<PreparedTreeId>) -> Answer<'_, Vec<PreparedTree>> {
        Box::pin(prepared_trees::list(&self.pool, page))
    }
}
