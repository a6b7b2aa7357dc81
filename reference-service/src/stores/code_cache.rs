//! What Redis keeps of the code host's answers; step 3.

use super::StoreFuture;

/// How long an answer is kept.
pub const KEPT_S: i64 = 3600;

/// The cache. Each request of the code host's routes opens it, even one that only lists
/// repositories and looks nothing up, as in the service being migrated.
pub trait CodeCache: Send + Sync {
    /// Before step 3: connects, and sends PING. After it: nothing.
    fn open(&self) -> StoreFuture<'_, Box<dyn CodeCacheConnection>>;
}

/// One request's way to the cache.
pub trait CodeCacheConnection: Send {
    /// GET.
    fn get<'a>(&'a mut self, key: &'a str) -> StoreFuture<'a, Option<String>>;

    /// SET, with a life of [`KEPT_S`].
    fn keep<'a>(&'a mut self, key: &'a str, value: &'a str) -> StoreFuture<'a, ()>;
}
