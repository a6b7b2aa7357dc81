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

/// Opens what the steps need, and nothing else: each server is connected once per variant in
/// use, with the connections that a pool keeps, so that no request pays for them.
///
/// # Errors
/// [`ConnectError`] if a URL is wrong or a server can't be reached.
pub async fn open(steps: &Steps, addresses: &Addresses) -> Result<Stores, ConnectError> {
    let mut pools = Pools::of(addresses);
    let (usage, conversations) = match steps.variant_of(Step::UsageCheck) {
        Variant::Blocking => blocking::postgres::stores(pools.blocking_sql()?),
        Variant::Async => asynchronous::postgres::stores(pools.async_sql().await?),
    };
    let history = match steps.variant_of(Step::ChatHistory) {
        Variant::Blocking => blocking::history::store(pools.blocking_sql()?),
        Variant::Async => asynchronous::history::store(pools.async_sql().await?),
    };
    let streams = match steps.variant_of(Step::StreamManager) {
        Variant::Blocking => blocking::streams::store(&addresses.redis_url)?,
        Variant::Async => asynchronous::streams::store(pools.async_redis().await?),
    };
    let (tunnel, branches) = match steps.variant_of(Step::RedisCaches) {
        Variant::Blocking => blocking::redis::open(&addresses.redis_url)?,
        Variant::Async => asynchronous::redis::stores(pools.async_redis().await?),
    };
    Ok(Stores {
        streams,
        reader: blocking::stream_reader::reader(&addresses.redis_url)?,
        history,
        usage,
        conversations,
        tunnel,
        branches,
    })
}

/// What stores of one variant share, opened when the first of them asks.
struct Pools<'a> {
    addresses: &'a Addresses,
    blocking_sql: Option<blocking::postgres::SqlPool>,
    async_sql: Option<sqlx::PgPool>,
    async_redis: Option<fred::clients::Client>,
}

impl<'a> Pools<'a> {
    fn of(addresses: &'a Addresses) -> Self {
        Self {
            addresses,
            blocking_sql: None,
            async_sql: None,
            async_redis: None,
        }
    }

    fn blocking_sql(&mut self) -> Result<blocking::postgres::SqlPool, ConnectError> {
        let pool = match self.blocking_sql.take() {
            Some(pool) => pool,
            None => blocking::postgres::pool(&self.addresses.database_url)?,
        };
        Ok(self.blocking_sql.insert(pool).clone())
    }

    async fn async_sql(&mut self) -> Result<sqlx::PgPool, ConnectError> {
        let pool = match self.async_sql.take() {
            Some(pool) => pool,
            None => asynchronous::postgres::pool(&self.addresses.database_url).await?,
        };
        Ok(self.async_sql.insert(pool).clone())
    }

    async fn async_redis(&mut self) -> Result<fred::clients::Client, ConnectError> {
        let client = match self.async_redis.take() {
            Some(client) => client,
            None => asynchronous::redis::connect(&self.addresses.redis_url).await?,
        };
        Ok(self.async_redis.insert(client).clone())
    }
}
