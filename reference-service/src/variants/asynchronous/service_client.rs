//! Services after step 4: an awaited POST with time limits.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::redirect::Policy;
use serde_json::Value;

use crate::service_client::{ANSWER_BYTES_MAX, Answer, CallError, CallFuture, ServiceClient};
use crate::service_url::ServiceUrl;

/// How long a connection to a service may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long the whole call may take.
const CALL_MAX: Duration = Duration::from_secs(30);

/// Calls one service.
pub(crate) struct Client {
    url: ServiceUrl,
    client: reqwest::Client,
}

impl Client {
    pub(crate) fn new(url: &ServiceUrl) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_MAX)
            .timeout(CALL_MAX)
            // A connection per call in both variants: the step is about waiting, not about reuse.
            .pool_max_idle_per_host(0)
            .build()?;
        Ok(Self {
            url: url.clone(),
            client,
        })
    }
}

impl ServiceClient for Client {
    fn post<'a>(&'a self, path: &'a str, body: &'a Value) -> CallFuture<'a, Answer> {
        Box::pin(async move {
            let mut answer = self
                .client
                .post(self.url.at(path))
                .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
                .body(body.to_string())
                .send()
                .await
                .map_err(call_error)?;
            let status = answer.status().as_u16();
            let mut body = Vec::new();
            while let Some(piece) = answer.chunk().await.map_err(call_error)? {
                if body.len() + piece.len() > ANSWER_BYTES_MAX {
                    return Err(CallError::TooLong);
                }
                body.extend_from_slice(&piece);
            }
            Ok(Answer { status, body })
        })
    }
}

fn call_error(error: reqwest::Error) -> CallError {
    CallError::Failed(error.into())
}
