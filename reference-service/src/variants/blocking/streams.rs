//! Step 1 before: runs in Redis through the synchronous client, called on the loop. Each piece
//! of work connects anew, and waits by putting the loop's thread to sleep.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{Connection, FromRedisValue, Value, cmd};

use super::pool::Connect;
use super::redis::{Redis, store_error};
use crate::run::{QUEUE, STREAM_ENTRIES_MAX, STREAM_TTL_S};
use crate::stores::streams::{StreamConnection, StreamStore, with_ids};
use crate::stores::{StoreError, StoreFuture};
use crate::stream_event::{Entry, EntryWithId, Fields};
use crate::variants::ConnectError;

/// The store of step 1.
pub(crate) fn store(redis_url: &str) -> Result<Arc<dyn StreamStore>, ConnectError> {
    Ok(Arc::new(Streams {
        redis: Redis::at(redis_url)?,
    }))
}

struct Streams {
    redis: Redis,
}

impl StreamStore for Streams {
    fn connect(&self) -> StoreFuture<'_, Box<dyn StreamConnection>> {
        Box::pin(async move {
            let connection = self.redis.connect()?;
            Ok(Box::new(Blocking { connection }) as Box<dyn StreamConnection>)
        })
    }
}

/// Entries with their ids, as XRANGE and its kin answer.
pub(super) type Entries = Vec<(String, Entry)>;

struct Blocking {
    connection: Connection,
}

impl Blocking {
    fn ask<T: FromRedisValue>(&mut self, command: &redis::Cmd) -> Result<T, StoreError> {
        command.query(&mut self.connection).map_err(store_error)
    }
}

impl StreamConnection for Blocking {
    fn exists<'a>(&'a mut self, key: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move { self.ask(cmd("EXISTS").arg(key)) })
    }

    fn get<'a>(&'a mut self, key: &'a str) -> StoreFuture<'a, Option<String>> {
        Box::pin(async move { self.ask(cmd("GET").arg(key)) })
    }

    fn put<'a>(&'a mut self, key: &'a str, value: &'a str, ttl_s: i64) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.ask(cmd("SET").arg(key).arg(value).arg("EX").arg(ttl_s)) })
    }

    fn claim<'a>(&'a mut self, key: &'a str, ttl_s: i64) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let mut set = cmd("SET");
            set.arg(key).arg("1").arg("NX").arg("EX").arg(ttl_s);
            let done: Option<String> = self.ask(&set)?;
            Ok(done.is_some())
        })
    }

    fn delete<'a>(&'a mut self, keys: &'a [String]) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.ask(cmd("DEL").arg(keys)) })
    }

    fn matching<'a>(&'a mut self, pattern: &'a str) -> StoreFuture<'a, Vec<String>> {
        Box::pin(async move { self.ask(cmd("KEYS").arg(pattern)) })
    }

    fn first_id<'a>(&'a mut self, stream: &'a str) -> StoreFuture<'a, Option<String>> {
        Box::pin(async move {
            let info: HashMap<String, Value> = self.ask(cmd("XINFO").arg("STREAM").arg(stream))?;
            match info.get("first-entry") {
                Some(Value::Array(entry)) => entry
                    .first()
                    .map(|id| {
                        redis::from_redis_value_ref(id).map_err(|error| store_error(error.into()))
                    })
                    .transpose(),
                _ => Ok(None),
            }
        })
    }

    fn last_id<'a>(&'a mut self, stream: &'a str) -> StoreFuture<'a, Option<String>> {
        Box::pin(async move {
            let mut last = cmd("XREVRANGE");
            last.arg(stream).arg("+").arg("-").arg("COUNT").arg(1);
            let entries: Entries = self.ask(&last)?;
            Ok(entries.into_iter().next().map(|(id, _)| id))
        })
    }

    fn entries<'a>(&'a mut self, stream: &'a str) -> StoreFuture<'a, Vec<EntryWithId>> {
        Box::pin(async move {
            let entries: Entries = self.ask(cmd("XRANGE").arg(stream).arg("-").arg("+"))?;
            with_ids(entries)
        })
    }

    fn append<'a>(&'a mut self, stream: &'a str, fields: Fields) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let mut add = cmd("XADD");
            add.arg(stream)
                .arg("MAXLEN")
                .arg("~")
                .arg(STREAM_ENTRIES_MAX)
                .arg("*");
            for (name, value) in fields {
                add.arg(name).arg(value);
            }
            let _id: String = self.ask(&add)?;
            self.ask(cmd("EXPIRE").arg(stream).arg(STREAM_TTL_S))
        })
    }

    fn enqueue<'a>(&'a mut self, task: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.ask(cmd("RPUSH").arg(QUEUE).arg(task)) })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "holding the loop is what the original does here, and what step 1 ends"
    )]
    fn pause(&mut self, time: Duration) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            std::thread::sleep(time);
            Ok(())
        })
    }
}
