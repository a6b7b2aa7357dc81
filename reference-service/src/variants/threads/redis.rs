//! Tunnel records and branch lists at the start: each command on a thread.

use std::sync::Arc;

use super::{CallPool, OnThreads};
use crate::stores::{BranchStore, Step3Stores, StoreFuture, TunnelStore};
use crate::tunnel::TunnelRecord;

/// The blocking stores, called on threads.
pub(crate) fn stores((tunnel, branches): Step3Stores, pool: &CallPool) -> Step3Stores {
    (
        Arc::new(OnThreads::new(tunnel, pool)),
        Arc::new(OnThreads::new(branches, pool)),
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

impl BranchStore for OnThreads<dyn BranchStore> {
    fn branches<'a>(&'a self, repo: &'a str) -> StoreFuture<'a, Option<Vec<String>>> {
        let repo = repo.to_owned();
        self.call(async move |store| store.branches(&repo).await)
    }
}
