//! Runs and their streams in Redis; step 1.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::{StoreError, StoreFuture};
use crate::run::Run;
use crate::stream_event::{Entry, Event, Fields};

/// Ways to the runs' keys.
pub trait StreamStore: Send + Sync {
    /// A way for one piece of a request's work. Before step 1 it is a connection of its own,
    /// opened now, as the original opened one with each of its stream managers; afterwards it
    /// is a share in one that is open.
    fn connect(&self) -> StoreFuture<'_, Box<dyn StreamConnection>>;
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
    fn entries<'a>(&'a mut self, stream: &'a str) -> StoreFuture<'a, Vec<Entry>>;
    /// XADD, and EXPIRE: a stream lives from its last entry on.
    fn append<'a>(&'a mut self, stream: &'a str, fields: Fields) -> StoreFuture<'a, ()>;
    /// RPUSH to the workers' queue.
    fn enqueue<'a>(&'a mut self, task: &'a str) -> StoreFuture<'a, ()>;
    /// Waits, as the original sleeps.
    fn pause(&mut self, time: Duration) -> StoreFuture<'_, ()>;
}

/// Follows a run's stream on a thread of its caller's, in every variant until step 6: step 1
/// left it there.
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
