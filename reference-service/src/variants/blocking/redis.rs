//! Step 3 before: the synchronous Redis client, called on the loop.

use std::sync::Arc;

use redis::{Client, Commands, Connection, IntoConnectionInfo, RedisError, RedisResult};

use super::code_cache;
use super::pool::{Connect, Pool};
use crate::stores::{Backend, REDIS_WAIT, Step3Stores, StoreError, StoreFuture, TunnelStore};
use crate::tunnel::{self, TunnelRecord};
use crate::variants::ConnectError;

/// The stores of step 3.
pub(crate) fn open(redis_url: &str) -> Result<Step3Stores, ConnectError> {
    let redis = Redis::at(redis_url)?;
    let tunnel = Tunnel {
        pool: Pool::open(redis.clone())?,
    };
    Ok((Arc::new(tunnel), code_cache::cache(redis)))
}

fn client(redis_url: &str) -> RedisResult<Client> {
    let info = redis_url.into_connection_info()?;
    // The client would introduce itself at each connect, with commands that the original
    // doesn't send.
    let settings = info.redis_settings().clone().set_skip_set_lib_name();
    Client::open(info.set_redis_settings(settings))
}

/// The tunnel's records: a shared, pooled client, GET and EXISTS.
struct Tunnel {
    pool: Pool<Redis>,
}

impl TunnelStore for Tunnel {
    fn record<'a>(&'a self, workspace_id: &'a str) -> StoreFuture<'a, Option<TunnelRecord>> {
        Box::pin(async move {
            let key = tunnel::record_key(workspace_id);
            let text: Option<String> = self.command(|connection| connection.get(&key))?;
            text.map(|text| TunnelRecord::parse(&key, &text))
                .transpose()
        })
    }

    fn socket_online<'a>(&'a self, workspace_id: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let key = tunnel::socket_key(workspace_id);
            self.command(|connection| connection.exists(&key))
        })
    }
}

impl Tunnel {
    /// Runs a read; an idle connection that the server closed is replaced once, since the pool
    /// doesn't ping.
    fn command<T>(&self, run: impl Fn(&mut Connection) -> RedisResult<T>) -> Result<T, StoreError> {
        let first = run(&mut *self.pool.get()?);
        match first {
            Err(error) if error.is_connection_dropped() => {
                run(&mut *self.pool.replace()?).map_err(store_error)
            }
            other => other.map_err(store_error),
        }
    }
}

/// Opens connections.
#[derive(Clone)]
pub(super) struct Redis {
    client: Client,
}

impl Redis {
    /// Opens nothing yet.
    pub(super) fn at(redis_url: &str) -> Result<Self, ConnectError> {
        let client = client(redis_url).map_err(|error| ConnectError::Url {
            option: "Redis URL",
            backend: Backend::Redis,
            reason: error.to_string(),
            example: "redis://127.0.0.1:6379/0",
        })?;
        Ok(Self { client })
    }
}

impl Connect for Redis {
    type Connection = Connection;
    type Error = StoreError;

    fn connect(&self) -> Result<Connection, StoreError> {
        let connection = self
            .client
            .get_connection_with_timeout(REDIS_WAIT)
            .map_err(store_error)?;
        connection
            .set_read_timeout(Some(REDIS_WAIT))
            .map_err(store_error)?;
        connection
            .set_write_timeout(Some(REDIS_WAIT))
            .map_err(store_error)?;
        Ok(connection)
    }

    fn is_alive(&self, connection: &mut Connection) -> bool {
        redis::ConnectionLike::is_open(connection)
    }

    fn is_reusable(&self, connection: &mut Connection) -> bool {
        redis::ConnectionLike::is_open(connection)
    }

    fn exhausted(&self) -> StoreError {
        StoreError::unavailable(Backend::Redis, "all connections are in use")
    }
}

pub(super) fn store_error(error: RedisError) -> StoreError {
    if error.is_io_error() || error.is_timeout() || error.is_connection_dropped() {
        StoreError::unavailable(Backend::Redis, error)
    } else {
        StoreError::refused(Backend::Redis, error)
    }
}
