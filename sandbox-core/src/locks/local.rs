//! Locks within one process: right where one worker has a store for itself. They can't be lost, since
//! they end with the process.

use std::collections::HashMap;
use std::future::{pending, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::domain::FencingToken;
use crate::ports::Answer;
use crate::ports::locks::{HeldLock, Lease, LockClass, LockError, LockManager, LockName, Reliance};

/// Readers of one lock at the same time; more wait. Whoever writes holds the places of all of them.
const READERS_MAX: u32 = 1 << 16;

/// Locks of one process.
#[derive(Debug, Clone, Default)]
pub struct LocalLocks {
    house: Arc<House>,
}

#[derive(Debug, Default)]
struct House(Mutex<Rooms>);

#[derive(Debug, Default)]
struct Rooms {
    /// The locks that somebody holds or waits for.
    by_name: HashMap<LockName, Room>,
    last_token: u64,
}

#[derive(Debug)]
struct Room {
    /// It serves in the order of arrival, whoever asks for how many places.
    places: Arc<Semaphore>,
    /// Who holds the lock or waits for it.
    visitors: usize,
}

/// Somebody's holding of a lock, or waiting for it. Dropping it gives the lock back, and forgets a lock
/// that nobody else has to do with.
#[derive(Debug)]
struct Visit {
    house: Arc<House>,
    name: LockName,
    taken: Option<OwnedSemaphorePermit>,
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
        let wanted = match class {
            LockClass::Read => 1,
            LockClass::Write => READERS_MAX,
        };
        let (mut visit, places) = House::enter(&self.house, name);
        // Tried first, since a time limit of zero says nothing about a task whose turn is over.
        visit.taken = match Arc::clone(&places).try_acquire_many_owned(wanted) {
            Ok(taken) => Some(taken),
            Err(_) if wait_max.is_zero() => None,
            Err(_) => {
                let waiting = places.acquire_many_owned(wanted);
                let taken = tokio::time::timeout(wait_max, waiting).await;
                // The semaphore is never closed.
                taken.ok().and_then(Result::ok)
            }
        };
        if visit.taken.is_none() {
            return Err(LockError::Busy {
                name: name.clone(),
                waited_ms: u64::try_from(wait_max.as_millis()).unwrap_or(u64::MAX),
            });
        }
        let token = self.house.next_token();
        Ok(Lease::new(name.clone(), class, token, Box::new(visit)))
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

impl House {
    fn enter(house: &Arc<Self>, name: &LockName) -> (Visit, Arc<Semaphore>) {
        let mut rooms = house.lock();
        let room = rooms.by_name.entry(name.clone()).or_insert_with(|| Room {
            places: Arc::new(Semaphore::new(READERS_MAX as usize)),
            visitors: 0,
        });
        room.visitors += 1;
        let places = Arc::clone(&room.places);
        let visit = Visit {
            house: Arc::clone(house),
            name: name.clone(),
            taken: None,
        };
        (visit, places)
    }

    /// What it guards is consistent at every panic point, and nobody waits while it is locked.
    fn lock(&self) -> MutexGuard<'_, Rooms> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_token(&self) -> FencingToken {
        let now_us = u64::try_from(Timestamp::now().as_microsecond()).unwrap_or_default();
        let mut rooms = self.lock();
        rooms.last_token = token_after(rooms.last_token, now_us);
        FencingToken::new(rooms.last_token)
    }
}

/// Larger than the last one, and than those of an earlier process, which had the time of then: both
/// only fail together, when the wall clock was set back and the process was restarted. In Redis' scripts
/// tokens are made in the same way, so that a deployment may change from one to the other.
fn token_after(last: u64, now_us: u64) -> u64 {
    now_us.max(last + 1)
}

impl HeldLock for Visit {
    fn is_lost(&self) -> bool {
        false
    }

    fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(pending())
    }

    fn reliance(&self) -> Option<Reliance> {
        None
    }

    fn release(self: Box<Self>) -> Answer<'static, (), LockError> {
        drop(self);
        Box::pin(ready(Ok(())))
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        drop(self.taken.take());
        let mut rooms = self.house.lock();
        let Some(room) = rooms.by_name.get_mut(&self.name) else {
            return;
        };
        room.visitors -= 1;
        if room.visitors == 0 {
            rooms.by_name.remove(&self.name);
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
        assert!(
            matches!(refused, Err(LockError::Busy { .. })),
            "{refused:?}"
        );
        assert_eq!(locks.house.lock().by_name.len(), 1);
        drop(held);
        assert!(locks.house.lock().by_name.is_empty());
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
        assert!(locks.house.lock().by_name.is_empty());
    }
}
