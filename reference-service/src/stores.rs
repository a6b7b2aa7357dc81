//! What the routes need of the servers behind the service, as traits: each step's stores
//! implement them for each variant.
//!
//! The methods return boxed futures in every variant, so that neither pays for something
//! that the other doesn't.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use self::access::AccessStore;
use self::auth::AuthStore;
use self::history::HistoryStore;
use self::sharing::SharingStore;
use self::streams::{Reading, StreamStore};
use crate::conversation::{Created, NewConversation};
use crate::notifier::Notifier;
use crate::tunnel::TunnelRecord;
use crate::usage::{Usage, Window};

pub mod access;
pub mod auth;
pub mod history;
pub mod sharing;
pub mod streams;

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

/// One variant of every store.
#[derive(Clone)]
pub struct Stores {
    /// See [`StreamStore`].
    pub streams: Arc<dyn StreamStore>,
    /// See [`Reading`].
    pub reading: Reading,
    /// See [`AccessStore`].
    pub access: Arc<dyn AccessStore>,
    /// See [`HistoryStore`].
    pub history: Arc<dyn HistoryStore>,
    /// See [`UsageStore`].
    pub usage: Arc<dyn UsageStore>,
    /// See [`ConversationStore`].
    pub conversations: Arc<dyn ConversationStore>,
    /// See [`SharingStore`].
    pub sharing: Arc<dyn SharingStore>,
    /// See [`AuthStore`].
    pub auth: Arc<dyn AuthStore>,
    /// Whom new accounts are told to, if anybody.
    pub notifier: Option<Arc<dyn Notifier>>,
    /// See [`TunnelStore`].
    pub tunnel: Arc<dyn TunnelStore>,
    /// See [`BranchStore`].
    pub branches: Arc<dyn BranchStore>,
}

/// Every store in PostgreSQL, of any step: the steps of one variant share its pool.
pub trait SqlStores:
    UsageStore + ConversationStore + HistoryStore + SharingStore + AuthStore
{
}

impl<T> SqlStores for T where
    T: UsageStore + ConversationStore + HistoryStore + SharingStore + AuthStore
{
}

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
