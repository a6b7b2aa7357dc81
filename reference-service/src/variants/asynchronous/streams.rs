//! Step 1 after: runs in Redis through fred, awaited, on the one connection that all requests
//! share.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::{KeysInterface, ListInterface, StreamsInterface};
use fred::types::streams::{XCapKind, XCapTrim};
use fred::types::{Expiration, SetOptions, Value};

use super::redis::{get, once, retried, store_error};
use crate::run::{QUEUE, STREAM_ENTRIES_MAX, STREAM_TTL_S};
use crate::stores::streams::{StreamConnection, StreamStore, with_ids};
use crate::stores::{StoreError, StoreFuture};
use crate::stream_event::{Entry, EntryWithId, Fields};

/// Keys that one SCAN looks at, about; the original's choice.
const SCAN_COUNT: u32 = 100;

/// The store of step 1.
pub(crate) fn store(client: Client) -> Arc<dyn StreamStore> {
    Arc::new(Streams { client })
}

struct Streams {
    client: Client,
}

impl StreamStore for Streams {
    fn connect(&self) -> StoreFuture<'_, Box<dyn StreamConnection>> {
        let client = self.client.clone();
        Box::pin(async move { Ok(Box::new(Shared { client }) as Box<dyn StreamConnection>) })
    }
}

/// A share in the connection. What may be sent twice is tried three times; XADD, RPUSH and
/// SET NX are not.
struct Shared {
    client: Client,
}

/// An entry with its id.
type WithId = (String, Entry);

impl StreamConnection for Shared {
    fn exists<'a>(&'a mut self, key: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(retried(&self.client, move |client| async move {
            client.exists(key).await
        }))
    }

    fn get<'a>(&'a mut self, key: &'a str) -> StoreFuture<'a, Option<String>> {
        Box::pin(get(&self.client, key))
    }

    fn put<'a>(&'a mut self, key: &'a str, value: &'a str, ttl_s: i64) -> StoreFuture<'a, ()> {
        Box::pin(retried(&self.client, move |client| async move {
            let life = Some(Expiration::EX(ttl_s));
            client.set(key, value, life, None, false).await
        }))
    }

    fn claim<'a>(&'a mut self, key: &'a str, ttl_s: i64) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let life = Some(Expiration::EX(ttl_s));
            let done: Option<String> = once(&self.client)
                .set(key, "1", life, Some(SetOptions::NX), false)
                .await
                .map_err(store_error)?;
            Ok(done.is_some())
        })
    }

    fn delete<'a>(&'a mut self, keys: &'a [String]) -> StoreFuture<'a, ()> {
        Box::pin(retried(&self.client, move |client| async move {
            client.del(keys.to_vec()).await
        }))
    }

    fn matching<'a>(&'a mut self, pattern: &'a str) -> StoreFuture<'a, Vec<String>> {
        Box::pin(async move {
            let mut keys = Vec::new();
            let mut cursor = "0".to_owned();
            loop {
                let at = &cursor;
                let (next, mut page): (String, Vec<String>) =
                    retried(&self.client, |client| async move {
                        client
                            .scan_page(at.as_str(), pattern, Some(SCAN_COUNT), None)
                            .await
                    })
                    .await?;
                keys.append(&mut page);
                if next == "0" {
                    return Ok(keys);
                }
                cursor = next;
            }
        })
    }

    fn first_id<'a>(&'a mut self, stream: &'a str) -> StoreFuture<'a, Option<String>> {
        Box::pin(async move {
            let info: HashMap<String, Value> = retried(&self.client, move |client| async move {
                client.xinfo_stream(stream, false, None).await
            })
            .await?;
            match info.get("first-entry") {
                Some(Value::Array(entry)) => Ok(entry.first().and_then(Value::as_string)),
                _ => Ok(None),
            }
        })
    }

    fn last_id<'a>(&'a mut self, stream: &'a str) -> StoreFuture<'a, Option<String>> {
        Box::pin(async move {
            let entries: Vec<WithId> = retried(&self.client, move |client| async move {
                client.xrevrange_values(stream, "+", "-", Some(1)).await
            })
            .await?;
            Ok(entries.into_iter().next().map(|(id, _)| id))
        })
    }

    fn entries<'a>(&'a mut self, stream: &'a str) -> StoreFuture<'a, Vec<EntryWithId>> {
        Box::pin(async move {
            let entries: Vec<WithId> = retried(&self.client, move |client| async move {
                client.xrange_values(stream, "-", "+", None).await
            })
            .await?;
            with_ids(entries)
        })
    }

    fn append<'a>(&'a mut self, stream: &'a str, fields: Fields) -> StoreFuture<'a, ()> {
        // In one piece: a client that goes away between the two would leave a stream that
        // never expires.
        Box::pin(async move {
            let pair = once(&self.client.pipeline());
            let cap = (
                XCapKind::MaxLen,
                XCapTrim::AlmostExact,
                i64::from(STREAM_ENTRIES_MAX),
            );
            let _queued: () = pair
                .xadd(stream, false, cap, "*", fields)
                .await
                .map_err(store_error)?;
            let _queued: () = pair
                .expire(stream, STREAM_TTL_S, None)
                .await
                .map_err(store_error)?;
            let _id_and_done: Vec<Value> = pair.all().await.map_err(store_error)?;
            Ok(())
        })
    }

    fn enqueue<'a>(&'a mut self, task: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            once(&self.client)
                .rpush(QUEUE, task)
                .await
                .map_err(store_error)
        })
    }

    fn pause(&mut self, time: Duration) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            tokio::time::sleep(time).await;
            Ok::<(), StoreError>(())
        })
    }
}
