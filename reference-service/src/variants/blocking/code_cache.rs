//! The code host's cache before step 3: a synchronous client that connects anew for each request.

use std::sync::Arc;

use redis::{Commands, Connection, cmd};

use super::pool::Connect;
use super::redis::{Redis, store_error};
use crate::stores::StoreFuture;
use crate::stores::code_cache::{CodeCache, CodeCacheConnection, KEPT_S};

/// The cache in a Redis.
pub(super) fn cache(redis: Redis) -> Arc<dyn CodeCache> {
    Arc::new(Cache { redis })
}

struct Cache {
    redis: Redis,
}

impl CodeCache for Cache {
    fn open(&self) -> StoreFuture<'_, Box<dyn CodeCacheConnection>> {
        Box::pin(async move {
            let mut connection = self.redis.connect()?;
            connection.ping::<String>().map_err(store_error)?;
            Ok(Box::new(connection) as Box<dyn CodeCacheConnection>)
        })
    }
}

impl CodeCacheConnection for Connection {
    fn get<'a>(&'a mut self, key: &'a str) -> StoreFuture<'a, Option<String>> {
        Box::pin(async move { Commands::get(self, key).map_err(store_error) })
    }

    fn keep<'a>(&'a mut self, key: &'a str, value: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let mut set = cmd("SET");
            set.arg(key).arg(value).arg("EX").arg(KEPT_S);
            set.exec(self).map_err(store_error)
        })
    }
}
