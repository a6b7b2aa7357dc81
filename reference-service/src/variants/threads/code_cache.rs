//! The code host's cache at the start: each command on a thread.

use std::sync::Arc;

use super::{CallPool, HeldOnThreads, OnThreads};
use crate::stores::StoreFuture;
use crate::stores::code_cache::{CodeCache, CodeCacheConnection};

/// The blocking cache, called on threads.
pub(super) fn cache(blocking: Arc<dyn CodeCache>, pool: &CallPool) -> Arc<dyn CodeCache> {
    Arc::new(OnThreads::new(blocking, pool))
}

impl CodeCache for OnThreads<dyn CodeCache> {
    fn open(&self) -> StoreFuture<'_, Box<dyn CodeCacheConnection>> {
        Box::pin(async move {
            let connection = self.call(async |cache| cache.open().await).await?;
            let held = HeldOnThreads::new(connection, self.pool.clone());
            Ok(Box::new(held) as Box<dyn CodeCacheConnection>)
        })
    }
}

impl CodeCacheConnection for HeldOnThreads<dyn CodeCacheConnection> {
    fn get<'a>(&'a mut self, key: &'a str) -> StoreFuture<'a, Option<String>> {
        let key = key.to_owned();
        self.call(async move |redis| redis.get(&key).await)
    }

    fn keep<'a>(&'a mut self, key: &'a str, value: &'a str) -> StoreFuture<'a, ()> {
        let [key, value] = [key, value].map(str::to_owned);
        self.call(async move |redis| redis.keep(&key, &value).await)
    }
}
