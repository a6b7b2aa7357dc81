//! Step 2b after: chat history through sqlx, awaited.

use super::postgres::{PostgresStores, acquire, store_error};
use crate::chat_history::AgentMessage;
use crate::stores::StoreFuture;
use crate::stores::history::HistoryStore;

impl HistoryStore for PostgresStores {
    fn save_answer<'a>(
        &'a self,
        uid: &'a str,
        conversation_id: &'a str,
        message: &'a AgentMessage,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let mut connection = acquire(&self.pool).await?;
            let stored = sqlx::query_file!(
                "sql/insert_answer.sql",
                message.id,
                message.content,
                message.citations,
                message.tool_calls,
                message.thinking,
                conversation_id,
                uid
            )
            .execute(&mut *connection)
            .await
            .map_err(store_error)?;
            Ok(stored.rows_affected() == 1)
        })
    }
}
