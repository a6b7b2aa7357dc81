//! What readers hear of a run: entries of its stream and its status, written together.

use fred::clients::Client;
use fred::interfaces::{KeysInterface, StreamsInterface};
use fred::types::streams::{XCapKind, XCapTrim};
use fred::types::{Expiration, SetOptions, Value};

use crate::chat_history::Checkpoint;
use crate::entry_id::{EntryId, NoEntryId};
use crate::run::{
    Run, RunStatus, STREAM_ENTRIES_MAX, STREAM_TTL_S, TASK_TTL_S, Task, checkpoint_key,
};
use crate::stores::streams::with_ids;
use crate::stores::{Backend, StoreError};
use crate::stream_event::{Entry, EntryWithId, Fields};
use crate::variants::asynchronous::redis::{once, store_error};

/// The stream of a run is gone: it was stopped and deleted, has expired, or Redis lost it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamGone;

/// Writes to runs' keys, never to one that isn't there: what was deleted stays deleted.
#[derive(Debug, Clone)]
pub struct Publisher {
    client: Client,
}

impl Publisher {
    /// On a connection.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Adds an entry, and a status before it if there is a new one: who reads the last entry
    /// finds the status that goes with it. One write, tried once. Gives the entry's id.
    ///
    /// # Errors
    /// [`StoreError`] if Redis doesn't answer; then the entry may or may not be there.
    pub async fn publish(
        &self,
        run: &Run,
        fields: Fields,
        status: Option<RunStatus>,
    ) -> Result<Result<EntryId, StreamGone>, StoreError> {
        let stream = run.stream_key();
        let writes = once(&self.client.pipeline());
        if let Some(status) = status {
            let life = Some(Expiration::EX(TASK_TTL_S));
            let only_if_there = Some(SetOptions::XX);
            let _queued: () = writes
                .set(
                    run.status_key(),
                    status.as_str(),
                    life,
                    only_if_there,
                    false,
                )
                .await
                .map_err(store_error)?;
        }
        let cap = (
            XCapKind::MaxLen,
            XCapTrim::AlmostExact,
            i64::from(STREAM_ENTRIES_MAX),
        );
        let _queued: () = writes
            .xadd(&stream, true, cap, "*", fields)
            .await
            .map_err(store_error)?;
        let _queued: () = writes
            .expire(&stream, STREAM_TTL_S, None)
            .await
            .map_err(store_error)?;
        let replies: Vec<Value> = writes.all().await.map_err(store_error)?;
        let id = &replies[usize::from(status.is_some())];
        if id.is_null() {
            return Ok(Err(StreamGone));
        }
        let id: String = id.clone().convert().map_err(store_error)?;
        let refused = |error: NoEntryId| StoreError::refused(Backend::Redis, error);
        Ok(Ok(id.parse::<EntryId>().map_err(refused)?))
    }

    /// What readers have heard of a run: the entries that its stream keeps.
    ///
    /// # Errors
    /// [`StoreError`] if Redis doesn't answer.
    pub async fn published(&self, run: &Run) -> Result<Vec<EntryWithId>, StoreError> {
        let entries: Vec<(String, Entry)> = once(&self.client)
            .xrange_values(run.stream_key(), "-", "+", None)
            .await
            .map_err(store_error)?;
        with_ids(entries)
    }

    /// Keeps what a long answer has said, instead of what was kept before.
    ///
    /// # Errors
    /// [`StoreError`] if Redis doesn't answer.
    pub async fn keep(&self, task: &Task, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let key = checkpoint_key(&task.task_id);
        let life = Some(Expiration::EX(STREAM_TTL_S));
        once(&self.client)
            .set(key, checkpoint.to_json(), life, None, false)
            .await
            .map_err(store_error)
    }

    /// What is kept of a long answer.
    ///
    /// # Errors
    /// [`StoreError`] if Redis doesn't answer.
    pub async fn kept(&self, task: &Task) -> Result<Option<Checkpoint>, StoreError> {
        let text: Option<String> = once(&self.client)
            .get(checkpoint_key(&task.task_id))
            .await
            .map_err(store_error)?;
        Ok(text.as_deref().and_then(Checkpoint::read))
    }

    /// Prolongs the life of the keys of a task's run.
    ///
    /// # Errors
    /// [`StoreError`] if Redis doesn't answer.
    pub async fn keep_alive(&self, task: &Task) -> Result<(), StoreError> {
        let run = task.run();
        let writes = once(&self.client.pipeline());
        for (key, ttl_s) in [
            (run.stream_key(), STREAM_TTL_S),
            (checkpoint_key(&task.task_id), STREAM_TTL_S),
            (run.status_key(), TASK_TTL_S),
            (run.task_id_key(), TASK_TTL_S),
        ] {
            let _queued: () = writes.expire(key, ttl_s, None).await.map_err(store_error)?;
        }
        let _done: Vec<Value> = writes.all().await.map_err(store_error)?;
        Ok(())
    }
}
