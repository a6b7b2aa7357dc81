//! Who answers messages: an agent that echoes, inside the process.
//!
//! It stands in for the agent's worker and its streams in Redis, which come with step 1. Its
//! own writes are awaited on a pool of its own in every variant, since in the original they
//! happen in the worker and never on the loop: they must not count as anything that step 2a moves.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::Frame;
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::sync::mpsc;

use crate::conversation::fresh_id;
use crate::refusal::Refusal;
use crate::stores::StoreError;
use crate::variants::ConnectError;
use crate::variants::asynchronous::postgres;

/// Objects that may wait for a slow reader.
const STREAM_OBJECTS_MAX: usize = 16;

/// A message to answer.
#[derive(Debug, Clone)]
pub struct Message {
    /// The conversation it belongs to.
    pub conversation_id: String,
    /// Who wrote it.
    pub sender_id: String,
    /// Its text.
    pub content: String,
}

/// The agent.
#[derive(Debug, Clone)]
pub struct Agent {
    pool: PgPool,
}

impl Agent {
    /// Opens one connection of the agent's own pool; more follow when it is busy.
    ///
    /// # Errors
    /// [`ConnectError`] if the URL is wrong or the server can't be reached.
    pub async fn open(database_url: &str) -> Result<Self, ConnectError> {
        Ok(Self {
            pool: postgres::pool(database_url, 1).await?,
        })
    }

    /// Ends its connections.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// Whether the tables are there.
    ///
    /// # Errors
    /// [`StoreError`] if the server doesn't answer.
    pub async fn finds_schema(&self) -> Result<bool, StoreError> {
        let mut connection = postgres::acquire(&self.pool).await?;
        sqlx::query_scalar!(r#"SELECT to_regclass('conversations') IS NOT NULL AS "found!""#)
            .fetch_one(&mut *connection)
            .await
            .map_err(postgres::store_error)
    }

    /// A body of JSON objects, one after the other with nothing between: an empty one when the
    /// message is queued, then the answer's words. A failure is a plain end, as the API has it.
    pub fn stream(&self, message: Message) -> Body {
        let (sender, receiver) = mpsc::channel(STREAM_OBJECTS_MAX);
        let agent = self.clone();
        tokio::spawn(async move {
            if let Err(error) = agent.run(&message, &sender).await {
                tracing::error!(%error, conversation = message.conversation_id, "the agent failed");
            }
        });
        Body::new(Objects { receiver })
    }

    /// The answer in one piece.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] if the conversation isn't the sender's, [`Refusal::Store`] if it
    /// can't be stored.
    pub async fn answer(&self, message: Message) -> Result<Value, Refusal> {
        if !self.store_question(&message).await? {
            return Err(Refusal::NotFound("Conversation not found".to_owned()));
        }
        let answer = echo(&message.content);
        self.store_answer(&message, &answer).await?;
        Ok(object(&answer))
    }

    async fn run(&self, message: &Message, sender: &mpsc::Sender<Bytes>) -> Result<(), StoreError> {
        send(sender, "").await;
        if !self.store_question(message).await? {
            return Ok(());
        }
        let answer = echo(&message.content);
        for word in answer.split_inclusive(' ') {
            send(sender, word).await;
        }
        self.store_answer(message, &answer).await
    }

    /// False if the conversation doesn't exist or isn't the sender's.
    async fn store_question(&self, message: &Message) -> Result<bool, StoreError> {
        let mut connection = postgres::acquire(&self.pool).await?;
        let stored = sqlx::query_file!(
            "sql/insert_human_message.sql",
            fresh_id(),
            message.content,
            message.conversation_id,
            message.sender_id
        )
        .execute(&mut *connection)
        .await
        .map_err(postgres::store_error)?;
        Ok(stored.rows_affected() == 1)
    }

    async fn store_answer(&self, message: &Message, answer: &str) -> Result<(), StoreError> {
        let mut connection = postgres::acquire(&self.pool).await?;
        sqlx::query_file!(
            "sql/insert_agent_message.sql",
            fresh_id(),
            message.conversation_id,
            answer
        )
        .execute(&mut *connection)
        .await
        .map_err(postgres::store_error)?;
        Ok(())
    }
}

fn echo(content: &str) -> String {
    format!("You asked: {content}")
}

fn object(message: &str) -> Value {
    json!({ "message": message, "citations": [], "tool_calls": [], "thinking": null })
}

async fn send(sender: &mpsc::Sender<Bytes>, message: &str) {
    // A reader that went away is no reason to stop: the answer is stored all the same.
    let _gone = sender.send(Bytes::from(object(message).to_string())).await;
}

/// A body that ends when the agent does.
struct Objects {
    receiver: mpsc::Receiver<Bytes>,
}

impl http_body::Body for Objects {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.receiver
            .poll_recv(context)
            .map(|object| object.map(|bytes| Ok(Frame::data(bytes))))
    }
}
