//! The store in one SQLite file, for the workers of one machine: nothing to install, nothing to run.
//!
//! All writes go through one connection, and each transaction that reads before it writes begins by
//! taking SQLite's only write lock, so that nothing it has read can change. Readers have connections of
//! their own, and see the last commit. The driver does all of it on threads of its own: a commit waits
//! for the disk, and no worker of the runtime does.
//!
//! A statement outside a transaction that writes and returns rows is always run to its end (`fetch_all`):
//! its last step commits it, and whoever stops after the first row isn't told when that fails.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{Connection, Sqlite, Transaction};
use tokio::time::{Instant, sleep};

use super::failure::unavailable;
use super::opening::OpenError;
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
mod workspaces;

/// Connections that read. A read takes microseconds, so these do for many tasks.
const READERS: u32 = 4;
/// How long a call waits for its turn to write, first in this process and then among processes: a
/// thousand that come at once each wait for the disk, and SQLite doesn't serve processes in turn.
const TURN_WAIT: Duration = Duration::from_secs(30);
/// How long whoever opens a file waits before the next try, while others open it for the first time.
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// The result that says so, and the bits of an extended result that hold it
/// (<https://www.sqlite.org/rescode.html>).
const SQLITE_BUSY: u32 = 5;
const RESULT_BITS: u32 = 0xff;
/// Which migrations were applied.
const MIGRATIONS_TABLE: &str = "sandbox_migrations";

/// Records in a file, which the processes of one machine may share.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    writer: SqlitePool,
    readers: SqlitePool,
}

impl SqliteStore {
    /// Opens a file, or makes it. Its schema must be brought up to date by [`migrate`](Self::migrate)
    /// before the store is used.
    ///
    /// # Errors
    /// When the file can't be opened: its folder is missing, it isn't ours, or is no database.
    pub async fn open(path: &Path) -> Result<Self, OpenError> {
        let cannot_open = |source| cannot_open(path, source);
        let options = SqliteConnectOptions::new()
            .filename(path)
            .busy_timeout(TURN_WAIT)
            .foreign_keys(true);
        let writing = options
            .clone()
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // What was answered is on disk: the intent rows of a crash are all there is to repair it.
            .synchronous(SqliteSynchronous::Full);
        let writer = open_in_turn(writing).await.map_err(cannot_open)?;
        let readers = pool_of(READERS)
            .connect_with(options.read_only(true))
            .await
            .map_err(cannot_open)?;
        Ok(Self { writer, readers })
    }

    /// Brings the schema up to date; a second run changes nothing. Processes that migrate at the same
    /// time wait for each other.
    ///
    /// # Errors
    /// When a migration fails, or one that was applied has changed since.
    pub async fn migrate(&self) -> Result<(), OpenError> {
        let path = self.writer.connect_options().get_filename().to_owned();
        let cannot_open = |source| cannot_open(&path, source);
        let begun = self.writer.begin_with("BEGIN IMMEDIATE").await;
        let mut transaction = begun.map_err(cannot_open)?;
        let mut migrator = sqlx::migrate!("migrations/sqlite");
        migrator.dangerous_set_table_name(MIGRATIONS_TABLE);
        // Not `run`, whose future can't be sent to another thread.
        migrator.run_direct(None, &mut *transaction, false).await?;
        transaction.commit().await.map_err(cannot_open)
    }

    /// Lets calls that run end, and closes the file. From now on every call is answered with
    /// `Unavailable`, on all clones.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    /// Begins to read and then write, alone among all processes.
    async fn begin(
        &self,
        doing: &'static str,
    ) -> Result<Transaction<'static, Sqlite>, SandboxError> {
        let begun = self.writer.begin_with("BEGIN IMMEDIATE").await;
        begun.map_err(unavailable(doing))
    }
}

/// Opens the connection that writes. The first time it makes the file one with a write-ahead log, for
/// which SQLite doesn't wait while others do the same.
async fn open_in_turn(options: SqliteConnectOptions) -> Result<SqlitePool, sqlx::Error> {
    let deadline = Instant::now() + TURN_WAIT;
    loop {
        match pool_of(1).connect_with(options.clone()).await {
            Err(error) if is_busy(&error) && Instant::now() < deadline => sleep(BUSY_PAUSE).await,
            opened => return opened,
        }
    }
}

/// Does another process hold the file's lock?
fn is_busy(error: &sqlx::Error) -> bool {
    let database = error.as_database_error();
    let code = database.and_then(|database| database.code());
    let code = code.and_then(|code| code.parse::<u32>().ok());
    code.is_some_and(|code| code & RESULT_BITS == SQLITE_BUSY)
}

/// Connections to a file don't age, so none is closed before the store is.
fn pool_of(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(TURN_WAIT)
        .idle_timeout(None::<Duration>)
        .max_lifetime(None::<Duration>)
        // It asks a server whether it is still there.
        .test_before_acquire(false)
        // On a full disk SQLite ends a transaction by itself, and the driver, whose rollback is refused
        // then, would take the connection for one that is inside of it for ever.
        .after_release(|connection, _| {
            Box::pin(async move {
                // Answered after the rollback of whatever was dropped.
                connection.ping().await?;
                Ok(!connection.is_in_transaction())
            })
        })
}

fn cannot_open(path: &Path, source: sqlx::Error) -> OpenError {
    OpenError::Connect {
        store: format!("the database {}", path.display()),
        source,
    }
}

impl SandboxStore for SqliteStore {
    fn insert_cache<'a>(&'a self, cache: &'a RepoCache) -> Answer<'a, ()> {
        Box::pin(caches::insert(self, cache))
    }

    fn find_cache(&self, id: CacheId) -> Answer<'_, Option<RepoCache>> {
        Box::pin(caches::find(&self.readers, id))
    }

    fn find_cache_by_key<'a>(&'a self, key: &'a CacheKey) -> Answer<'a, Option<RepoCache>> {
        Box::pin(caches::find_by_key(self, key))
    }

    fn update_cache<'a>(
        &'a self,
        cache: &'a RepoCache,
        when: Precondition,
    ) -> Answer<'a, RepoCache> {
        Box::pin(caches::update(self, cache, when))
    }

    fn begin_cache_eviction(
        &self,
        id: CacheId,
        when: Precondition,
        now: Timestamp,
    ) -> Answer<'_, RepoCache> {
        Box::pin(caches::begin_eviction(self, id, when, now))
    }

    fn touch_cache(&self, id: CacheId, used_at: Timestamp) -> Answer<'_, ()> {
        Box::pin(caches::touch(self, id, used_at))
    }

    fn find_caches_for_eviction(
        &self,
        used_before: Timestamp,
        rows_max: u32,
    ) -> Answer<'_, Vec<RepoCache>> {
        Box::pin(caches::find_for_eviction(self, used_before, rows_max))
    }

    fn list_caches(&self, page: Page<CacheId>) -> Answer<'_, Vec<RepoCache>> {
        Box::pin(caches::list(self, page))
    }

    fn insert_workspace<'a>(
        &'a self,
        workspace: &'a Workspace,
        quota: WorkspaceQuota,
    ) -> Answer<'a, ()> {
        Box::pin(workspaces::insert(self, workspace, quota))
    }

    fn find_workspace(&self, id: WorkspaceId) -> Answer<'_, Option<Workspace>> {
        Box::pin(workspaces::find(&self.readers, id))
    }

    fn find_workspace_by_key<'a>(&'a self, key: &'a WorkspaceKey) -> Answer<'a, Option<Workspace>> {
        Box::pin(workspaces::find_by_key(self, key))
    }

    fn update_workspace<'a>(
        &'a self,
        workspace: &'a Workspace,
        when: Precondition,
    ) -> Answer<'a, Workspace> {
        Box::pin(workspaces::update(self, workspace, when))
    }

    fn touch_workspace(
        &self,
        id: WorkspaceId,
        commands_token: Option<FencingToken>,
        used_at: Timestamp,
    ) -> Answer<'_, ()> {
        Box::pin(workspaces::touch(self, id, commands_token, used_at))
    }

    fn mark_workspace_dirty(
        &self,
        id: WorkspaceId,
        commands_token: FencingToken,
        used_at: Timestamp,
    ) -> Answer<'_, u64> {
        Box::pin(workspaces::mark_dirty(self, id, commands_token, used_at))
    }

    fn mark_workspace_clean(
        &self,
        id: WorkspaceId,
        version: u64,
        commands_token: FencingToken,
        now: Timestamp,
    ) -> Answer<'_, u64> {
        let marking = workspaces::mark_clean(self, id, version, commands_token, now);
        Box::pin(marking)
    }

    fn list_workspaces_by_repo(
        &self,
        cache: CacheId,
        page: Page<WorkspaceId>,
    ) -> Answer<'_, Vec<Workspace>> {
        Box::pin(workspaces::list_of_cache(self, cache, page))
    }

    fn list_workspaces(&self, page: Page<WorkspaceId>) -> Answer<'_, Vec<Workspace>> {
        Box::pin(workspaces::list(self, page))
    }

    fn find_workspaces_for_eviction(
        &self,
        query: WorkspaceEvictionQuery,
    ) -> Answer<'_, Vec<Workspace>> {
        Box::pin(workspaces::find_for_eviction(self, query))
    }

    fn insert_runtime<'a>(&'a self, runtime: &'a Runtime, runtimes_max: u32) -> Answer<'a, ()> {
        Box::pin(runtimes::insert(self, runtime, runtimes_max))
    }

    fn find_runtime(&self, id: RuntimeId) -> Answer<'_, Option<Runtime>> {
        Box::pin(runtimes::find(self, id))
    }

    fn find_runtime_of_workspace(&self, workspace: WorkspaceId) -> Answer<'_, Option<Runtime>> {
        Box::pin(runtimes::find_of_workspace(self, workspace))
    }

    fn update_runtime<'a>(
        &'a self,
        runtime: &'a Runtime,
        when: Precondition,
    ) -> Answer<'a, Runtime> {
        Box::pin(runtimes::update(self, runtime, when))
    }

    fn touch_runtime(
        &self,
        id: RuntimeId,
        commands_token: Option<FencingToken>,
        used_at: Timestamp,
        expires_at: Option<Timestamp>,
    ) -> Answer<'_, ()> {
        let touching = runtimes::touch(self, id, commands_token, used_at, expires_at);
        Box::pin(touching)
    }

    fn find_idle_runtimes(&self, query: IdleRuntimeQuery) -> Answer<'_, Vec<Runtime>> {
        Box::pin(runtimes::find_idle(self, query))
    }

    fn find_orphan_runtimes(&self, rows_max: u32) -> Answer<'_, Vec<Runtime>> {
        Box::pin(runtimes::find_orphans(self, rows_max))
    }

    fn list_runtimes(&self, page: Page<RuntimeId>) -> Answer<'_, Vec<Runtime>> {
        Box::pin(runtimes::list(self, page))
    }

    fn insert_prepared_tree<'a>(
        &'a self,
        tree: &'a PreparedTree,
        unclaimed_max: u32,
    ) -> Answer<'a, ()> {
        Box::pin(prepared_trees::insert(self, tree, unclaimed_max))
    }

    fn claim_prepared_tree<'a>(&'a self, claim: &'a TreeClaim) -> Answer<'a, Option<PreparedTree>> {
        Box::pin(prepared_trees::claim(self, claim))
    }

    fn update_prepared_tree<'a>(&'a self, tree: &'a PreparedTree) -> Answer<'a, PreparedTree> {
        Box::pin(prepared_trees::update(self, tree))
    }

    fn adopt_prepared_tree<'a>(
        &'a self,
        tree: &'a PreparedTree,
        workspace: &'a Workspace,
        when: Precondition,
    ) -> Answer<'a, Workspace> {
        Box::pin(prepared_trees::adopt(self, tree, workspace, when))
    }

    fn list_prepared_trees(&self, page: Page<PreparedTreeId>) -> Answer<'_, Vec<PreparedTree>> {
        Box::pin(prepared_trees::list(self, page))
    }
}
