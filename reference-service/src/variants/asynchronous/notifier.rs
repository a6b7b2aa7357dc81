//! The notification hook after step 4: an awaited POST with timeouts.

use std::time::Duration;

use reqwest::Client;
use reqwest::header::{CONTENT_TYPE, HeaderValue};

use crate::notifier::{Notification, Notifier, NotifyError, body};
use crate::service_url::ServiceUrl;

/// How long a connection to the hook may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long the whole call may take.
const CALL_MAX: Duration = Duration::from_secs(30);

/// Calls one hook.
pub(crate) struct HookNotifier {
    url: String,
    client: Client,
}

impl HookNotifier {
    pub(crate) fn new(url: &ServiceUrl) -> Result<Self, NotifyError> {
        let client = Client::builder()
            .no_proxy()
            .connect_timeout(CONNECT_MAX)
            .timeout(CALL_MAX)
            // A connection per call in both variants: the step is about waiting, not about reuse.
            .pool_max_idle_per_host(0)
            .build()
            .map_err(|error| NotifyError(error.into()))?;
        Ok(Self {
            url: url.to_string(),
            client,
        })
    }
}

impl Notifier for HookNotifier {
    fn notify<'a>(&'a self, message: &'a str) -> Notification<'a> {
        Box::pin(async move {
            self.client
                .post(&self.url)
                .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
                .body(body(message))
                .send()
                .await
                .and_then(reqwest::Response::error_for_status)
                .map_err(|error| NotifyError(error.into()))?;
            Ok(())
        })
    }
}
