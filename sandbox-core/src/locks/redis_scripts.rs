//! What is asked of Redis about locks: three scripts, each one step that nothing comes between, on one
//! connection that is replaced when it is lost or silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike, EventInterface};
use fred::types::config::{Config, Options, ReconnectPolicy};
use fred::types::{Builder, ClusterHash, CustomCommand, FromValue, Value};
use tokio::runtime::Handle;
use tokio::sync::broadcast::error::RecvError;
use uuid::Uuid;

use crate::domain::{Cause, FencingToken};
use crate::ports::locks::{LockClass, LockName};

const ACQUIRE: &str = include_str!("acquire.lua");
const RENEW: &str = include_str!("renew.lua");
const RELEASE: &str = include_str!("release.lua");

/// All keys begin so. They are of their own kinds and nobody else's.
const PREFIX: &str = "unstall:lock:";
/// The one key that stays: it makes tokens larger than all before, whatever is locked.
const LAST_TOKEN: &str = "unstall:lock-token";

/// Longest time to open a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Pauses between tries to connect anew, which go on for ever.
const RECONNECT_PAUSE_MS_MIN: u32 = 10;
const RECONNECT_PAUSE_MS_MAX: u32 = 500;

/// Why there is no connection to Redis to begin with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL can't be understood. It isn't shown, as it may hold a password.
    #[error(
        "the URL of the Redis for locks can't be used ({reason}): write it like redis://127.0.0.1:6379/0"
    )]
    Url {
        /// What is wrong with it.
        reason: String,
    },
    /// It doesn't answer, or refuses.
    #[error(
        "the Redis for locks can't be used ({source}): see that it runs, can be reached and allows scripts"
    )]
    Unavailable {
        /// What was tried and how it failed.
        source: Cause,
    },
}

/// A script and its digest, by which Redis knows it once it has seen it.
#[derive(Debug)]
struct Script {
    text: &'static str,
    digest: String,
}

/// Somebody's place at one lock: its keys, and what stands for the holder or waiter in them.
#[derive(Debug)]
pub(super) struct Place {
    holders: String,
    queue: String,
    writers: String,
    places: String,
    member: String,
    spread: u8,
}

impl Place {
    /// A new one, which nobody has taken.
    pub(super) fn new(name: &LockName, class: LockClass) -> Self {
        let key = |part| format!("{PREFIX}{name}:{part}");
        let id = Uuid::new_v4();
        let class = match class {
            LockClass::Read => 'r',
            LockClass::Write => 'w',
        };
        Self {
            holders: key("holders"),
            queue: key("queue"),
            writers: key("writers"),
            places: key("places"),
            member: format!("{class}:{id}"),
            spread: id.as_bytes()[15],
        }
    }

    /// A number of its own, for what should differ between places.
    pub(super) fn spread(&self) -> u8 {
        self.spread
    }
}

/// Whether a lock was had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acquired {
    /// From now on.
    Granted(FencingToken),
    /// Others are before it.
    Waiting {
        /// How many of them wait.
        ahead: u32,
    },
}

/// The connection, and what is asked over it.
#[derive(Debug)]
pub(super) struct RedisScripts {
    client: Client,
    acquire: Script,
    renew: Script,
    release: Script,
    /// A connection without an answer for so long is replaced.
    silence_max: Duration,
    answers: AtomicU64,
    is_replacing: Arc<AtomicBool>,
    runtime: Handle,
}

impl RedisScripts {
    /// Connects, and hands the scripts over. The runtime that calls it is the one that background tasks
    /// run on.
    pub(super) async fn connect(
        redis_url: &str,
        silence_max: Duration,
    ) -> Result<Self, ConnectError> {
        let config = Config::from_url(redis_url).map_err(|error| ConnectError::Url {
            reason: error.to_string(),
        })?;
        let client = client(config).map_err(unavailable)?;
        client.init().await.map_err(unavailable)?;
        let (acquire, renew, release) = tokio::try_join!(
            load(&client, ACQUIRE),
            load(&client, RENEW),
            load(&client, RELEASE)
        )
        .map_err(unavailable)?;
        Ok(Self {
            client,
            acquire,
            renew,
            release,
            silence_max,
            answers: AtomicU64::new(0),
            is_replacing: Arc::default(),
            runtime: Handle::current(),
        })
    }

    /// Takes the lock, or a place in its queue that is kept for `place_kept` (zero: takes none).
    pub(super) async fn acquire(
        &self,
        place: &Place,
        lease: Duration,
        place_kept: Duration,
        within: Duration,
    ) -> Result<Acquired, Cause> {
        let keys = [
            place.holders.as_str(),
            &place.queue,
            &place.writers,
            &place.places,
            LAST_TOKEN,
        ];
        let (lease, place_kept) = (microseconds(lease), microseconds(place_kept));
        let arguments = [place.member.as_str(), &lease, &place_kept];
        let (is_granted, number): (i64, i64) =
            self.run(&self.acquire, &keys, &arguments, within).await?;
        if is_granted == 1 {
            let token = FencingToken::new(u64::try_from(number)?);
            return Ok(Acquired::Granted(token));
        }
        let ahead = u32::try_from(number)?;
        Ok(Acquired::Waiting { ahead })
    }

    /// Prolongs a lease. False if it isn't its holder's any more.
    pub(super) async fn renew(
        &self,
        place: &Place,
        lease: Duration,
        within: Duration,
    ) -> Result<bool, Cause> {
        let arguments = [place.member.as_str(), &microseconds(lease)];
        let held: i64 = self
            .run(&self.renew, &[&place.holders], &arguments, within)
            .await?;
        Ok(held == 1)
    }

    /// Gives the lock back, or the place in its queue. False if the lock wasn't held.
    pub(super) async fn release(&self, place: &Place, within: Duration) -> Result<bool, Cause> {
        let keys = [
            place.holders.as_str(),
            &place.queue,
            &place.writers,
            &place.places,
        ];
        let held: i64 = self
            .run(&self.release, &keys, &[place.member.as_str()], within)
            .await?;
        Ok(held == 1)
    }

    /// Completes when there is a new connection: Redis may have lost what it had.
    pub(super) async fn is_back(&self) {
        let mut connections = self.client.reconnect_rx();
        if let Err(RecvError::Closed) = connections.recv().await {
            // There will never be one.
            std::future::pending::<()>().await;
        }
    }

    /// Where background tasks run.
    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    async fn run<T: FromValue>(
        &self,
        script: &Script,
        keys: &[&str],
        arguments: &[&str],
        within: Duration,
    ) -> Result<T, Cause> {
        // Failing fast leaves the waiting to the caller instead of the client's queue.
        let client = self.client.with_options(&Options {
            fail_fast: true,
            timeout: Some(within),
            ..Options::default()
        });
        let answers_before = self.answers.load(Ordering::Relaxed);
        let by_digest = words(&script.digest, keys, arguments);
        let mut outcome: Result<T, Error> = client.custom(command("EVALSHA"), by_digest).await;
        // A Redis that was started anew has to see the script again.
        if outcome.as_ref().is_err_and(is_unknown_script) {
            let by_text = words(script.text, keys, arguments);
            outcome = client.custom(command("EVAL"), by_text).await;
        }
        match &outcome {
            Ok(_) => {
                self.answers.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                let is_silent = *error.kind() == ErrorKind::Timeout
                    && within >= self.silence_max
                    && self.answers.load(Ordering::Relaxed) == answers_before;
                if is_silent {
                    self.replace_connection();
                }
            }
        }
        outcome.map_err(Into::into)
    }

    /// A peer that went without a word would otherwise be waited for until the system's own limit for
    /// sent data, which is some 15 minutes (tcp(7), tcp_retries2).
    fn replace_connection(&self) {
        if self.is_replacing.swap(true, Ordering::AcqRel) {
            return;
        }
        tracing::warn!("the Redis for locks doesn't answer; its connection is replaced");
        let client = self.client.clone();
        let is_replacing = Arc::clone(&self.is_replacing);
        self.runtime.spawn(async move {
            if let Err(error) = client.force_reconnection().await {
                tracing::debug!(%error, "the Redis for locks can't be reached");
            }
            is_replacing.store(false, Ordering::Release);
        });
    }
}

/// The client's own tasks would outlive it.
impl Drop for RedisScripts {
    fn drop(&mut self) {
        let client = self.client.clone();
        self.runtime.spawn(async move {
            if let Err(error) = client.quit().await {
                tracing::debug!(%error, "the connection for locks is closed already");
            }
        });
    }
}

fn client(config: Config) -> Result<Client, Error> {
    let mut policy =
        ReconnectPolicy::new_exponential(0, RECONNECT_PAUSE_MS_MIN, RECONNECT_PAUSE_MS_MAX, 2);
    policy.set_jitter(RECONNECT_PAUSE_MS_MIN);
    Builder::from_config(config)
        .with_connection_config(|connection| {
            connection.connection_timeout = CONNECT_MAX;
            connection.internal_command_timeout = CONNECT_MAX;
            connection.tcp.nodelay = Some(true);
        })
        .set_policy(policy)
        .build()
}

async fn load(client: &Client, text: &'static str) -> Result<Script, Error> {
    let client = client.with_options(&Options {
        fail_fast: true,
        timeout: Some(CONNECT_MAX),
        ..Options::default()
    });
    let words: Vec<Value> = vec!["LOAD".into(), text.into()];
    let digest = client.custom(command("SCRIPT"), words).await?;
    Ok(Script { text, digest })
}

fn command(word: &'static str) -> CustomCommand {
    CustomCommand::new_static(word, ClusterHash::Random, false)
}

/// What follows EVAL or EVALSHA.
fn words(script: &str, keys: &[&str], arguments: &[&str]) -> Vec<Value> {
    let count = keys.len().to_string();
    let begin = [script, count.as_str()];
    let all = begin.iter().chain(keys).chain(arguments);
    all.map(|word| Value::from(*word)).collect()
}

fn is_unknown_script(error: &Error) -> bool {
    error.details().starts_with("NOSCRIPT")
}

fn microseconds(time: Duration) -> String {
    time.as_micros().to_string()
}

fn unavailable(error: Error) -> ConnectError {
    ConnectError::Unavailable {
        source: error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::WorkspaceId;

    #[test]
    fn places_at_one_lock_share_its_keys_and_nothing_else() {
        let name = LockName::workspace_command(WorkspaceId::generate());
        let reader = Place::new(&name, LockClass::Read);
        let writer = Place::new(&name, LockClass::Write);
        assert_eq!(reader.holders, writer.holders);
        assert_eq!(reader.holders, format!("unstall:lock:{name}:holders"));
        assert!(reader.member.starts_with("r:") && writer.member.starts_with("w:"));
        assert_ne!(reader.member[2..], writer.member[2..]);
    }

    #[test]
    fn a_call_has_the_number_of_its_keys_before_them() {
        let words = words("digest", &["a", "b"], &["c"]);
        let texts: Vec<String> = words.into_iter().filter_map(Value::into_string).collect();
        assert_eq!(texts, ["digest", "2", "a", "b", "c"]);
    }

    #[tokio::test]
    async fn a_url_that_is_none_is_refused_without_its_password() {
        let url = "redis://user:s3cret@host:no-port";
        let refused = RedisScripts::connect(url, Duration::ZERO).await;
        let text = refused.expect_err("no URL").to_string();
        assert!(text.contains("redis://127.0.0.1:6379/0"), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
}
