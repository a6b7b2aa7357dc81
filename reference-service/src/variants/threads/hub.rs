//! The code host at the start: each synchronous call on a thread, one after the other.

use std::sync::Arc;

use super::{CallPool, OnThreads};
use crate::hub::call::Call;
use crate::stores::hub::{HubClient, HubFuture};

/// The blocking client, called on threads.
pub(crate) fn client(blocking: Arc<dyn HubClient>, pool: &CallPool) -> Arc<dyn HubClient> {
    Arc::new(OnThreads::new(blocking, pool))
}

impl HubClient for OnThreads<dyn HubClient> {
    fn calls_at_once(&self) -> usize {
        1
    }

    fn send<'a>(&'a self, call: &'a Call) -> HubFuture<'a> {
        let call = call.clone();
        self.call(async move |hub| hub.send(&call).await)
    }
}
