//! Calls of the code host's API; step 4 moves some of them.

use std::future::Future;
use std::pin::Pin;

use crate::hub::call::{Answer, Call};
use crate::hub::error::HubError;

/// Later, or in the blocking variant at the first poll.
pub type HubFuture<'a> = Pin<Box<dyn Future<Output = Result<Answer, HubError>> + Send + 'a>>;

/// Makes calls, each on a connection of its own, as in the service being migrated. It follows no
/// redirect: a hub doesn't choose whom the service calls.
pub trait HubClient: Send + Sync {
    /// How many calls of one request may be on their way at the same time.
    fn calls_at_once(&self) -> usize;

    /// Makes one.
    fn send<'a>(&'a self, call: &'a Call) -> HubFuture<'a>;
}
