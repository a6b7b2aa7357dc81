//! Step 2e after: sqlx, awaited.

use sqlx::PgConnection;

use super::postgres::{PostgresStores, acquire, store_error};
use crate::auth::{GITHUB, User};
use crate::repositories::{HubAccount, Known, Project};
use crate::stores::StoreFuture;
use crate::stores::repositories::RepositoryStore;

impl RepositoryStore for PostgresStores {
    fn known<'a>(&'a self, uid: &'a str) -> StoreFuture<'a, Known> {
        Box::pin(async move {
            let mut connection = acquire(&self.pool).await?;
            known(&mut connection, uid).await.map_err(store_error)
        })
    }

    fn project<'a>(&'a self, id: &'a str, uid: &'a str) -> StoreFuture<'a, Option<Project>> {
        Box::pin(async move {
            let mut connection = acquire(&self.pool).await?;
            sqlx::query_file_as!(Project, "sql/select_project.sql", id, uid)
                .fetch_optional(&mut *connection)
                .await
                .map_err(store_error)
        })
    }
}

async fn known(connection: &mut PgConnection, uid: &str) -> sqlx::Result<Known> {
    let projects = sqlx::query_file!("sql/select_user_repositories.sql", uid)
        .fetch_all(&mut *connection)
        .await?
        .into_iter()
        .map(|row| (row.id, row.repo_name))
        .collect();
    let mut account = account(connection, uid).await?;
    if account.is_some() {
        // The original looks both up again where it wants the account's token.
        account = self::account(connection, uid).await?;
    }
    Ok(Known { projects, account })
}

/// The user, then their account.
async fn account(connection: &mut PgConnection, uid: &str) -> sqlx::Result<Option<HubAccount>> {
    let user = sqlx::query_file_as!(User, "sql/select_user_by_uid.sql", uid)
        .fetch_optional(&mut *connection)
        .await?;
    if user.is_none() {
        return Ok(None);
    }
    sqlx::query_file_as!(HubAccount, "sql/select_hub_account.sql", uid, GITHUB)
        .fetch_optional(connection)
        .await
}
