//! Step 2b after: chat history through sqlx, awaited.

use super::postgres::{PostgresStores, acquire, store_error};
use crate::conversation::fresh_id;
use crate::stores::StoreFuture;
use crate::stores::history::HistoryStore;

impl HistoryStore for PostgresStores {
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
