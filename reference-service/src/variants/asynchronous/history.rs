//! Step 2b after: chat history through sqlx, awaited.

use super::postgres::{PostgresStores, acquire, store_error};
use crate::conversation::fresh_id;
use crate::stores::StoreFuture;
use crate::stores::history::{Access, HistoryStore};

impl HistoryStore for PostgresStores {
    fn access<'a>(&'a self, uid: &'a str, conversation_id: &'a str) -> StoreFuture<'a, Access> {
        Box::pin(async move {
            let mut connection = acquire(&self.pool).await?;
            let may_read = sqlx::query_file_scalar!("sql/select_access.sql", uid, conversation_id)
                .fetch_optional(&mut *connection)
                .await
                .map_err(store_error)?;
            match may_read {
                None => Ok(Access::Missing),
                Some(false) => Ok(Access::Denied),
                Some(true) => {
                    let messages =
                        sqlx::query_file_scalar!("sql/count_messages.sql", conversation_id)
                            .fetch_one(&mut *connection)
                            .await
                            .map_err(store_error)?;
                    Ok(Access::Allowed { messages })
                }
            }
        })
    }

    fn save_partial<'a>(
        &'a self,
        uid: &'a str,
        conversation_id: &'a str,
        content: &'a str,
    ) -> StoreFuture<'a, Option<String>> {
        Box::pin(async move {
            let mut connection = acquire(&self.pool).await?;
            let id = fresh_id();
            let stored = sqlx::query_file!(
                "sql/insert_partial_message.sql",
                id,
                content,
                conversation_id,
                uid
            )
            .execute(&mut *connection)
            .await
            .map_err(store_error)?;
            Ok((stored.rows_affected() == 1).then_some(id))
        })
    }
}
