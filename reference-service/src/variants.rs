//! The stores' variants, and the choice between them.

use thiserror::Error;

use crate::steps::{Step, Steps, Variant};
use crate::stores::{StoreError, Stores};

pub mod asynchronous;
pub mod blocking;

/// Where the servers are.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// `postgres://…`
    pub database_url: String,
    /// `redis://…`
    pub redis_url: String,
}

/// A server that the service can't start with.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The URL isn't one.
    #[error(
        "the {option} is not a URL that {backend} accepts: {reason}; it looks like `{example}`"
    )]
    Url {
        /// The option that gave it.
        option: &'static str,
        /// Whose URL.
        backend: crate::stores::Backend,
        /// What the client says.
        reason: String,
        /// A right one.
        example: &'static str,
    },
    /// No connection.
    #[error("{0}; check that it runs and that the URL's host, port and password are right")]
    Store(#[from] StoreError),
}

/// Opens the pools that the steps need, and no others: each backend is connected once per
/// variant in use, with the connections that a pool keeps, so that no request pays for them.
///
/// # Errors
/// [`ConnectError`] if a URL is wrong or a server can't be reached.
pub async fn open(steps: &Steps, addresses: &Addresses) -> Result<Stores, ConnectError> {
    let (usage, conversations) = match steps.variant_of(Step::UsageCheck) {
        Variant::Blocking => blocking::postgres::open(&addresses.database_url)?,
        Variant::Async => asynchronous::postgres::open(&addresses.database_url).await?,
    };
    let (tunnel, branches) = match steps.variant_of(Step::RedisCaches) {
        Variant::Blocking => blocking::redis::open(&addresses.redis_url)?,
        Variant::Async => asynchronous::redis::open(&addresses.redis_url).await?,
    };
    Ok(Stores {
        usage,
        conversations,
        tunnel,
        branches,
    })
}
