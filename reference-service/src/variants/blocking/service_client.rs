//! Services before step 4: a synchronous POST on the loop, without a time limit. With limits it is
//! what a bridge does on its threads after step 4.

use std::time::Duration;

use serde_json::Value;

use crate::service_client::{ANSWER_BYTES_MAX, Answer, CallError, CallFuture, ServiceClient};
use crate::service_url::ServiceUrl;

/// Calls one service.
pub(crate) struct Client {
    url: ServiceUrl,
    phase_max: Option<Duration>,
}

impl Client {
    /// Waits for as long as a call takes.
    pub(crate) fn patient(url: &ServiceUrl) -> Self {
        Self {
            url: url.clone(),
            phase_max: None,
        }
    }

    /// Gives a call up of which a phase takes longer: to connect, to send, to wait for the answer's
    /// head, or to read its body.
    pub(crate) fn limited(url: &ServiceUrl, phase_max: Duration) -> Self {
        Self {
            phase_max: Some(phase_max),
            ..Self::patient(url)
        }
    }

    fn post_blocking(&self, path: &str, body: &Value) -> Result<Answer, CallError> {
        // A new agent has no connection yet.
        let agent = ureq::Agent::config_builder()
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            // A limit of the whole call would start a thread for each, to look the host's name up.
            .timeout_connect(self.phase_max)
            .timeout_send_request(self.phase_max)
            .timeout_send_body(self.phase_max)
            .timeout_recv_response(self.phase_max)
            .timeout_recv_body(self.phase_max)
            .build()
            .new_agent();
        let mut answer = agent
            .post(self.url.at(path))
            .content_type("application/json")
            .send(body.to_string())
            .map_err(call_error)?;
        let status = answer.status().as_u16();
        let body = answer
            .body_mut()
            .with_config()
            .limit(ANSWER_BYTES_MAX as u64)
            .read_to_vec()
            .map_err(call_error)?;
        Ok(Answer { status, body })
    }
}

fn call_error(error: ureq::Error) -> CallError {
    match error {
        ureq::Error::BodyExceedsLimit(_) => CallError::TooLong,
        _ => CallError::Failed(error.into()),
    }
}

impl ServiceClient for Client {
    fn post<'a>(&'a self, path: &'a str, body: &'a Value) -> CallFuture<'a, Answer> {
        Box::pin(async move { self.post_blocking(path, body) })
    }
}
