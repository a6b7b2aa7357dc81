//! Locks in Redis, for workers that share nothing else than their stores.
//!
//! A lock's leases and its queue are sorted sets that end by Redis' own clock; each step is a script.
//! Waiters ask again and again, which needs neither a second connection nor anybody who wakes them.
//!
//! Redis may be started anew and empty while locks are held. Its holders learn it when they renew, at
//! the latest after a third of a lease's length, and until then another one may have the lock as well:
//! its token, which is larger, is what tells them apart.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::clock::{BootClock, Clock};
use super::keeper::{self, LockHome};
use super::lease_times::LeaseTimes;
use super::redis_scripts::{Acquired, ConnectError, Place, RedisScripts};
use super::waiting::{PLACE_KEPT, pause};
use crate::domain::{Cause, FencingToken};
use crate::ports::Answer;
use crate::ports::locks::{Lease, LockClass, LockError, LockManager, LockName};

/// A request has this time at least, also when less is left of a wait: so much longer may a call take.
const REQUEST_MIN: Duration = Duration::from_secs(1);
/// Pause after Redis couldn't be asked.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(50);

/// Locks that are kept in Redis.
#[derive(Debug, Clone)]
pub struct RedisLocks {
    scripts: Arc<RedisScripts>,
    times: LeaseTimes,
    clock: Arc<dyn Clock>,
}

/// Somebody who isn't known to hold the lock yet. Dropping it leaves the queue, and gives back what may
/// have been granted by an answer that didn't arrive.
struct Candidate {
    scripts: Arc<RedisScripts>,
    place: Arc<Place>,
    times: LeaseTimes,
    has_lease: bool,
}

/// Where one lease is kept.
struct RedisHome {
    scripts: Arc<RedisScripts>,
    place: Arc<Place>,
    times: LeaseTimes,
}

impl RedisLocks {
    /// Connects to the Redis at `redis_url`, by which leases of these times are given out from now on.
    /// A connection that is lost later is replaced by itself. Background tasks run on the runtime that
    /// this is called on.
    ///
    /// # Errors
    /// [`ConnectError`] if the URL isn't one, or Redis doesn't answer or refuses scripts.
    pub async fn connect(redis_url: &str, times: LeaseTimes) -> Result<Self, ConnectError> {
        Self::connect_with_clock(redis_url, times, Arc::new(BootClock)).await
    }

    /// The same with another clock for the ends of leases. Commands end with their leases by
    /// [`BootClock`] whatever this clock says, so another one is for tests of locks alone.
    ///
    /// # Errors
    /// As for [`RedisLocks::connect`].
    pub async fn connect_with_clock(
        redis_url: &str,
        times: LeaseTimes,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ConnectError> {
        let scripts = RedisScripts::connect(redis_url, times.request_max()).await?;
        Ok(Self {
            scripts: Arc::new(scripts),
            times,
            clock,
        })
    }

    async fn wait(
        &self,
        name: &LockName,
        class: LockClass,
        wait_max: Duration,
    ) -> Result<Lease, LockError> {
        let candidate = Candidate {
            scripts: Arc::clone(&self.scripts),
            place: Arc::new(Place::new(name, class)),
            times: self.times,
            has_lease: false,
        };
        let began = Instant::now();
        loop {
            let waited = began.elapsed();
            let left = wait_max.saturating_sub(waited);
            let sent_at = self.clock.elapsed();
            let pause = match candidate.ask(left).await {
                Ok(Acquired::Granted(token)) => {
                    return Ok(self.lease(name, class, candidate, token, sent_at));
                }
                Ok(Acquired::Waiting { .. }) if left.is_zero() => {
                    return Err(LockError::Busy {
                        name: name.clone(),
                        waited_ms: u64::try_from(wait_max.as_millis()).unwrap_or(u64::MAX),
                    });
                }
                Ok(Acquired::Waiting { ahead }) => pause(waited, ahead, candidate.place.spread()),
                Err(source) if left.is_zero() => {
                    let name = name.clone();
                    return Err(LockError::Unavailable { name, source });
                }
                Err(error) => {
                    tracing::debug!(%name, %error, "Redis can't be asked for a lock, and is asked again");
                    PAUSE_AFTER_FAILURE
                }
            };
            sleep(pause.min(left)).await;
        }
    }

    fn lease(
        &self,
        name: &LockName,
        class: LockClass,
        mut candidate: Candidate,
        token: FencingToken,
        sent_at: Duration,
    ) -> Lease {
        candidate.has_lease = true;
        let home = RedisHome {
            scripts: Arc::clone(&self.scripts),
            place: Arc::clone(&candidate.place),
            times: self.times,
        };
        let held = keeper::keep(
            home,
            name.clone(),
            self.times,
            Arc::clone(&self.clock),
            sent_at,
            self.scripts.runtime(),
        );
        Lease::new(name.clone(), class, token, Box::new(held))
    }
}

impl LockManager for RedisLocks {
    fn acquire<'a>(
        &'a self,
        name: &'a LockName,
        class: LockClass,
        wait_max: Duration,
    ) -> Answer<'a, Lease, LockError> {
        Box::pin(self.wait(name, class, wait_max))
    }
}

impl Candidate {
    /// Asks for the lock, and for a place in its queue if time is left to wait in it.
    async fn ask(&self, left: Duration) -> Result<Acquired, Cause> {
        let place_kept = if left.is_zero() {
            Duration::ZERO
        } else {
            PLACE_KEPT
        };
        let within = left.clamp(REQUEST_MIN, REQUEST_MIN.max(self.times.request_max()));
        self.scripts
            .acquire(&self.place, self.times.length(), place_kept, within)
            .await
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        if self.has_lease {
            return;
        }
        let scripts = Arc::clone(&self.scripts);
        let place = Arc::clone(&self.place);
        let within = self.times.request_max();
        self.scripts.runtime().spawn(async move {
            if let Err(error) = scripts.release(&place, within).await {
                tracing::debug!(%error, "a place in a lock's queue wasn't given up, and ends by itself");
            }
        });
    }
}

impl LockHome for RedisHome {
    async fn renew(&self) -> Result<bool, Cause> {
        let within = self.times.request_max();
        self.scripts
            .renew(&self.place, self.times.length(), within)
            .await
    }

    async fn release(&self) -> Result<bool, Cause> {
        self.scripts
            .release(&self.place, self.times.request_max())
            .await
    }

    async fn is_back(&self) {
        self.scripts.is_back().await;
    }
}
