//! Step 3 after: fred, awaited, on one shared connection that pipelines.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::{Client, WithOptions};
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike, KeysInterface};
use fred::types::Builder;
use fred::types::config::{Config, Options, ReconnectPolicy};

use super::code_cache;
use crate::stores::{Backend, REDIS_WAIT, Step3Stores, StoreError, StoreFuture, TunnelStore};
use crate::tunnel::{self, TunnelRecord};
use crate::variants::ConnectError;

/// Tries of one command, and the pause after the first; it doubles after each.
const ATTEMPTS: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause between attempts to reconnect, which go on for ever.
const RECONNECT_PAUSE_MS_MAX: u32 = 1000;

/// The stores of step 3.
pub(crate) fn stores(client: Client) -> Step3Stores {
    let cache = code_cache::cache(client.clone());
    (Arc::new(RedisStores { client }), cache)
}

/// A connected client, which connects anew whenever it has to.
pub(crate) async fn connect(redis_url: &str) -> Result<Client, ConnectError> {
    let policy = ReconnectPolicy::new_exponential(0, 100, RECONNECT_PAUSE_MS_MAX, 2);
    let client = unconnected(redis_url, Some(policy))?;
    client.init().await.map_err(store_error)?;
    Ok(client)
}

/// What a URL says.
pub(super) fn config(redis_url: &str) -> Result<Config, ConnectError> {
    Config::from_url(redis_url).map_err(|error| ConnectError::Url {
        option: "Redis URL",
        backend: Backend::Redis,
        reason: error.to_string(),
        example: "redis://127.0.0.1:6379/0",
    })
}

/// A client that isn't connected yet.
pub(super) fn unconnected(
    redis_url: &str,
    policy: Option<ReconnectPolicy>,
) -> Result<Client, ConnectError> {
    let mut builder = Builder::from_config(config(redis_url)?);
    if let Some(policy) = policy {
        builder.set_policy(policy);
    }
    let client = builder
        .with_performance_config(|performance| performance.default_command_timeout = REDIS_WAIT)
        .with_connection_config(|connection| {
            connection.connection_timeout = REDIS_WAIT;
            connection.tcp.nodelay = Some(true);
        })
        .build()
        .map_err(store_error)?;
    Ok(client)
}

struct RedisStores {
    client: Client,
}

/// Runs a command that may be run twice: up to three times, pausing 0.1 s and 0.2 s, while the
/// server can't be reached.
pub(super) async fn retried<T, F>(
    client: &Client,
    run: impl Fn(WithOptions<Client>) -> F,
) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut pause = FIRST_PAUSE;
    for _ in 1..ATTEMPTS {
        match run(once(client)).await {
            Err(error) if is_unavailable(&error) => {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            other => return other.map_err(store_error),
        }
    }
    run(once(client)).await.map_err(store_error)
}

/// The client for a single try of a command. Failing fast leaves the waiting to the caller
/// instead of the client's queue.
pub(crate) fn once<C: ClientLike>(client: &C) -> WithOptions<C> {
    client.with_options(&Options {
        fail_fast: true,
        ..Options::default()
    })
}

/// GET.
pub(super) async fn get(client: &Client, key: &str) -> Result<Option<String>, StoreError> {
    retried(client, |client| async move { client.get(key).await }).await
}

impl TunnelStore for RedisStores {
    fn record<'a>(&'a self, workspace_id: &'a str) -> StoreFuture<'a, Option<TunnelRecord>> {
        Box::pin(async move {
            let key = tunnel::record_key(workspace_id);
            let text: Option<String> = get(&self.client, &key).await?;
            text.map(|text| TunnelRecord::parse(&key, &text))
                .transpose()
        })
    }

    fn socket_online<'a>(&'a self, workspace_id: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let key = tunnel::socket_key(workspace_id);
            let key = key.as_str();
            retried(
                &self.client,
                |client| async move { client.exists(key).await },
            )
            .await
        })
    }
}

fn is_unavailable(error: &Error) -> bool {
    // What fred says (`router/commands.rs`) of a command whose connection went as it was being sent.
    // Its kind is that of a server's `ERR …`, too.
    const LOST_WHILE_SENDING: &str = "Failed to route command.";
    match error.kind() {
        ErrorKind::IO | ErrorKind::Timeout | ErrorKind::Canceled | ErrorKind::Backpressure => true,
        ErrorKind::Routing | ErrorKind::Unknown => error.details() == LOST_WHILE_SENDING,
        _ => false,
    }
}

/// Tells a lost connection from a refused command.
pub(crate) fn store_error(error: Error) -> StoreError {
    if is_unavailable(&error) {
        StoreError::unavailable(Backend::Redis, error)
    } else {
        StoreError::refused(Backend::Redis, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_whose_connection_goes_is_no_refused_one() {
        let is_lost = |kind, details: &'static str| is_unavailable(&Error::new(kind, details));
        assert!(is_lost(ErrorKind::Unknown, "Failed to route command."));
        assert!(is_lost(ErrorKind::IO, "Connection reset by peer"));
        assert!(!is_lost(ErrorKind::Unknown, "ERR unknown command 'NONE'"));
        assert!(!is_lost(ErrorKind::InvalidArgument, "WRONGTYPE"));
    }
}
