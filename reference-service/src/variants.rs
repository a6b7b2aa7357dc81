//! The stores' variants, and the choice between them.

use std::sync::Arc;

use thiserror::Error;

use crate::notifier::{HookUrl, Notifier, NotifyError};
use crate::steps::{Step, Steps, Variant};
use crate::stores::streams::Reading;
use crate::stores::{SqlStores, StoreError, Stores};
use crate::variants::threads::CallPool;

pub mod asynchronous;
pub mod blocking;
pub mod threads;

/// Where the servers are.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// `postgres://…`
    pub database_url: String,
    /// `redis://…`
    pub redis_url: String,
    /// The hook that new accounts are told to, if any.
    pub notify_url: Option<HookUrl>,
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
    /// No client for the hook.
    #[error(transparent)]
    Notify(#[from] NotifyError),
}

/// Opens the pools that the steps need, and no others: each backend is connected once per
/// variant in use, with the connections that a pool keeps, so that no request pays for them.
/// Every state opens one more, for the access check, which is awaited in every state. The start
/// makes its calls in `calls`, whose slots streams take too, until step 6.
///
/// # Errors
/// [`ConnectError`] if a URL is wrong or a server can't be reached.
pub async fn open(
    steps: &Steps,
    addresses: &Addresses,
    calls: &CallPool,
) -> Result<Stores, ConnectError> {
    let mut sql = SqlByVariant::new(&addresses.database_url, calls);
    let access = asynchronous::access::open(&addresses.database_url).await?;
    let usage = sql.stores(steps.variant_of(Step::UsageCheck)).await?;
    let history = sql.stores(steps.variant_of(Step::ChatHistory)).await?;
    let sharing = sql.stores(steps.variant_of(Step::ShareAndAccess)).await?;
    // `GET /providers/me` moves with the other sign-in routes, as the shipped plan has it. The
    // service being migrated left it to step 5, which never landed.
    let auth = sql.stores(steps.variant_of(Step::Auth)).await?;
    let mut redis = AsyncRedis {
        url: &addresses.redis_url,
        client: None,
    };
    let streams = match steps.variant_of(Step::StreamManager) {
        Variant::Blocking => blocking::streams::store(&addresses.redis_url)?,
        Variant::Threads => {
            threads::streams::store(blocking::streams::store(&addresses.redis_url)?, calls)
        }
        Variant::Async => asynchronous::streams::store(redis.client().await?),
    };
    let reading = match steps.variant_of(Step::StreamReader) {
        Variant::Threads => {
            let block = blocking::stream_reader::BLOCK_AT_THE_START;
            let reader = blocking::stream_reader::reader(&addresses.redis_url, block)?;
            let (slots, threads) = (calls.slots().clone(), calls.stream_threads());
            Reading::OnThreadOfItsOwn(reader, slots, threads)
        }
        Variant::Blocking => {
            let block = blocking::stream_reader::BLOCK;
            let reader = blocking::stream_reader::reader(&addresses.redis_url, block)?;
            Reading::OnThread(reader, calls.slots().clone())
        }
        Variant::Async => {
            let client = redis.client().await?;
            Reading::OnLoop(asynchronous::stream_reader::readers(
                &addresses.redis_url,
                client,
            )?)
        }
    };
    let (tunnel, branches) = match steps.variant_of(Step::RedisCaches) {
        Variant::Blocking => blocking::redis::open(&addresses.redis_url)?,
        Variant::Threads => {
            threads::redis::stores(blocking::redis::open(&addresses.redis_url)?, calls)
        }
        Variant::Async => asynchronous::redis::stores(redis.client().await?),
    };
    let notifier = match &addresses.notify_url {
        Some(url) => Some(notifier(steps.variant_of(Step::HttpClients), url, calls)?),
        None => None,
    };
    Ok(Stores {
        streams,
        reading,
        access,
        history,
        usage: Arc::<dyn SqlStores>::clone(&usage),
        conversations: usage,
        sharing,
        auth,
        notifier,
        tunnel,
        branches,
    })
}

fn notifier(
    variant: Variant,
    url: &HookUrl,
    calls: &CallPool,
) -> Result<Arc<dyn Notifier>, NotifyError> {
    let blocking = || Arc::new(blocking::notifier::HookNotifier::new(url));
    Ok(match variant {
        Variant::Blocking => blocking(),
        Variant::Threads => threads::notifier::notifier(blocking(), calls),
        Variant::Async => Arc::new(asynchronous::notifier::HookNotifier::new(url)?),
    })
}

/// The stores in PostgreSQL, opened when the first step asks for their variant.
struct SqlByVariant<'a> {
    database_url: &'a str,
    calls: &'a CallPool,
    blocking: Option<Arc<dyn SqlStores>>,
    on_threads: Option<Arc<dyn SqlStores>>,
    asynchronous: Option<Arc<dyn SqlStores>>,
}

impl<'a> SqlByVariant<'a> {
    fn new(database_url: &'a str, calls: &'a CallPool) -> Self {
        Self {
            database_url,
            calls,
            blocking: None,
            on_threads: None,
            asynchronous: None,
        }
    }

    async fn stores(&mut self, variant: Variant) -> Result<Arc<dyn SqlStores>, ConnectError> {
        let slot = match variant {
            Variant::Blocking => &mut self.blocking,
            Variant::Threads => &mut self.on_threads,
            Variant::Async => &mut self.asynchronous,
        };
        if let Some(stores) = slot {
            return Ok(Arc::clone(stores));
        }
        let stores = match variant {
            Variant::Blocking => blocking::postgres::open(self.database_url)?,
            Variant::Threads => {
                threads::sql::stores(blocking::postgres::open(self.database_url)?, self.calls)
            }
            Variant::Async => asynchronous::postgres::open(self.database_url).await?,
        };
        Ok(Arc::clone(slot.insert(stores)))
    }
}

/// The connection that the async stores in Redis share, opened when the first step asks for it.
struct AsyncRedis<'a> {
    url: &'a str,
    client: Option<fred::clients::Client>,
}

impl AsyncRedis<'_> {
    async fn client(&mut self) -> Result<fred::clients::Client, ConnectError> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let client = asynchronous::redis::connect(self.url).await?;
        Ok(self.client.insert(client).clone())
    }
}
