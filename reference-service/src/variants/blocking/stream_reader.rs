//! The stream reader that step 1 left on a thread: the synchronous client, on a connection of
//! its own, waiting inside XREAD between two entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use redis::{Connection, FromRedisValue, cmd};

use super::pool::Connect;
use super::redis::{Redis, store_error};
use super::streams::Entries;
use crate::run::Run;
use crate::stores::streams::{Followed, StreamReader};
use crate::stores::{REDIS_WAIT, StoreError};
use crate::stream_event::{Entry, Event};
use crate::variants::ConnectError;

/// How long one XREAD waits for an entry.
pub(crate) const BLOCK: Duration = Duration::from_secs(5);
/// The same at the start, where a thread looks between two whether its client has left.
pub(crate) const BLOCK_AT_THE_START: Duration = Duration::from_secs(1);
/// Before the first entry.
const FROM_THE_START: &str = "0-0";

/// The reader, whose XREADs wait for `block`; opens nothing yet.
pub(crate) fn reader(
    redis_url: &str,
    block: Duration,
) -> Result<Arc<dyn StreamReader>, ConnectError> {
    Ok(Arc::new(Reader {
        redis: Redis::at(redis_url)?,
        block,
    }))
}

struct Reader {
    redis: Redis,
    block: Duration,
}

impl StreamReader for Reader {
    fn follow(
        &self,
        run: &Run,
        cursor: Option<&str>,
        idle_max: Duration,
        given_up: &AtomicBool,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Followed, StoreError> {
        let connection = self.redis.connect()?;
        // An answer may come as late as XREAD waits, and then be slow.
        connection
            .set_read_timeout(Some(self.block + REDIS_WAIT))
            .map_err(store_error)?;
        let mut stream = Stream {
            connection,
            key: run.stream_key(),
            block: self.block,
            last_id: FROM_THE_START.to_owned(),
        };
        if let Some(cursor) = cursor {
            cursor.clone_into(&mut stream.last_id);
            for (id, entry) in stream.replay(cursor)? {
                stream.last_id = id;
                if tell(entry, on_event) {
                    return Ok(Followed::ToItsEnd);
                }
            }
        }
        stream.tail(idle_max, given_up, on_event)
    }
}

/// Passes an entry on; true if it is the last.
fn tell(entry: Entry, on_event: &mut dyn FnMut(Event)) -> bool {
    let Some(event) = Event::read(entry) else {
        return false;
    };
    let is_last = matches!(event, Event::End(_));
    on_event(event);
    is_last
}

struct Stream {
    connection: Connection,
    key: String,
    block: Duration,
    /// Of the last entry that was read.
    last_id: String,
}

impl Stream {
    fn ask<T: FromRedisValue>(&mut self, command: &redis::Cmd) -> Result<T, StoreError> {
        command.query(&mut self.connection).map_err(store_error)
    }

    /// The entries from an id on.
    fn replay(&mut self, cursor: &str) -> Result<Entries, StoreError> {
        let key = self.key.clone();
        self.ask(cmd("XRANGE").arg(key).arg(cursor).arg("+"))
    }

    /// The entries as they come: EXISTS, then XREAD of one.
    fn tail(
        &mut self,
        idle_max: Duration,
        given_up: &AtomicBool,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Followed, StoreError> {
        let mut heard = Instant::now();
        loop {
            if given_up.load(Relaxed) {
                return Ok(Followed::GivenUp);
            }
            let key = self.key.clone();
            if !self.ask::<bool>(cmd("EXISTS").arg(key))? {
                return Ok(Followed::Gone);
            }
            let left = idle_max.saturating_sub(heard.elapsed());
            if left.is_zero() {
                return Ok(Followed::Idle);
            }
            if let Some((id, entry)) = self.next(left.min(self.block))? {
                self.last_id = id;
                heard = Instant::now();
                if tell(entry, on_event) {
                    return Ok(Followed::ToItsEnd);
                }
            }
        }
    }

    /// The next entry, if one comes within `wait`.
    fn next(&mut self, wait: Duration) -> Result<Option<(String, Entry)>, StoreError> {
        // Zero would wait for ever.
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut read = cmd("XREAD");
        read.arg("BLOCK")
            .arg(wait_ms)
            .arg("COUNT")
            .arg(1)
            .arg("STREAMS")
            .arg(&self.key)
            .arg(&self.last_id);
        let streams: Option<Vec<(String, Entries)>> = self.ask(&read)?;
        let entries = streams
            .into_iter()
            .flatten()
            .flat_map(|(_, entries)| entries);
        Ok(entries.into_iter().next())
    }
}
