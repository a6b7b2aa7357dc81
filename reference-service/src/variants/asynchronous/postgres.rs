//! PostgreSQL after a step: sqlx, awaited. The pool, and step 2a's stores.

use std::str::FromStr;
use std::sync::Arc;

use sqlx::Postgres;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

use crate::conversation::{self, Created, NewConversation, ProjectRow};
use crate::stores::{
    Backend, ConversationStore, POOL_KEPT, POOL_MAX, POOL_WAIT, SqlStores, StoreError, StoreFuture,
    UsageStore,
};
use crate::usage::{Usage, Window};
use crate::variants::ConnectError;

/// All stores on one pool.
pub(crate) async fn open(database_url: &str) -> Result<Arc<dyn SqlStores>, ConnectError> {
    Ok(Arc::new(PostgresStores {
        pool: pool(database_url).await?,
    }))
}

/// A pool that pings before use, as sqlx does by default. The connections that it keeps are
/// opened at once.
pub(crate) async fn pool(database_url: &str) -> Result<PgPool, ConnectError> {
    let pool = PgPoolOptions::new()
        .min_connections(POOL_KEPT)
        .max_connections(POOL_MAX)
        .acquire_timeout(POOL_WAIT)
        .test_before_acquire(true)
        .connect_with(connect_options(database_url)?)
        .await
        .map_err(|error| StoreError::unavailable(Backend::Postgres, error))?;
    // The pool opens its minimum in the background; loans taken together make it do so now.
    let mut loans = Vec::new();
    for _ in 0..POOL_KEPT {
        loans.push(acquire(&pool).await?);
    }
    Ok(pool)
}

/// Reads a URL.
pub(crate) fn connect_options(database_url: &str) -> Result<PgConnectOptions, ConnectError> {
    PgConnectOptions::from_str(database_url).map_err(|error| ConnectError::Url {
        option: "database URL",
        backend: Backend::Postgres,
        reason: error.to_string(),
        example: "postgres://user:password@127.0.0.1:5432/name",
    })
}

/// Whatever the reason, without a connection the server can't be reached.
pub(crate) async fn acquire(pool: &PgPool) -> Result<PoolConnection<Postgres>, StoreError> {
    pool.acquire()
        .await
        .map_err(|error| StoreError::unavailable(Backend::Postgres, error))
}

pub(super) struct PostgresStores {
    pub(super) pool: PgPool,
}

impl UsageStore for PostgresStores {
    fn usage<'a>(&'a self, uid: &'a str, window: Window) -> StoreFuture<'a, Usage> {
        Box::pin(async move {
            let mut connection = acquire(&self.pool).await?;
            let rows = sqlx::query_file!("sql/usage.sql", window.from_s, window.to_s, uid)
                .fetch_all(&mut *connection)
                .await
                .map_err(store_error)?;
            let rows = rows
                .into_iter()
                .map(|row| (row.plan, row.agent_id, row.messages))
                .collect();
            Ok(Usage::from_rows(rows))
        })
    }
}

impl ConversationStore for PostgresStores {
    fn create<'a>(&'a self, new: &'a NewConversation) -> StoreFuture<'a, Created> {
        Box::pin(async move {
            let mut connection = acquire(&self.pool).await?;
            let found: Vec<ProjectRow> =
                sqlx::query_file!("sql/select_projects.sql", &new.project_ids)
                    .fetch_all(&mut *connection)
                    .await
                    .map_err(store_error)?
                    .into_iter()
                    .map(|row| (row.id, row.repo_name))
                    .collect();
            let missing = conversation::missing_projects(&new.project_ids, &found);
            if !missing.is_empty() {
                return Ok(Created::ProjectsMissing(missing));
            }
            sqlx::query_file!(
                "sql/insert_conversation.sql",
                new.id,
                new.user_id,
                new.title,
                new.status,
                &new.project_ids,
                &new.agent_ids
            )
            .execute(&mut *connection)
            .await
            .map_err(store_error)?;
            let opening = conversation::opening_message(&new.project_ids, &found);
            sqlx::query_file!(
                "sql/insert_system_message.sql",
                conversation::fresh_id(),
                new.id,
                opening
            )
            .execute(&mut *connection)
            .await
            .map_err(store_error)?;
            Ok(Created::Yes)
        })
    }
}

/// Tells a lost connection from a refused statement.
pub(crate) fn store_error(error: sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => StoreError::unavailable(Backend::Postgres, error),
        // Class 57P: the server shuts down or is starting. Class 08: the connection broke.
        // Class 53: no slot left.
        sqlx::Error::Database(ref database)
            if database.code().is_some_and(|code| {
                code.starts_with("57P") || code.starts_with("08") || code.starts_with("53")
            }) =>
        {
            StoreError::unavailable(Backend::Postgres, error)
        }
        _ => StoreError::refused(Backend::Postgres, error),
    }
}
