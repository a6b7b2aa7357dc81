//! The code host's cache after step 3: awaited, on the connection that all requests share.

use std::sync::Arc;

use fred::clients::Client;
use fred::interfaces::KeysInterface;
use fred::types::Expiration;

use super::redis::{get, retried};
use crate::stores::StoreFuture;
use crate::stores::code_cache::{CodeCache, CodeCacheConnection, KEPT_S};

/// The cache in a Redis.
pub(super) fn cache(client: Client) -> Arc<dyn CodeCache> {
    Arc::new(Cache { client })
}

#[derive(Clone)]
struct Cache {
    client: Client,
}

impl CodeCache for Cache {
    fn open(&self) -> StoreFuture<'_, Box<dyn CodeCacheConnection>> {
        Box::pin(async move { Ok(Box::new(self.clone()) as Box<dyn CodeCacheConnection>) })
    }
}

impl CodeCacheConnection for Cache {
    fn get<'a>(&'a mut self, key: &'a str) -> StoreFuture<'a, Option<String>> {
        Box::pin(get(&self.client, key))
    }

    fn keep<'a>(&'a mut self, key: &'a str, value: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(retried(&self.client, move |client| async move {
            let life = Some(Expiration::EX(KEPT_S));
            client.set(key, value, life, None, false).await
        }))
    }
}
