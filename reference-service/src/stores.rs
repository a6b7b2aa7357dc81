//! What the routes need of the servers behind the service, as traits: each step's stores
//! implement them twice.
//!
//! The methods return boxed futures in both variants, so that neither pays for something
//! that the other doesn't.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::conversation::{Created, NewConversation};
use crate::run::Run;
use crate::stream_event::{Entry, Event, Fields};
use crate::tunnel::TunnelRecord;
use crate::usage::{Usage, Window};

/// Connections that a pool keeps.
pub const POOL_KEPT: u32 = 10;
/// Connections that a pool opens at most, overflow included.
pub const POOL_MAX: u32 = 20;
/// How long a request waits for a connection before it fails.
pub const POOL_WAIT: Duration = Duration::from_secs(5);
/// How long a Redis command or connect may take.
pub const REDIS_WAIT: Duration = Duration::from_secs(5);

/// A store's answer, later or (in the blocking variant) at the first poll.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Messages used in a window; step 2a.
pub trait UsageStore: Send + Sync {
    /// One aggregate over the user's messages.
    fn usage<'a>(&'a self, uid: &'a str, window: Window) -> StoreFuture<'a, Usage>;
}

/// New conversations; step 2a.
///
/// Upstream moved these writes with chat history (2b). Here they move with the check that
/// always comes before them, so that the route is all blocking before step 2a and all
/// awaited after it.
pub trait ConversationStore: Send + Sync {
    /// SELECT the projects, INSERT the conversation, INSERT its system message.
    fn create<'a>(&'a self, new: &'a NewConversation) -> StoreFuture<'a, Created>;
}

/// Records of workspaces and their sockets; step 3.
pub trait TunnelStore: Send + Sync {
    /// GET: the workspace's record, if it is registered.
    fn record<'a>(&'a self, workspace_id: &'a str) -> StoreFuture<'a, Option<TunnelRecord>>;
    /// EXISTS: whether its socket is connected.
    fn socket_online<'a>(&'a self, workspace_id: &'a str) -> StoreFuture<'a, bool>;
}

/// Cached branch lists; step 3.
pub trait BranchStore: Send + Sync {
    /// GET: the repository's branches, if they are cached.
    fn branches<'a>(&'a self, repo: &'a str) -> StoreFuture<'a, Option<Vec<String>>>;
}

/// Ways to the runs' keys in Redis; step 1.
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
    /// run ends, its stream is gone, or nothing has come for `idle_max`. Blocks.
    ///
    /// # Errors
    /// [`StoreError`] if Redis goes away or refuses the cursor.
    fn follow(
        &self,
        run: &Run,
        cursor: Option<&str>,
        idle_max: Duration,
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
}

/// What is kept of conversations; step 2b.
///
/// The access check runs beside step 1's commands in the same routes. It is SQL on the
/// messages, so it moves with chat history and goes on blocking until then.
pub trait HistoryStore: Send + Sync {
    /// SELECT the conversation, COUNT its messages.
    fn access<'a>(&'a self, uid: &'a str, conversation_id: &'a str) -> StoreFuture<'a, Access>;
    /// INSERT what an agent had said when its user stopped it. `None` if the conversation
    /// isn't the user's.
    fn save_partial<'a>(
        &'a self,
        uid: &'a str,
        conversation_id: &'a str,
        content: &'a str,
    ) -> StoreFuture<'a, Option<String>>;
}

/// What a user may do with a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read it: it is theirs, public, or shared with them. It has this many messages.
    Allowed {
        /// Messages of all kinds. The original counts them in the same check, for answers
        /// that other routes give.
        messages: i64,
    },
    /// Nothing: it is somebody else's.
    Denied,
    /// There is none.
    Missing,
}

/// One variant of every store.
#[derive(Clone)]
pub struct Stores {
    /// See [`StreamStore`].
    pub streams: Arc<dyn StreamStore>,
    /// See [`StreamReader`].
    pub reader: Arc<dyn StreamReader>,
    /// See [`HistoryStore`].
    pub history: Arc<dyn HistoryStore>,
    /// See [`UsageStore`].
    pub usage: Arc<dyn UsageStore>,
    /// See [`ConversationStore`].
    pub conversations: Arc<dyn ConversationStore>,
    /// See [`TunnelStore`].
    pub tunnel: Arc<dyn TunnelStore>,
    /// See [`BranchStore`].
    pub branches: Arc<dyn BranchStore>,
}

/// The stores that step 2a moves.
pub type Step2aStores = (Arc<dyn UsageStore>, Arc<dyn ConversationStore>);
/// The stores that step 3 moves.
pub type Step3Stores = (Arc<dyn TunnelStore>, Arc<dyn BranchStore>);

/// The server behind a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// PostgreSQL.
    Postgres,
    /// Redis.
    Redis,
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Postgres => "PostgreSQL",
            Self::Redis => "Redis",
        })
    }
}

/// The error of a client library.
pub type ClientError = Box<dyn std::error::Error + Send + Sync>;

/// Why a store can't answer.
#[derive(Debug, Error)]
pub enum StoreError {
    /// No connection, or none in time.
    #[error("{backend} can't be reached: {source}")]
    Unavailable {
        /// Whose.
        backend: Backend,
        /// What the client says.
        source: ClientError,
    },
    /// The server refused the statement or command.
    #[error("{backend} refused: {source}")]
    Refused {
        /// Whose.
        backend: Backend,
        /// What the client says.
        source: ClientError,
    },
    /// A value that isn't what its key promises.
    #[error("the value of `{key}` in Redis is malformed: {source}")]
    Malformed {
        /// The key.
        key: String,
        /// What the parser says.
        source: serde_json::Error,
    },
}

impl StoreError {
    /// An error of a connection.
    pub fn unavailable(backend: Backend, source: impl Into<ClientError>) -> Self {
        Self::Unavailable {
            backend,
            source: source.into(),
        }
    }

    /// An error of a statement or command.
    pub fn refused(backend: Backend, source: impl Into<ClientError>) -> Self {
        Self::Refused {
            backend,
            source: source.into(),
        }
    }
}
