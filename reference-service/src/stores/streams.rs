//! Runs and their streams in Redis; step 1.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc;

use super::{Backend, StoreError, StoreFuture};
use crate::run::Run;
use crate::sessions::{self, Session, TaskStatus};
use crate::stream_event::{Entry, EntryWithId, Event, Fields};
use crate::stream_threads::StreamThreads;
use crate::thread_slots::ThreadSlots;

/// Ways to the runs' keys, and the looks at them that are one piece of work, on one connection.
pub trait StreamStore: Send + Sync {
    /// A way for one piece of a request's work. Before step 1 it is a connection of its own,
    /// opened now, as the original opened one with each of its stream managers; afterwards it
    /// is a share in one that is open.
    fn connect(&self) -> StoreFuture<'_, Box<dyn StreamConnection>>;

    /// See [`sessions::reserve`].
    fn reserve<'a>(&'a self, conversation_id: &'a str, base: &'a str) -> StoreFuture<'a, Run> {
        Box::pin(async move {
            sessions::reserve(&mut *self.connect().await?, conversation_id, base).await
        })
    }

    /// See [`sessions::is_there`].
    fn is_there<'a>(&'a self, run: &'a Run) -> StoreFuture<'a, bool> {
        Box::pin(async move { sessions::is_there(&mut *self.connect().await?, run).await })
    }

    /// See [`sessions::latest_session`].
    fn latest_session<'a>(&'a self, conversation_id: &'a str) -> StoreFuture<'a, Option<Session>> {
        Box::pin(async move {
            sessions::latest_session(&mut *self.connect().await?, conversation_id).await
        })
    }

    /// See [`sessions::task_status`].
    fn task_status<'a>(&'a self, conversation_id: &'a str) -> StoreFuture<'a, Option<TaskStatus>> {
        Box::pin(async move {
            sessions::task_status(&mut *self.connect().await?, conversation_id).await
        })
    }
}

/// The commands that a request's work on runs is made of (`sessions`). Their order is the
/// same in both variants; only KEYS becomes SCAN.
pub trait StreamConnection: Send {
    /// EXISTS.
    fn exists<'a>(&'a mut self, key: &'a str) -> StoreFuture<'a, bool>;
    /// GET.
    fn get<'a>(&'a mut self, key: &'a str) -> StoreFuture<'a, Option<String>>;
    /// SET with a life in seconds.
    fn put<'a>(&'a mut self, key: &'a str, value: &'a str, ttl_s: i64) -> StoreFuture<'a, ()>;
    /// SET NX with a life in seconds: false if the key is taken.
    fn claim<'a>(&'a mut self, key: &'a str, ttl_s: i64) -> StoreFuture<'a, bool>;
    /// DEL of all of them.
    fn delete<'a>(&'a mut self, keys: &'a [String]) -> StoreFuture<'a, ()>;
    /// All keys that match a glob: KEYS before step 1, SCAN afterwards.
    fn matching<'a>(&'a mut self, pattern: &'a str) -> StoreFuture<'a, Vec<String>>;
    /// XINFO STREAM: the id of the first entry that is kept.
    fn first_id<'a>(&'a mut self, stream: &'a str) -> StoreFuture<'a, Option<String>>;
    /// XREVRANGE of one: the id of the last entry.
    fn last_id<'a>(&'a mut self, stream: &'a str) -> StoreFuture<'a, Option<String>>;
    /// XRANGE: all entries.
    fn entries<'a>(&'a mut self, stream: &'a str) -> StoreFuture<'a, Vec<EntryWithId>>;
    /// XADD, and EXPIRE: a stream lives from its last entry on.
    fn append<'a>(&'a mut self, stream: &'a str, fields: Fields) -> StoreFuture<'a, ()>;
    /// RPUSH to the workers' queue.
    fn enqueue<'a>(&'a mut self, task: &'a str) -> StoreFuture<'a, ()>;
    /// Waits, as the original sleeps.
    fn pause(&mut self, time: Duration) -> StoreFuture<'_, ()>;
}

/// Entries as a client library gives them, with their ids read.
///
/// # Errors
/// [`StoreError`] if an id is none.
pub fn with_ids(entries: Vec<(String, Entry)>) -> Result<Vec<EntryWithId>, StoreError> {
    let entries = entries.into_iter().map(|(id, entry)| match id.parse() {
        Ok(id) => Ok((id, entry)),
        Err(error) => Err(StoreError::refused(Backend::Redis, error)),
    });
    entries.collect()
}

/// Events that may wait for a slow client.
pub const EVENTS_WAITING_MAX: usize = 16;

/// How runs' streams are read.
#[derive(Clone)]
pub enum Reading {
    /// Each on a thread of the pool: step 1 left it there.
    OnThread(Arc<dyn StreamReader>, ThreadSlots),
    /// Those that somebody watches on a thread of their own, before step 0; else as above.
    OnThreadOfItsOwn(Arc<dyn StreamReader>, ThreadSlots, StreamThreads),
    /// All by readers that hold no thread; step 6.
    OnLoop(Arc<dyn SharedReader>),
}

/// Follows a run's stream on a thread of its caller's.
pub trait StreamReader: Send + Sync {
    /// Calls `on_event` for each event after `cursor` (from it on, if it is given), until the
    /// run ends, its stream is gone, nothing has come for `idle_max`, or `given_up` is found set,
    /// which is looked at between two reads. Blocks.
    ///
    /// # Errors
    /// [`StoreError`] if Redis goes away or refuses the cursor.
    fn follow(
        &self,
        run: &Run,
        cursor: Option<&str>,
        idle_max: Duration,
        given_up: &AtomicBool,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Followed, StoreError>;
}

/// Follows runs' streams for all who ask, without a thread.
pub trait SharedReader: Send + Sync {
    /// The events after `cursor` (from it on, if it is given), until the run ends, its stream is
    /// gone, nothing has come for `idle_max`, or the client has accepted nothing for as long. Needs
    /// a runtime around it.
    fn follow(&self, run: &Run, cursor: Option<&str>, idle_max: Duration) -> Following;
}

/// A run that is followed; no longer, once this is dropped.
pub struct Following {
    events: mpsc::Receiver<Event>,
    /// Dropped after the events' receiver, it tells the reader.
    _subscription: Box<dyn Any + Send>,
}

impl Following {
    /// By events, and by what ends the subscription when it is dropped.
    pub fn new(events: mpsc::Receiver<Event>, subscription: impl Any + Send) -> Self {
        Self {
            events,
            _subscription: Box::new(subscription),
        }
    }

    /// The next event; `None` after the last, whatever ended them.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// As [`Self::next`], polled.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.events.poll_recv(context)
    }
}

/// Why a stream was followed no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Followed {
    /// To its last entry, an [`Event::End`].
    ToItsEnd,
    /// The stream isn't there (any longer).
    Gone,
    /// Nothing came for too long: its worker is most likely dead.
    Idle,
    /// Nobody waits for it any longer.
    GivenUp,
}

/// The client sees a plain end; why is for the log.
pub fn report(stream: &str, followed: &Result<Followed, StoreError>) {
    match followed {
        Ok(Followed::ToItsEnd | Followed::GivenUp) => (),
        Ok(Followed::Gone) => tracing::info!(stream, "the stream is gone"),
        Ok(Followed::Idle) => tracing::warn!(stream, "the stream is idle: is a worker running?"),
        Err(error) => tracing::warn!(stream, %error, "the stream can't be read"),
    }
}
