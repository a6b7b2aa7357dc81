//! Step 2a before: diesel on libpq, called on the loop.

use std::sync::Arc;

use diesel::pg::PgConnection;
use diesel::result::{DatabaseErrorKind, Error};
use diesel::sql_types::{BigInt, Integer, Nullable, Text};
use diesel::{Connection, ConnectionError, RunQueryDsl};

use super::pool::{Connect, Pool, Pooled};
use super::statement::{Bind, Statement};
use crate::conversation::{self, Created, NewConversation, ProjectRow};
use crate::stores::{
    Backend, ConversationStore, Step2aStores, StoreError, StoreFuture, UsageStore,
};
use crate::usage::{Usage, UsageRow, Window};

pub(super) const USAGE: &str = include_str!("../../../sql/usage.sql");
pub(super) const SELECT_PROJECTS: &str = include_str!("../../../sql/select_projects.sql");
pub(super) const INSERT_CONVERSATION: &str = include_str!("../../../sql/insert_conversation.sql");
pub(super) const INSERT_SYSTEM_MESSAGE: &str =
    include_str!("../../../sql/insert_system_message.sql");

/// The connections that all blocking SQL stores share.
pub(crate) type SqlPool = Arc<Pool<Postgres>>;

/// Opens the pool.
pub(crate) fn pool(database_url: &str) -> Result<SqlPool, StoreError> {
    let pool = Pool::open(Postgres {
        database_url: database_url.to_owned(),
    })?;
    Ok(Arc::new(pool))
}

/// The stores of step 2a.
pub(crate) fn stores(pool: SqlPool) -> Step2aStores {
    let stores = Arc::new(PostgresStores { pool });
    (Arc::clone(&stores) as Arc<dyn UsageStore>, stores)
}

struct PostgresStores {
    pool: SqlPool,
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
        )?;
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
        )?;
        Ok(Created::Yes)
    }
}

fn execute(
    connection: &mut Pooled<'_, Postgres>,
    sql: &'static str,
    binds: &[Bind<'_>],
) -> Result<(), StoreError> {
    Statement::<()>::new(sql, binds)
        .execute(&mut **connection)
        .map_err(store_error)?;
    Ok(())
}

/// Opens connections.
pub(crate) struct Postgres {
    database_url: String,
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

    fn is_reusable(&self, _: &mut PgConnection) -> bool {
        // No transactions here that could be left open; the check before use finds broken ones.
        true
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
