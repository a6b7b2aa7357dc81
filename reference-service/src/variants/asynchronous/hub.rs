//! The code host after step 4: awaited calls, some at a time. And those of them that were awaited
//! before: installations and their repositories, in every state.

use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, Error};

use crate::hub::call::{Answer, Call};
use crate::hub::error::{Failure, HubError};
use crate::service_url::ServiceUrl;
use crate::stores::ClientError;
use crate::stores::hub::{HubClient, HubFuture};
use crate::variants::code_host::{CONNECT_MAX, USER_AGENT};

/// More would be no kindness to the hub, which counts a service's calls.
const CALLS_AT_ONCE: usize = 8;

/// Calls one code host.
pub(crate) struct Hub {
    url: ServiceUrl,
    client: Client,
}

impl Hub {
    /// `answer_max` limits the whole call.
    pub(crate) fn new(url: &ServiceUrl, answer_max: Duration) -> Result<Self, ClientError> {
        let client = Client::builder()
            .no_proxy()
            .user_agent(USER_AGENT)
            .redirect(Policy::none())
            .connect_timeout(CONNECT_MAX)
            .timeout(answer_max)
            .pool_max_idle_per_host(0)
            .build()?;
        Ok(Self {
            url: url.clone(),
            client,
        })
    }

    async fn awaited(&self, call: &Call) -> Result<Answer, HubError> {
        let url = self.url.at(&call.target());
        let mut request = self.client.request(call.method.clone(), url);
        if let Some(authorization) = &call.authorization {
            request = request.header("authorization", authorization);
        }
        let failed = |error| failed(call, error);
        let mut response = request.send().await.map_err(failed)?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > call.bytes_max {
                return Err(call.failed(Failure::TooLarge));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, body })
    }
}

fn failed(call: &Call, error: Error) -> HubError {
    if error.is_timeout() {
        call.failed(Failure::Slow)
    } else {
        call.broken(error)
    }
}

impl HubClient for Hub {
    fn calls_at_once(&self) -> usize {
        CALLS_AT_ONCE
    }

    fn send<'a>(&'a self, call: &'a Call) -> HubFuture<'a> {
        Box::pin(self.awaited(call))
    }
}
