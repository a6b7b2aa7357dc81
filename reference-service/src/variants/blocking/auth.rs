//! Step 2d before: diesel on libpq, called on the loop.

use diesel::result::Error;
use diesel::sql_types::{Bool, Nullable, Text};
use diesel::{PgConnection, QueryResult, RunQueryDsl};

use super::pool::Pooled;
use super::postgres::{Postgres, PostgresStores, execute, store_error, transaction};
use super::statement::{Bind, Statement};
use crate::auth::{
    AuditEvent, Client, NewProvider, NewUser, PendingLink, Provider, ProviderKey, User,
};
use crate::conversation::fresh_id;
use crate::stores::auth::{AuthSession, AuthSessions};
use crate::stores::{StoreError, StoreFuture};

pub(super) const SELECT_USER_BY_UID: &str = include_str!("../../../sql/select_user_by_uid.sql");
pub(super) const SELECT_USER_BY_EMAIL: &str = include_str!("../../../sql/select_user_by_email.sql");
pub(super) const SELECT_PROVIDERS: &str = include_str!("../../../sql/select_providers.sql");
pub(super) const SELECT_PROVIDER: &str = include_str!("../../../sql/select_provider.sql");
pub(super) const SELECT_PROVIDER_BY_UID: &str =
    include_str!("../../../sql/select_provider_by_uid.sql");
pub(super) const INSERT_USER: &str = include_str!("../../../sql/insert_user.sql");
pub(super) const INSERT_PROVIDER: &str = include_str!("../../../sql/insert_provider.sql");
pub(super) const INSERT_PENDING_LINK: &str = include_str!("../../../sql/insert_pending_link.sql");
pub(super) const INSERT_AUDIT_EVENT: &str = include_str!("../../../sql/insert_audit_event.sql");
pub(super) const UPDATE_PROVIDER_USED: &str = include_str!("../../../sql/update_provider_used.sql");
pub(super) const UPDATE_LAST_LOGIN: &str = include_str!("../../../sql/update_last_login.sql");

/// The columns of `sql/select_providers.sql`.
type ProviderColumns = (
    Text,
    Text,
    Text,
    Text,
    Nullable<Text>,
    Bool,
    Text,
    Nullable<Text>,
);
type ProviderRow = (
    String,
    String,
    String,
    String,
    Option<String>,
    bool,
    String,
    Option<String>,
);

impl AuthSessions for PostgresStores {
    fn session(&self) -> StoreFuture<'_, Box<dyn AuthSession + '_>> {
        Box::pin(async move {
            let connection = self.pool.get()?;
            Ok(Box::new(Session { connection }) as Box<dyn AuthSession + '_>)
        })
    }
}

struct Session<'a> {
    connection: Pooled<'a, Postgres>,
}

impl AuthSession for Session<'_> {
    fn user_by_uid<'a>(&'a mut self, uid: &'a str) -> StoreFuture<'a, Option<User>> {
        Box::pin(async move { self.user(SELECT_USER_BY_UID, uid) })
    }

    fn user_by_email<'a>(&'a mut self, email: &'a str) -> StoreFuture<'a, Option<User>> {
        Box::pin(async move { self.user(SELECT_USER_BY_EMAIL, email) })
    }

    fn providers_of<'a>(&'a mut self, uid: &'a str) -> StoreFuture<'a, Vec<Provider>> {
        Box::pin(async move {
            let rows: Vec<ProviderRow> =
                Statement::<ProviderColumns>::new(SELECT_PROVIDERS, &[Bind::Text(uid)])
                    .load(&mut *self.connection)
                    .map_err(store_error)?;
            Ok(rows.into_iter().map(provider).collect())
        })
    }

    fn provider<'a>(
        &'a mut self,
        uid: &'a str,
        provider_type: &'a str,
    ) -> StoreFuture<'a, Option<ProviderKey>> {
        Box::pin(async move { self.key(SELECT_PROVIDER, uid, provider_type) })
    }

    fn provider_by_uid<'a>(
        &'a mut self,
        provider_type: &'a str,
        provider_uid: &'a str,
    ) -> StoreFuture<'a, Option<ProviderKey>> {
        Box::pin(async move { self.key(SELECT_PROVIDER_BY_UID, provider_type, provider_uid) })
    }

    fn create_user<'a>(
        &'a mut self,
        user: &'a NewUser,
        provider: &'a NewProvider,
        client: &'a Client,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            unless_taken(transaction(&mut self.connection, |connection| {
                let binds = [
                    Bind::Text(&user.uid),
                    Bind::Text(&user.email),
                    Bind::Text(&user.display_name),
                    Bind::Bool(user.email_verified),
                ];
                insert(execute(connection, INSERT_USER, &binds))?;
                insert(insert_provider(connection, provider, client))
            }))
        })
    }

    fn add_provider<'a>(
        &'a mut self,
        provider: &'a NewProvider,
        client: &'a Client,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            unless_taken(transaction(&mut self.connection, |connection| {
                insert(insert_provider(connection, provider, client))
            }))
        })
    }

    fn add_pending_link<'a>(
        &'a mut self,
        link: &'a PendingLink,
        client: &'a Client,
    ) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let binds = [
                Bind::Text(&link.token),
                Bind::Text(&link.user_id),
                Bind::Text(&link.provider_type),
                Bind::Text(&link.provider_uid),
                Bind::Text(&link.provider_data),
                Bind::Text(&client.ip),
                Bind::OptionalText(client.user_agent.as_deref()),
            ];
            self.write(INSERT_PENDING_LINK, &binds)
        })
    }

    fn record_use<'a>(&'a mut self, provider_id: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.write(UPDATE_PROVIDER_USED, &[Bind::Text(provider_id)]) })
    }

    fn record_login<'a>(&'a mut self, uid: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.write(UPDATE_LAST_LOGIN, &[Bind::Text(uid)]) })
    }

    fn record_event<'a>(
        &'a mut self,
        event: &'a AuditEvent<'a>,
        client: &'a Client,
    ) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let id = fresh_id();
            let binds = [
                Bind::Text(&id),
                Bind::Text(event.user_id),
                Bind::Text(event.event_type),
                Bind::Text(event.provider_type),
                Bind::Text(event.status),
                Bind::Text(&client.ip),
                Bind::OptionalText(client.user_agent.as_deref()),
            ];
            self.write(INSERT_AUDIT_EVENT, &binds)
        })
    }
}

impl Session<'_> {
    fn user(&mut self, sql: &'static str, key: &str) -> Result<Option<User>, StoreError> {
        let rows: Vec<(String, String, Option<String>)> =
            Statement::<(Text, Text, Nullable<Text>)>::new(sql, &[Bind::Text(key)])
                .load(&mut *self.connection)
                .map_err(store_error)?;
        let row = rows.into_iter().next();
        Ok(row.map(|(uid, email, display_name)| User {
            uid,
            email,
            display_name,
        }))
    }

    fn key(
        &mut self,
        sql: &'static str,
        first: &str,
        second: &str,
    ) -> Result<Option<ProviderKey>, StoreError> {
        let rows: Vec<(String, String)> =
            Statement::<(Text, Text)>::new(sql, &[Bind::Text(first), Bind::Text(second)])
                .load(&mut *self.connection)
                .map_err(store_error)?;
        let row = rows.into_iter().next();
        Ok(row.map(|(id, user_id)| ProviderKey { id, user_id }))
    }

    /// A transaction of one statement.
    fn write(&mut self, sql: &'static str, binds: &[Bind<'_>]) -> Result<(), StoreError> {
        transaction(&mut self.connection, |connection| {
            execute(connection, sql, binds).map(|_rows| ())
        })
        .map_err(store_error)
    }
}

fn provider(row: ProviderRow) -> Provider {
    let (id, user_id, provider_type, provider_uid, provider_data, is_primary, linked_at, last) =
        row;
    Provider {
        id,
        user_id,
        provider_type,
        provider_uid,
        provider_data,
        is_primary,
        linked_at,
        last_used_at: last,
    }
}

fn insert_provider(
    connection: &mut PgConnection,
    provider: &NewProvider,
    client: &Client,
) -> QueryResult<usize> {
    let id = fresh_id();
    let binds = [
        Bind::Text(&id),
        Bind::Text(&provider.user_id),
        Bind::Text(&provider.provider_type),
        Bind::Text(&provider.provider_uid),
        Bind::Text(&provider.provider_data),
        Bind::Bool(provider.is_primary),
        Bind::Text(&client.ip),
        Bind::OptionalText(client.user_agent.as_deref()),
    ];
    execute(connection, INSERT_PROVIDER, &binds)
}

/// An INSERT that wrote nothing found its key taken: the transaction is undone.
fn insert(rows: QueryResult<usize>) -> QueryResult<()> {
    match rows? {
        0 => Err(Error::RollbackTransaction),
        _ => Ok(()),
    }
}

/// `false` if the transaction was undone.
fn unless_taken(written: QueryResult<()>) -> Result<bool, StoreError> {
    match written {
        Ok(()) => Ok(true),
        Err(Error::RollbackTransaction) => Ok(false),
        Err(error) => Err(store_error(error)),
    }
}
