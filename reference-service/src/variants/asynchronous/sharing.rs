//! Step 2c after: sqlx, awaited.

use sqlx::{Connection, PgConnection};

use super::postgres::{PostgresStores, acquire, store_error};
use crate::sharing::{Change, Changed, Sharing};
use crate::stores::StoreFuture;
use crate::stores::sharing::SharingStore;

impl SharingStore for PostgresStores {
    fn sharing<'a>(
        &'a self,
        conversation_id: &'a str,
        owner: &'a str,
    ) -> StoreFuture<'a, Option<Sharing>> {
        Box::pin(async move {
            let mut connection = acquire(&self.pool).await?;
            select(&mut connection, conversation_id, owner)
                .await
                .map_err(store_error)
        })
    }

    fn change<'a>(
        &'a self,
        conversation_id: &'a str,
        owner: &'a str,
        change: &'a Change,
    ) -> StoreFuture<'a, Changed> {
        Box::pin(async move {
            let mut connection = acquire(&self.pool).await?;
            write(&mut connection, conversation_id, owner, change)
                .await
                .map_err(store_error)
        })
    }
}

async fn write(
    connection: &mut PgConnection,
    conversation_id: &str,
    owner: &str,
    change: &Change,
) -> sqlx::Result<Changed> {
    let mut transaction = connection.begin().await?;
    let changed = match select(&mut transaction, conversation_id, owner).await? {
        None => Changed::NotFound,
        Some(sharing) => match change.applied_to(sharing) {
            None => Changed::NobodyHadAccess,
            Some(Sharing { visibility, emails }) => {
                sqlx::query_file!(
                    "sql/update_sharing.sql",
                    visibility,
                    &emails,
                    conversation_id
                )
                .execute(&mut *transaction)
                .await?;
                Changed::Yes
            }
        },
    };
    transaction.commit().await?;
    Ok(changed)
}

async fn select(
    connection: &mut PgConnection,
    conversation_id: &str,
    owner: &str,
) -> sqlx::Result<Option<Sharing>> {
    let row = sqlx::query_file!("sql/select_sharing.sql", conversation_id, owner)
        .fetch_optional(connection)
        .await?;
    Ok(row.map(|row| Sharing {
        visibility: row.visibility,
        emails: row.shared_with_emails,
    }))
}
