//! Step 2d after: sqlx, awaited.

use sqlx::pool::PoolConnection;
use sqlx::{Connection, PgConnection, Postgres};

use super::postgres::{PostgresStores, acquire, store_error};
use crate::auth::{
    AuditEvent, Client, NewProvider, NewUser, PendingLink, Provider, ProviderKey, User,
};
use crate::conversation::fresh_id;
use crate::stores::StoreFuture;
use crate::stores::auth::{AuthSession, AuthSessions};

impl AuthSessions for PostgresStores {
    fn session(&self) -> StoreFuture<'_, Box<dyn AuthSession + '_>> {
        Box::pin(async move {
            let connection = acquire(&self.pool).await?;
            Ok(Box::new(Session { connection }) as Box<dyn AuthSession + '_>)
        })
    }
}

struct Session {
    connection: PoolConnection<Postgres>,
}

/// Awaits a statement or transaction, and says what its error means.
fn stored<'a, T>(
    statement: impl Future<Output = sqlx::Result<T>> + Send + 'a,
) -> StoreFuture<'a, T> {
    Box::pin(async move { statement.await.map_err(store_error) })
}

impl AuthSession for Session {
    fn user_by_uid<'a>(&'a mut self, uid: &'a str) -> StoreFuture<'a, Option<User>> {
        stored(async move {
            sqlx::query_file_as!(User, "sql/select_user_by_uid.sql", uid)
                .fetch_optional(&mut *self.connection)
                .await
        })
    }

    fn user_by_email<'a>(&'a mut self, email: &'a str) -> StoreFuture<'a, Option<User>> {
        stored(async move {
            sqlx::query_file_as!(User, "sql/select_user_by_email.sql", email)
                .fetch_optional(&mut *self.connection)
                .await
        })
    }

    fn providers_of<'a>(&'a mut self, uid: &'a str) -> StoreFuture<'a, Vec<Provider>> {
        stored(async move {
            sqlx::query_file_as!(Provider, "sql/select_providers.sql", uid)
                .fetch_all(&mut *self.connection)
                .await
        })
    }

    fn provider<'a>(
        &'a mut self,
        uid: &'a str,
        provider_type: &'a str,
    ) -> StoreFuture<'a, Option<ProviderKey>> {
        stored(async move {
            sqlx::query_file_as!(ProviderKey, "sql/select_provider.sql", uid, provider_type)
                .fetch_optional(&mut *self.connection)
                .await
        })
    }

    fn provider_by_uid<'a>(
        &'a mut self,
        provider_type: &'a str,
        provider_uid: &'a str,
    ) -> StoreFuture<'a, Option<ProviderKey>> {
        stored(async move {
            sqlx::query_file_as!(
                ProviderKey,
                "sql/select_provider_by_uid.sql",
                provider_type,
                provider_uid
            )
            .fetch_optional(&mut *self.connection)
            .await
        })
    }

    fn create_user<'a>(
        &'a mut self,
        user: &'a NewUser,
        provider: &'a NewProvider,
        client: &'a Client,
    ) -> StoreFuture<'a, bool> {
        stored(async move {
            let mut transaction = self.connection.begin().await?;
            let inserted = sqlx::query_file!(
                "sql/insert_user.sql",
                user.uid,
                user.email,
                user.display_name,
                user.email_verified
            )
            .execute(&mut *transaction)
            .await?;
            let is_new = inserted.rows_affected() > 0
                && insert_provider(&mut transaction, provider, client).await?;
            if is_new {
                transaction.commit().await?;
            } else {
                transaction.rollback().await?;
            }
            Ok(is_new)
        })
    }

    fn add_provider<'a>(
        &'a mut self,
        provider: &'a NewProvider,
        client: &'a Client,
    ) -> StoreFuture<'a, bool> {
        stored(async move {
            let mut transaction = self.connection.begin().await?;
            let is_new = insert_provider(&mut transaction, provider, client).await?;
            if is_new {
                transaction.commit().await?;
            } else {
                transaction.rollback().await?;
            }
            Ok(is_new)
        })
    }

    fn add_pending_link<'a>(
        &'a mut self,
        link: &'a PendingLink,
        client: &'a Client,
    ) -> StoreFuture<'a, ()> {
        stored(async move {
            let mut transaction = self.connection.begin().await?;
            sqlx::query_file!(
                "sql/insert_pending_link.sql",
                link.token,
                link.user_id,
                link.provider_type,
                link.provider_uid,
                link.provider_data,
                client.ip,
                client.user_agent.as_deref()
            )
            .execute(&mut *transaction)
            .await?;
            transaction.commit().await
        })
    }

    fn record_use<'a>(&'a mut self, provider_id: &'a str) -> StoreFuture<'a, ()> {
        stored(async move {
            let mut transaction = self.connection.begin().await?;
            sqlx::query_file!("sql/update_provider_used.sql", provider_id)
                .execute(&mut *transaction)
                .await?;
            transaction.commit().await
        })
    }

    fn record_login<'a>(&'a mut self, uid: &'a str) -> StoreFuture<'a, ()> {
        stored(async move {
            let mut transaction = self.connection.begin().await?;
            sqlx::query_file!("sql/update_last_login.sql", uid)
                .execute(&mut *transaction)
                .await?;
            transaction.commit().await
        })
    }

    fn record_event<'a>(
        &'a mut self,
        event: &'a AuditEvent<'a>,
        client: &'a Client,
    ) -> StoreFuture<'a, ()> {
        stored(async move {
            let mut transaction = self.connection.begin().await?;
            sqlx::query_file!(
                "sql/insert_audit_event.sql",
                fresh_id(),
                event.user_id,
                event.event_type,
                event.provider_type,
                event.status,
                client.ip,
                client.user_agent.as_deref()
            )
            .execute(&mut *transaction)
            .await?;
            transaction.commit().await
        })
    }
}

/// `false` if the provider is somebody's already.
async fn insert_provider(
    connection: &mut PgConnection,
    provider: &NewProvider,
    client: &Client,
) -> sqlx::Result<bool> {
    let inserted = sqlx::query_file!(
        "sql/insert_provider.sql",
        fresh_id(),
        provider.user_id,
        provider.provider_type,
        provider.provider_uid,
        provider.provider_data,
        provider.is_primary,
        client.ip,
        client.user_agent.as_deref()
    )
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected() > 0)
}
