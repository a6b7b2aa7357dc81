//! What readers hear of a run: entries of its stream and its status, written together.

use fred::clients::Client;
use fred::interfaces::{KeysInterface, StreamsInterface};
use fred::types::streams::{XCapKind, XCapTrim};
use fred::types::{Expiration, SetOptions, Value};

use crate::run::{Run, RunStatus, STREAM_ENTRIES_MAX, STREAM_TTL_S, TASK_TTL_S};
use crate::stores::StoreError;
use crate::stream_event::{Entry, Fields};
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
    /// finds the status that goes with it. One write, tried once.
    ///
    /// # Errors
    /// [`StoreError`] if Redis doesn't answer; then the entry may or may not be there.
    pub async fn publish(
        &self,
        run: &Run,
        fields: Fields,
        status: Option<RunStatus>,
    ) -> Result<Result<(), StreamGone>, StoreError> {
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
        Ok(if id.is_null() {
            Err(StreamGone)
        } else {
            Ok(())
        })
    }

    /// What readers have heard of a run: the entries that its stream keeps.
    ///
    /// # Errors
    /// [`StoreError`] if Redis doesn't answer.
    pub async fn published(&self, run: &Run) -> Result<Vec<Entry>, StoreError> {
        let entries: Vec<(String, Entry)> = once(&self.client)
            .xrange_values(run.stream_key(), "-", "+", None)
            .await
            .map_err(store_error)?;
        Ok(entries.into_iter().map(|(_, entry)| entry).collect())
    }

    /// Prolongs the life of a run's keys, for one that says nothing for long.
    ///
    /// # Errors
    /// [`StoreError`] if Redis doesn't answer.
    pub async fn keep_alive(&self, run: &Run) -> Result<(), StoreError> {
        let writes = once(&self.client.pipeline());
        for (key, ttl_s) in [
            (run.stream_key(), STREAM_TTL_S),
            (run.status_key(), TASK_TTL_S),
            (run.task_id_key(), TASK_TTL_S),
        ] {
            let _queued: () = writes.expire(key, ttl_s, None).await.map_err(store_error)?;
        }
        let _done: Vec<Value> = writes.all().await.map_err(store_error)?;
        Ok(())
    }
}
