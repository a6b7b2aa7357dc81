//! Step 2b before: chat history through diesel, called on the loop. And the agent worker's own
//! history, which stays synchronous, on a thread of that process.

use diesel::pg::PgConnection;
use diesel::sql_types::Text;
use diesel::{QueryResult, RunQueryDsl};

use super::pool::Connect;
use super::postgres::{Postgres, PostgresStores, execute, store_error};
use super::statement::{Bind, Statement};
use crate::chat_history::{AgentMessage, question_id};
use crate::run::Task;
use crate::stores::history::HistoryStore;
use crate::stores::{StoreError, StoreFuture};

pub(super) const INSERT_ANSWER: &str = include_str!("../../../sql/insert_answer.sql");
pub(super) const INSERT_HUMAN_MESSAGE: &str = include_str!("../../../sql/insert_human_message.sql");
pub(super) const TAKE_BACK_ANSWER: &str = include_str!("../../../sql/take_back_answer.sql");

impl HistoryStore for PostgresStores {
    fn save_answer<'a>(
        &'a self,
        uid: &'a str,
        conversation_id: &'a str,
        message: &'a AgentMessage,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let mut connection = self.pool.get()?;
            insert_answer(&mut connection, uid, conversation_id, message).map_err(store_error)
        })
    }
}

fn insert_answer(
    connection: &mut PgConnection,
    uid: &str,
    conversation_id: &str,
    message: &AgentMessage,
) -> QueryResult<bool> {
    let binds = [
        Bind::Text(&message.id),
        Bind::Text(&message.content),
        Bind::OptionalText(message.citations.as_deref()),
        Bind::Text(&message.tool_calls),
        Bind::OptionalText(message.thinking.as_deref()),
        Bind::Text(conversation_id),
        Bind::Text(uid),
    ];
    Ok(execute(connection, INSERT_ANSWER, &binds)? == 1)
}

/// The worker's messages, on one connection. One that broke is replaced when it is needed next.
pub(crate) struct WorkerHistory {
    connect: Postgres,
    connection: Option<PgConnection>,
}

impl WorkerHistory {
    /// Connects.
    pub(crate) fn open(database_url: &str) -> Result<Self, StoreError> {
        let connect = Postgres::at(database_url);
        Ok(Self {
            connection: Some(connect.connect()?),
            connect,
        })
    }

    /// Stores what is asked, or finds what was asked last and archives the answers to it.
    /// `None` if the conversation isn't the user's, or nothing was asked yet.
    pub(crate) fn question(&mut self, task: &Task) -> Result<Option<String>, StoreError> {
        self.on_connection(|connection| {
            if task.regenerate {
                let binds = [Bind::Text(&task.conversation_id), Bind::Text(&task.user_id)];
                let asked: Vec<String> =
                    Statement::<Text>::new(TAKE_BACK_ANSWER, &binds).load(connection)?;
                return Ok(asked.into_iter().next());
            }
            let id = question_id(&task.task_id);
            let binds = [
                Bind::Text(&id),
                Bind::Text(&task.content),
                Bind::Text(&task.conversation_id),
                Bind::Text(&task.user_id),
            ];
            let stored = execute(connection, INSERT_HUMAN_MESSAGE, &binds)?;
            Ok((stored == 1).then(|| task.content.clone()))
        })
    }

    /// Stores what was answered.
    pub(crate) fn answer(&mut self, task: &Task, message: &AgentMessage) -> Result<(), StoreError> {
        self.on_connection(|connection| {
            let stored = insert_answer(connection, &task.user_id, &task.conversation_id, message)?;
            if !stored {
                tracing::debug!(
                    id = message.id,
                    "not stored: more of the answer is, or the conversation is gone"
                );
            }
            Ok(())
        })
    }

    fn on_connection<T>(
        &mut self,
        work: impl FnOnce(&mut PgConnection) -> QueryResult<T>,
    ) -> Result<T, StoreError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect.connect()?,
        };
        let done = work(&mut connection).map_err(store_error);
        if !matches!(done, Err(StoreError::Unavailable { .. })) {
            self.connection = Some(connection);
        }
        done
    }
}
