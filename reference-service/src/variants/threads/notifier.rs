//! The notification hook at the start: the synchronous POST on a thread, still without a timeout.

use std::sync::Arc;

use super::{CallPool, OnThreads};
use crate::notifier::{Notification, Notifier};

/// The blocking notifier, called on threads.
pub(crate) fn notifier(blocking: Arc<dyn Notifier>, pool: &CallPool) -> Arc<dyn Notifier> {
    Arc::new(OnThreads::new(blocking, pool))
}

impl Notifier for OnThreads<dyn Notifier> {
    fn notify<'a>(&'a self, message: &'a str) -> Notification<'a> {
        let message = message.to_owned();
        self.call(async move |notifier| notifier.notify(&message).await)
    }
}
