//! The services beside this one, in the variant that step 4 says.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use thiserror::Error;

use super::threads::{CallPool, OnThreads, at_once};
use super::{asynchronous, blocking};
use crate::bridge::{Bounds, Bridge, BridgeCounters};
use crate::service_client::{Answer, CallError, CallFuture, Listener, ServiceClient, Services};
use crate::service_url::ServiceUrl;
use crate::steps::Variant;
use crate::stores::ClientError;

/// What a bridge carries to one service: enough for the rates of a loaded service, and little
/// beside the pool of 40 that it replaces.
const BRIDGE: Bounds = Bounds {
    threads: 4,
    queued_max: 500,
};
/// How long each of a bridged call's five phases may take, so that none takes more than ten seconds.
const BRIDGED_PHASE_MAX: Duration = Duration::from_secs(2);

/// Where services are, those that there are.
#[derive(Debug, Clone, Default)]
pub struct ServiceUrls {
    /// Base address of the identity service.
    pub identity: Option<ServiceUrl>,
    /// Base address of the issue tracker.
    pub tracker: Option<ServiceUrl>,
    /// Where mail is posted.
    pub mail: Option<ServiceUrl>,
    /// Where events are posted.
    pub analytics: Option<ServiceUrl>,
}

/// No client for a service.
#[derive(Debug, Error)]
#[error("no HTTP client can be made for the {service}: {source}")]
pub struct ServiceError {
    /// Which.
    service: &'static str,
    /// What the client says.
    source: ClientError,
}

/// Clients of one variant. Nothing is connected: each call has a connection of its own.
pub(super) fn open(
    variant: Variant,
    urls: &ServiceUrls,
    calls: &CallPool,
    counters: &BridgeCounters,
) -> Result<Services, ServiceError> {
    let mut services = Services {
        identity: asked(variant, "identity service", urls.identity.as_ref(), calls)?,
        tracker: asked(variant, "issue tracker", urls.tracker.as_ref(), calls)?,
        ..Services::default()
    };
    let mut listener = |name: &'static str, url: &Option<ServiceUrl>| {
        let url = url.as_ref()?;
        let found: Arc<dyn Listener> = if variant == Variant::Async {
            let bridge = Arc::new(Bridge::new(name, BRIDGE, counters.clone()));
            services.bridges.push(Arc::clone(&bridge));
            let client = blocking::service_client::Client::limited(url, BRIDGED_PHASE_MAX);
            Arc::new(Bridged {
                bridge,
                client: Arc::new(client),
            })
        } else {
            Arc::new(Waiting(synchronous(variant, url, calls)))
        };
        Some(found)
    };
    let mail = listener("mail", &urls.mail);
    let analytics = listener("analytics", &urls.analytics);
    services.mail = mail;
    services.analytics = analytics;
    Ok(services)
}

fn asked(
    variant: Variant,
    service: &'static str,
    url: Option<&ServiceUrl>,
    calls: &CallPool,
) -> Result<Option<Arc<dyn ServiceClient>>, ServiceError> {
    let Some(url) = url else {
        return Ok(None);
    };
    Ok(Some(match variant {
        Variant::Async => {
            let client = asynchronous::service_client::Client::new(url);
            let failed = |error: ClientError| ServiceError {
                service,
                source: error,
            };
            Arc::new(client.map_err(failed)?)
        }
        Variant::Blocking | Variant::Threads => synchronous(variant, url, calls),
    }))
}

/// The blocking client, called on the loop or on threads.
fn synchronous(variant: Variant, url: &ServiceUrl, calls: &CallPool) -> Arc<dyn ServiceClient> {
    let client = Arc::new(blocking::service_client::Client::patient(url));
    match variant {
        Variant::Threads => Arc::new(OnThreads::<dyn ServiceClient>::new(client, calls)),
        Variant::Blocking | Variant::Async => client,
    }
}

/// A service that is told by who waits for its answer.
struct Waiting(Arc<dyn ServiceClient>);

impl Listener for Waiting {
    fn tell(&self, what: Value) -> CallFuture<'_, ()> {
        Box::pin(async move { told(self.0.post("", &what).await) })
    }
}

/// A service that is told on a bridge.
struct Bridged {
    bridge: Arc<Bridge>,
    client: Arc<blocking::service_client::Client>,
}

impl Listener for Bridged {
    fn tell(&self, what: Value) -> CallFuture<'_, ()> {
        let client = Arc::clone(&self.client);
        let job = move || Ok(told(at_once(client.post("", &what)))?);
        Box::pin(async move { Ok(self.bridge.hand_over(job)?) })
    }
}

fn told(answer: Result<Answer, CallError>) -> Result<(), CallError> {
    match answer?.status {
        200..=299 => Ok(()),
        status => Err(CallError::Refused(status)),
    }
}
