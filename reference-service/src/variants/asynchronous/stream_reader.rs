//! Step 6: runs' streams read by few tasks, each on a connection of its own, for all clients.
//!
//! A *reader* waits inside one XREAD for entries of all its streams and passes them to who follows
//! them. Whoever comes or leaves meanwhile is a message to it; CLIENT UNBLOCK, sent on the
//! connection that the other stores share, then ends its wait. No client has a thread, a
//! connection or a task of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fred::clients::Client;
use tokio::sync::mpsc::{self, UnboundedSender};

use super::followers::Follower;
use super::reader_task::Reader;
use super::redis;
use crate::entry_id::EntryId;
use crate::run::Run;
use crate::stores::streams::{EVENTS_WAITING_MAX, Following, SharedReader};
use crate::variants::ConnectError;

/// Streams of one reader. Each entry costs its reader a command that names all of them.
const STREAMS_MAX: usize = 128;
/// Readers, and so connections; then readers get more streams. The original's async client has as
/// many connections at most.
const READERS_MAX: usize = 50;

/// The readers; opens nothing yet. `client` is the connection that ends their waits.
pub(crate) fn readers(
    redis_url: &str,
    client: Client,
) -> Result<Arc<dyn SharedReader>, ConnectError> {
    redis::config(redis_url)?;
    let shared = Shared {
        redis_url: redis_url.to_owned(),
        client,
        registry: Mutex::default(),
    };
    Ok(Arc::new(Readers(Arc::new(shared))))
}

struct Readers(Arc<Shared>);

impl SharedReader for Readers {
    fn follow(&self, run: &Run, cursor: Option<&str>, idle_max: Duration) -> Following {
        let (sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
        // The routes have refused a cursor that is none.
        let first = cursor.and_then(|cursor| cursor.parse().ok());
        let told = first.map_or(EntryId::START, EntryId::before);
        let subscription = self.0.join(run.stream_key(), |number| {
            Follower::new(number, sender, told, idle_max)
        });
        Following::new(events, subscription)
    }
}

/// What readers and those who come to them share.
pub(super) struct Shared {
    pub(super) redis_url: String,
    pub(super) client: Client,
    registry: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    /// Number of the next follower.
    next: u64,
    readers: HashMap<u64, Room>,
}

/// A reader, as who comes sees it.
struct Room {
    messages: UnboundedSender<Message>,
    /// Followers by stream: those on their way to the reader are counted, too.
    streams: HashMap<String, usize>,
}

/// What a reader is told.
pub(super) enum Message {
    Join(String, Follower),
    Leave(String, u64),
}

/// Its end is the follower's leave.
struct Subscription {
    stream: String,
    number: u64,
    messages: UnboundedSender<Message>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let stream = std::mem::take(&mut self.stream);
        // A reader that has ended has no followers.
        let _gone = self.messages.send(Message::Leave(stream, self.number));
    }
}

impl Shared {
    /// Gives a follower to the reader of its stream, to one that has room, or to a new one.
    fn join(
        self: &Arc<Self>,
        stream: String,
        follower: impl FnOnce(u64) -> Follower,
    ) -> Subscription {
        let mut registry = self.lock();
        let number = registry.next;
        registry.next += 1;
        let reader = registry.choose(&stream).unwrap_or(number);
        let room = registry.readers.entry(reader).or_insert_with(|| {
            let (messages, received) = mpsc::unbounded_channel();
            tokio::spawn(Reader::new(Arc::clone(self), number, received).run());
            Room {
                messages,
                streams: HashMap::new(),
            }
        });
        *room.streams.entry(stream.clone()).or_default() += 1;
        let join = Message::Join(stream.clone(), follower(number));
        // It ends only once it is out of the registry.
        let _ended = room.messages.send(join);
        Subscription {
            stream,
            number,
            messages: room.messages.clone(),
        }
    }

    /// Followers of a reader are out.
    pub(super) fn release(&self, reader: u64, stream: &str, count: usize) {
        let mut registry = self.lock();
        let Some(room) = registry.readers.get_mut(&reader) else {
            return;
        };
        if let Some(followers) = room.streams.get_mut(stream) {
            *followers = followers.saturating_sub(count);
            if *followers == 0 {
                room.streams.remove(stream);
            }
        }
    }

    /// Takes a reader out of the registry, unless somebody is on the way to it.
    pub(super) fn retire(&self, reader: u64) -> bool {
        let mut registry = self.lock();
        let is_free = registry
            .readers
            .get(&reader)
            .is_none_or(|room| room.streams.is_empty());
        if is_free {
            registry.readers.remove(&reader);
        }
        is_free
    }

    /// Takes a reader out of the registry, whoever is on the way to it.
    pub(super) fn strike_out(&self, reader: u64) {
        self.lock().readers.remove(&reader);
    }

    /// The registry is consistent at every panic point.
    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// Who reads that stream, or has room; if all are there that may be, who has most room.
    fn choose(&self, stream: &str) -> Option<u64> {
        let by = |(number, _): (&u64, &Room)| *number;
        let of_stream = |(_, room): &(&u64, &Room)| room.streams.contains_key(stream);
        let filled = |(number, room): &(&u64, &Room)| (room.streams.len(), **number);
        let readers = || self.readers.iter();
        let with_room = || readers().filter(|(_, room)| room.streams.len() < STREAMS_MAX);
        readers()
            .find(of_stream)
            // The fullest, so that the others can end.
            .or_else(|| with_room().max_by_key(filled))
            .or_else(|| {
                let all = readers().min_by_key(filled);
                all.filter(|_| self.readers.len() >= READERS_MAX)
            })
            .map(by)
    }
}
