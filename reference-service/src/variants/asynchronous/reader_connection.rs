//! A reader's own connection: the commands with which it waits for entries.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use fred::clients::{Client, WithOptions};
use fred::error::Error;
use fred::interfaces::{ClientLike, KeysInterface, StreamsInterface};
use fred::types::config::Options;
use fred::types::{ClusterHash, CustomCommand, Value};
use tokio::time::sleep;

use super::redis::{once, store_error, unconnected};
use crate::stores::streams::{EVENTS_WAITING_MAX, with_ids};
use crate::stores::{Backend, REDIS_WAIT, StoreError};
use crate::stream_event::{Entry, EntryWithId};

/// The pause before a lost connection is replaced, and after a first failed try to; it doubles up
/// to the second.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Between two tries to end a wait: the first may come before the wait has begun.
const UNBLOCK_AGAIN: Duration = Duration::from_millis(1);

/// Entries of one stream.
pub(super) type Entries = Vec<EntryWithId>;

/// What was read of one stream. Entries that are no text are their own stream's fault.
pub(super) struct Part {
    pub(super) stream: String,
    pub(super) entries: Result<Entries, StoreError>,
}

/// A reader's own connection. It is not connected anew by its client: what was asked of the old
/// one has to be asked again.
pub(super) struct Connection {
    client: Client,
    id: i64,
}

impl Connection {
    /// Tries for as long as a command may take, since a server that restarts is back soon.
    pub(super) async fn open(redis_url: &str) -> Result<Self, StoreError> {
        let began = Instant::now();
        let mut pause = PAUSE;
        loop {
            let error = match Self::try_open(redis_url).await {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            if began.elapsed() + pause > REDIS_WAIT {
                return Err(error);
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn try_open(redis_url: &str) -> Result<Self, StoreError> {
        let client = unconnected(redis_url, None)
            .map_err(|error| StoreError::refused(Backend::Redis, error))?;
        client.init().await.map_err(store_error)?;
        match ask_of_clients(&client, vec!["ID".into()]).await {
            Ok(id) => Ok(Self { client, id }),
            Err(error) => {
                close(&client).await;
                Err(store_error(error))
            }
        }
    }

    pub(super) async fn close(self) {
        close(&self.client).await;
    }

    /// Ends this connection's wait, by another one; goes on until it is dropped.
    pub(super) async fn unblock(&self, other: &Client) -> Infallible {
        loop {
            let unblock = vec!["UNBLOCK".into(), self.id.to_string().into()];
            let woken = ask_of_clients(other, unblock).await;
            if let Err(error) = woken {
                // The wait ends by itself, after a while.
                tracing::debug!(%error, "a stream reader can't be woken");
            }
            sleep(UNBLOCK_AGAIN).await;
        }
    }

    /// TYPE of each: also `none`.
    pub(super) async fn kinds(
        &self,
        streams: Vec<String>,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let asked = once(&self.client.pipeline());
        for stream in &streams {
            let _queued: () = asked.r#type(stream.as_str()).await.map_err(store_error)?;
        }
        let kinds: Vec<String> = asked.all().await.map_err(store_error)?;
        Ok(streams.into_iter().zip(kinds).collect())
    }

    /// XREAD of all: what comes within `wait` after the entries that are known.
    pub(super) async fn read(
        &self,
        streams: Vec<String>,
        after: Vec<String>,
        wait: Duration,
    ) -> Result<Vec<Part>, StoreError> {
        // Zero would wait for ever.
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
        let count = Some(EVENTS_WAITING_MAX as u64);
        let reply: Value = self
            .patient(wait)
            .xread(count, Some(wait_ms), streams, after)
            .await
            .map_err(store_error)?;
        let Value::Array(parts) = reply else {
            return Ok(Vec::new());
        };
        parts.into_iter().map(Part::read).collect()
    }

    /// The client, for an answer that may come as late as it waits, and then be slow.
    fn patient(&self, wait: Duration) -> WithOptions<Client> {
        self.client.with_options(&Options {
            fail_fast: true,
            timeout: Some(wait + REDIS_WAIT),
            ..Options::default()
        })
    }
}

impl Part {
    fn read(part: Value) -> Result<Self, StoreError> {
        let (stream, entries): (String, Value) = part.convert().map_err(store_error)?;
        let entries = read_entries(entries);
        Ok(Self { stream, entries })
    }
}

fn read_entries(entries: Value) -> Result<Entries, StoreError> {
    let entries: Vec<(String, Entry)> = entries.into_xread_value().map_err(store_error)?;
    with_ids(entries)
}

async fn close(client: &Client) {
    if let Err(error) = client.quit().await {
        tracing::debug!(%error, "a stream reader's connection is closed already");
    }
}

/// A CLIENT command that answers a number. The library's own UNBLOCK would open one more connection.
async fn ask_of_clients(client: &Client, words: Vec<Value>) -> Result<i64, Error> {
    let command = CustomCommand::new_static("CLIENT", ClusterHash::Random, false);
    once(client).custom(command, words).await
}
