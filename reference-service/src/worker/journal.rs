//! The conversation's messages, as the agent writes them: SQL, awaited.

use sqlx::PgPool;

use crate::conversation::fresh_id;
use crate::run::Task;
use crate::stores::StoreError;
use crate::variants::asynchronous::postgres::{acquire, store_error};

/// The messages.
#[derive(Debug, Clone)]
pub struct Journal {
    pool: PgPool,
}

impl Journal {
    /// On a pool.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self { pool }
    }

    /// Stores what is asked, or finds what was asked last and archives the answers to it.
    /// `None` if the conversation isn't the user's, or nothing was asked yet.
    ///
    /// # Errors
    /// [`StoreError`] if PostgreSQL doesn't answer.
    pub async fn question(&self, task: &Task) -> Result<Option<String>, StoreError> {
        let mut connection = acquire(&self.pool).await?;
        if task.regenerate {
            return sqlx::query_file_scalar!(
                "sql/take_back_answer.sql",
                task.conversation_id,
                task.user_id
            )
            .fetch_optional(&mut *connection)
            .await
            .map_err(store_error);
        }
        let stored = sqlx::query_file!(
            "sql/insert_human_message.sql",
            fresh_id(),
            task.content,
            task.conversation_id,
            task.user_id
        )
        .execute(&mut *connection)
        .await
        .map_err(store_error)?;
        Ok((stored.rows_affected() == 1).then(|| task.content.clone()))
    }

    /// Stores what was answered.
    ///
    /// # Errors
    /// [`StoreError`] if PostgreSQL doesn't answer.
    pub async fn answer(&self, task: &Task, answer: &str) -> Result<(), StoreError> {
        let mut connection = acquire(&self.pool).await?;
        sqlx::query_file!(
            "sql/insert_agent_message.sql",
            fresh_id(),
            task.conversation_id,
            answer
        )
        .execute(&mut *connection)
        .await
        .map_err(store_error)?;
        Ok(())
    }
}
