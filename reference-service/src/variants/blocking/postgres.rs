//! PostgreSQL before a step: diesel on libpq, called on the loop. The pool, and step 2a's stores.

use std::sync::Arc;

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::pg::PgConnection;
use diesel::result::{DatabaseErrorKind, Error};
use diesel::sql_types::{BigInt, Integer, Nullable, Text};
use diesel::{Connection, ConnectionError, QueryResult, RunQueryDsl};

use super::pool::{Connect, Pool};
use super::statement::{Bind, Statement};
use crate::conversation::{self, Created, NewConversation, ProjectRow};
use crate::stores::{Backend, ConversationStore, SqlStores, StoreError, StoreFuture, UsageStore};
use crate::usage::{Usage, UsageRow, Window};

pub(super) const USAGE: &str = include_str!("../../../sql/usage.sql");
pub(super) const SELECT_PROJECTS: &str = include_str!("../../../sql/select_projects.sql");
pub(super) const INSERT_CONVERSATION: &str = include_str!("../../../sql/insert_conversation.sql");
pub(super) const INSERT_SYSTEM_MESSAGE: &str =
    include_str!("../../../sql/insert_system_message.sql");

/// All stores on one pool.
pub(crate) fn open(database_url: &str) -> Result<Arc<dyn SqlStores>, StoreError> {
    let pool = Pool::open(Postgres::at(database_url))?;
    Ok(Arc::new(PostgresStores { pool }))
}

pub(super) struct PostgresStores {
    pub(super) pool: Pool<Postgres>,
}

impl UsageStore for PostgresStores {
    fn usage<'a>(&'a self, uid: &'a str, window: Window) -> StoreFuture<'a, Usage> {
        Box::pin(async move { self.usage_blocking(uid, window) })
    }
}

impl ConversationStore for PostgresStores {
    fn create<'a>(&'a self, new: &'a NewConversation) -> StoreFuture<'a, Created> {
        Box::pin(async move { self.create_blocking(new) })
    }
}

impl PostgresStores {
    fn usage_blocking(&self, uid: &str, window: Window) -> Result<Usage, StoreError> {
        let mut connection = self.pool.get()?;
        let binds = [
            Bind::Double(window.from_s),
            Bind::Double(window.to_s),
            Bind::Text(uid),
        ];
        let rows: Vec<UsageRow> =
            Statement::<(Text, Nullable<Text>, Nullable<BigInt>)>::new(USAGE, &binds)
                .load(&mut *connection)
                .map_err(store_error)?;
        Ok(Usage::from_rows(rows))
    }

    fn create_blocking(&self, new: &NewConversation) -> Result<Created, StoreError> {
        let mut connection = self.pool.get()?;
        let found: Vec<ProjectRow> =
            Statement::<(Text, Text)>::new(SELECT_PROJECTS, &[Bind::Texts(&new.project_ids)])
                .load(&mut *connection)
                .map_err(store_error)?;
        let missing = conversation::missing_projects(&new.project_ids, &found);
        if !missing.is_empty() {
            return Ok(Created::ProjectsMissing(missing));
        }
        execute(
            &mut connection,
            INSERT_CONVERSATION,
            &[
                Bind::Text(&new.id),
                Bind::Text(&new.user_id),
                Bind::Text(&new.title),
                Bind::Text(new.status),
                Bind::Texts(&new.project_ids),
                Bind::Texts(&new.agent_ids),
            ],
        )
        .map_err(store_error)?;
        let opening = conversation::opening_message(&new.project_ids, &found);
        let message_id = conversation::fresh_id();
        execute(
            &mut connection,
            INSERT_SYSTEM_MESSAGE,
            &[
                Bind::Text(&message_id),
                Bind::Text(&new.id),
                Bind::Text(&opening),
            ],
        )
        .map_err(store_error)?;
        Ok(Created::Yes)
    }
}

/// Rows written.
pub(super) fn execute(
    connection: &mut PgConnection,
    sql: &'static str,
    binds: &[Bind<'_>],
) -> QueryResult<usize> {
    Statement::<()>::new(sql, binds).execute(connection)
}

/// BEGIN, what the closure does, and COMMIT, or ROLLBACK if it fails.
///
/// BEGIN and COMMIT are round trips of their own, as they are for the clients of the service being
/// migrated: psycopg2 and asyncpg both send BEGIN by itself before a transaction's first statement.
pub(super) fn transaction<T>(
    connection: &mut PgConnection,
    write: impl FnOnce(&mut PgConnection) -> QueryResult<T>,
) -> QueryResult<T> {
    connection.transaction(write)
}

pub(super) struct Postgres {
    database_url: String,
}

impl Postgres {
    pub(super) fn at(database_url: &str) -> Self {
        Self {
            database_url: database_url.to_owned(),
        }
    }
}

impl Connect for Postgres {
    type Connection = PgConnection;
    type Error = StoreError;

    fn connect(&self) -> Result<PgConnection, StoreError> {
        PgConnection::establish(&self.database_url)
            .map_err(|error: ConnectionError| StoreError::unavailable(Backend::Postgres, error))
    }

    fn is_alive(&self, connection: &mut PgConnection) -> bool {
        Statement::<Integer>::new("SELECT 1", &[])
            .execute(connection)
            .is_ok()
    }

    fn is_reusable(&self, connection: &mut PgConnection) -> bool {
        // With a transaction left open, or one that couldn't be ended, others would write into it.
        let status = AnsiTransactionManager::transaction_manager_status_mut(connection);
        matches!(status.transaction_depth(), Ok(None))
    }

    fn exhausted(&self) -> StoreError {
        StoreError::unavailable(Backend::Postgres, "all connections are in use")
    }
}

pub(super) fn store_error(error: Error) -> StoreError {
    match error {
        Error::DatabaseError(
            DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand,
            _,
        ) => StoreError::unavailable(Backend::Postgres, error),
        _ => StoreError::refused(Backend::Postgres, error),
    }
}
