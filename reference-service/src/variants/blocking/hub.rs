//! The code host before step 4: synchronous calls on the loop, one after the other.

use std::time::Duration;

use axum::http::{Method, Request};
use ureq::{Agent, Error};

use crate::hub::call::{Answer, Call};
use crate::hub::error::{Failure, HubError};
use crate::service_url::ServiceUrl;
use crate::stores::hub::{HubClient, HubFuture};
use crate::variants::code_host::{CONNECT_MAX, USER_AGENT};

/// Calls one code host.
pub(crate) struct Hub {
    url: ServiceUrl,
    agent: Agent,
}

impl Hub {
    /// `answer_max` limits the wait for an answer's head, and then for its body.
    pub(crate) fn new(url: &ServiceUrl, answer_max: Duration) -> Self {
        let agent = Agent::config_builder()
            .proxy(None)
            .user_agent(USER_AGENT)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            // A limit of the whole call would start a thread for each, to look the host's name up.
            .timeout_connect(Some(CONNECT_MAX))
            .timeout_send_request(Some(answer_max))
            .timeout_recv_response(Some(answer_max))
            .timeout_recv_body(Some(answer_max))
            .max_idle_connections(0)
            .build()
            .new_agent();
        Self {
            url: url.clone(),
            agent,
        }
    }

    fn send_blocking(&self, call: &Call) -> Result<Answer, HubError> {
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(self.url.at(&call.target()));
        if let Some(authorization) = &call.authorization {
            request = request.header("authorization", authorization);
        }
        if call.method == Method::POST {
            // Else the client would announce a body of which it doesn't know the length.
            request = request.header("content-length", "0");
        }
        let request = request.body(()).map_err(|error| call.broken(error))?;
        let failed = |error| failed(call, error);
        let mut response = self.agent.run(request).map_err(failed)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config();
        let body = body.limit(call.bytes_max as u64);
        let body = body.read_to_vec().map_err(failed)?;
        Ok(Answer { status, body })
    }
}

fn failed(call: &Call, error: Error) -> HubError {
    match error {
        Error::Timeout(_) => call.failed(Failure::Slow),
        Error::BodyExceedsLimit(_) => call.failed(Failure::TooLarge),
        other => call.broken(other),
    }
}

impl HubClient for Hub {
    fn calls_at_once(&self) -> usize {
        1
    }

    fn send<'a>(&'a self, call: &'a Call) -> HubFuture<'a> {
        Box::pin(async move { self.send_blocking(call) })
    }
}
