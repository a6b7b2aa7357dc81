//! Tunnel records at the start: each command on a thread.

use std::sync::Arc;

use super::{CallPool, OnThreads, code_cache};
use crate::stores::{Step3Stores, StoreFuture, TunnelStore};
use crate::tunnel::TunnelRecord;

/// The blocking stores, called on threads.
pub(crate) fn stores((tunnel, cache): Step3Stores, pool: &CallPool) -> Step3Stores {
    (
        Arc::new(OnThreads::new(tunnel, pool)),
        code_cache::cache(cache, pool),
    )
}

impl TunnelStore for OnThreads<dyn TunnelStore> {
    fn record<'a>(&'a self, workspace_id: &'a str) -> StoreFuture<'a, Option<TunnelRecord>> {
        let id = workspace_id.to_owned();
        self.call(async move |store| store.record(&id).await)
    }

    fn socket_online<'a>(&'a self, workspace_id: &'a str) -> StoreFuture<'a, bool> {
        let id = workspace_id.to_owned();
        self.call(async move |store| store.socket_online(&id).await)
    }
}
