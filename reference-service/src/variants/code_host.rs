//! Opens the ways to the code host: the calls that step 4 moves, and those awaited in every state.

use std::sync::Arc;
use std::time::Duration;

use super::threads::CallPool;
use super::{ConnectError, asynchronous, blocking, threads};
use crate::hub::Hub;
use crate::service_url::ServiceUrl;
use crate::steps::Variant;
use crate::stores::hub::HubClient;

/// The code host's API, and how long it is waited for.
#[derive(Debug, Clone)]
pub struct HubAddress {
    /// Where it is.
    pub url: ServiceUrl,
    /// How long an answer may take.
    pub answer_max: Duration,
}

/// How the service calls itself; a code host answers nobody who doesn't.
pub(super) const USER_AGENT: &str = "unstall-reference";
/// How long a connection may take.
pub(super) const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Both ways to a code host.
pub(super) fn open(
    variant: Variant,
    hub: &HubAddress,
    calls: &CallPool,
) -> Result<Hub, ConnectError> {
    let awaited = asynchronous::hub::Hub::new(&hub.url, hub.answer_max);
    let awaited: Arc<dyn HubClient> = Arc::new(awaited.map_err(ConnectError::Hub)?);
    let blocking = || Arc::new(blocking::hub::Hub::new(&hub.url, hub.answer_max));
    let moved = match variant {
        Variant::Blocking => blocking(),
        Variant::Threads => threads::hub::client(blocking(), calls),
        Variant::Async => Arc::clone(&awaited),
    };
    Ok(Hub { moved, awaited })
}
