//! The notification hook before step 4: a synchronous POST on the loop, without a timeout.

use crate::notifier::{Notification, Notifier, NotifyError, body};
use crate::service_url::ServiceUrl;

/// Calls one hook.
pub(crate) struct HookNotifier {
    url: String,
}

impl HookNotifier {
    pub(crate) fn new(url: &ServiceUrl) -> Self {
        Self {
            url: url.to_string(),
        }
    }

    fn notify_blocking(&self, message: &str) -> Result<(), NotifyError> {
        // A new agent has no connection yet, and no timeouts: a hook that hangs holds the loop.
        let agent = ureq::Agent::config_builder()
            .proxy(None)
            .build()
            .new_agent();
        agent
            .post(&self.url)
            .content_type("application/json")
            .send(body(message))
            .map_err(|error| NotifyError(error.into()))?;
        Ok(())
    }
}

impl Notifier for HookNotifier {
    fn notify<'a>(&'a self, message: &'a str) -> Notification<'a> {
        Box::pin(async move { self.notify_blocking(message) })
    }
}
