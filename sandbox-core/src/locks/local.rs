//! Locks within one process: right where one worker has a store for itself. They can't be lost, since
//! they end with the process.

use std::collections::HashMap;
use std::future::{pending, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::domain::FencingToken;
use crate::ports::Answer;
use crate::ports::locks::{HeldLock, Lease, LockClass, LockError, LockManager, LockName};

/// Readers of one lock at the same time; more wait. Whoever writes holds the places of all of them.
const READERS_MAX: u32 = 1 << 16;

/// Locks of one process.
#[derive(Debug, Clone, Default)]
pub struct LocalLocks {
    doors: Arc<Doors>,
}

/// The locks that somebody holds or waits for.
#[derive(Debug, Default)]
struct Doors {
    /// Tokio's semaphore serves in the order of arrival, whoever asks for how many places.
    by_name: Mutex<HashMap<LockName, Arc<Semaphore>>>,
    last_token: AtomicU64,
}

/// Somebody's holding of a lock, or waiting for it. Dropping it gives the lock back, and forgets a lock
/// that nobody else has to do with.
#[derive(Debug)]
struct Stay {
    doors: Arc<Doors>,
    name: LockName,
    /// `None` only while dropping.
    door: Option<Arc<Semaphore>>,
    places: Option<OwnedSemaphorePermit>,
}

impl LocalLocks {
    /// No lock is held yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    async fn wait(
        &self,
        name: &LockName,
        class: LockClass,
        wait_max: Duration,
    ) -> Result<Lease, LockError> {
        let places = match class {
            LockClass::Read => 1,
            LockClass::Write => READERS_MAX,
        };
        let (mut stay, door) = Doors::enter(&self.doors, name);
        // Tried first, since a time limit of zero says nothing about a task whose turn is over.
        let taken = match Arc::clone(&door).try_acquire_many_owned(places) {
            Ok(taken) => Some(taken),
            Err(_) if wait_max.is_zero() => None,
            Err(_) => {
                let waiting = door.acquire_many_owned(places);
                tokio::time::timeout(wait_max, waiting)
                    .await
                    .ok()
                    .and_then(Result::ok)
            }
        };
        if taken.is_none() {
            return Err(LockError::Busy {
                name: name.clone(),
                waited_ms: u64::try_from(wait_max.as_millis()).unwrap_or(u64::MAX),
            });
        }
        stay.places = taken;
        let token = self.doors.next_token();
        Ok(Lease::new(name.clone(), class, token, Box::new(stay)))
    }
}

impl LockManager for LocalLocks {
    fn acquire<'a>(
        &'a self,
        name: &'a LockName,
        class: LockClass,
        wait_max: Duration,
    ) -> Answer<'a, Lease, LockError> {
        Box::pin(self.wait(name, class, wait_max))
    }
}

impl Doors {
    fn enter(doors: &Arc<Self>, name: &LockName) -> (Stay, Arc<Semaphore>) {
        let open = || Arc::new(Semaphore::new(READERS_MAX as usize));
        let door = Arc::clone(doors.lock().entry(name.clone()).or_insert_with(open));
        let stay = Stay {
            doors: Arc::clone(doors),
            name: name.clone(),
            door: Some(Arc::clone(&door)),
            places: None,
        };
        (stay, door)
    }

    /// The map is consistent at every panic point, and nobody waits while it is locked.
    fn lock(&self) -> MutexGuard<'_, HashMap<LockName, Arc<Semaphore>>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_token(&self) -> FencingToken {
        let now_us = u64::try_from(Timestamp::now().as_microsecond()).unwrap_or_default();
        let before = self
            .last_token
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                Some(token_after(last, now_us))
            });
        let (Ok(last) | Err(last)) = before;
        FencingToken::new(token_after(last, now_us))
    }
}

/// Larger than the last one, and than those of an earlier process, which had the time of then: both
/// only fail together, when the wall clock was set back and the process was restarted. In Redis' scripts
/// tokens are made in the same way, so that a deployment may change from one to the other.
fn token_after(last: u64, now_us: u64) -> u64 {
    now_us.max(last + 1)
}

impl HeldLock for Stay {
    fn is_lost(&self) -> bool {
        false
    }

    fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(pending())
    }

    fn release(self: Box<Self>) -> Answer<'static, (), LockError> {
        drop(self);
        Box::pin(ready(Ok(())))
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        // Given back while the map is locked: who looks below counts only those who stay.
        let mut by_name = self.doors.lock();
        drop(self.places.take());
        drop(self.door.take());
        if by_name
            .get(&self.name)
            .is_some_and(|door| Arc::strong_count(door) == 1)
        {
            by_name.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::WorkspaceId;

    #[test]
    fn tokens_grow_though_the_clock_stands_still_or_is_set_back() {
        assert_eq!(token_after(0, 1000), 1000);
        assert_eq!(token_after(1000, 1000), 1001);
        assert_eq!(token_after(1001, 10), 1002);
    }

    #[tokio::test]
    async fn locks_that_nobody_wants_are_forgotten() {
        let locks = LocalLocks::new();
        let name = LockName::workspace_command(WorkspaceId::generate());
        let soon = Duration::from_millis(1);
        let held = locks.acquire(&name, LockClass::Read, soon).await;
        let refused = locks.acquire(&name, LockClass::Write, soon).await;
        assert!(matches!(refused, Err(LockError::Busy { .. })), "{refused:?}");
        assert_eq!(locks.doors.lock().len(), 1);
        drop(held);
        assert!(locks.doors.lock().is_empty());
    }

    #[tokio::test]
    async fn a_waiter_that_is_dropped_is_forgotten() {
        let locks = LocalLocks::new();
        let name = LockName::workspace_command(WorkspaceId::generate());
        let held = locks.acquire(&name, LockClass::Write, Duration::ZERO).await;
        let mut waiting = locks.acquire(&name, LockClass::Write, Duration::from_secs(60));
        std::future::poll_fn(|context| {
            assert!(waiting.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        drop(waiting);
        drop(held);
        assert!(locks.doors.lock().is_empty());
    }
}
