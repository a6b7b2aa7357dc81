//! A pool of synchronous connections: keeps some, opens more when they are all in use, and
//! closes what is given back beyond those it keeps.
//!
//! It has no helper threads. A pool that has some, as r2d2's, would add threads to the state
//! before a step which the service being migrated never had, and the step would seem to save them.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::stores::{POOL_KEPT, POOL_MAX, POOL_WAIT};

/// How connections are opened and tried.
pub(super) trait Connect: Send + Sync {
    /// A connection.
    type Connection: Send;
    /// Why there is none.
    type Error;

    /// Opens one.
    fn connect(&self) -> Result<Self::Connection, Self::Error>;
    /// Whether an idle one still works; costs a round trip where the original client makes one.
    fn is_alive(&self, connection: &mut Self::Connection) -> bool;
    /// Whether one that was used may be used again.
    fn is_reusable(&self, connection: &mut Self::Connection) -> bool;
    /// The error of waiting too long for one.
    fn exhausted(&self) -> Self::Error;
}

/// The pool.
pub(super) struct Pool<C: Connect> {
    connect: C,
    state: Mutex<State<C::Connection>>,
    given_back: Condvar,
}

struct State<T> {
    /// Last in, first out.
    idle: Vec<T>,
    /// Idle or in use.
    open: u32,
}

impl<C: Connect> Pool<C> {
    /// Opens the connections that are kept.
    pub(super) fn open(connect: C) -> Result<Arc<Self>, C::Error> {
        let idle = (0..POOL_KEPT)
            .map(|_| connect.connect())
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Arc::new(Self {
            connect,
            state: Mutex::new(State {
                idle,
                open: POOL_KEPT,
            }),
            given_back: Condvar::new(),
        }))
    }

    /// An idle connection that still works, or a new one.
    pub(super) fn get(self: &Arc<Self>) -> Result<Pooled<C>, C::Error> {
        let deadline = Instant::now() + POOL_WAIT;
        let mut state = self.lock();
        loop {
            if let Some(mut connection) = state.idle.pop() {
                drop(state);
                if self.connect.is_alive(&mut connection) {
                    return Ok(Pooled {
                        pool: Arc::clone(self),
                        connection: Some(connection),
                    });
                }
                state = self.lock();
                state.open -= 1;
            } else if state.open < POOL_MAX {
                state.open += 1;
                drop(state);
                return match self.connect.connect() {
                    Ok(connection) => Ok(Pooled {
                        pool: Arc::clone(self),
                        connection: Some(connection),
                    }),
                    Err(error) => {
                        self.forget();
                        Err(error)
                    }
                };
            } else {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(self.connect.exhausted());
                }
                // Spurious and timed-out wake-ups both go round the loop.
                state = self
                    .given_back
                    .wait_timeout(state, left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
        }
    }

    /// Forgets the idle connections and opens a new one, for callers that found one of them closed
    /// by the server: the others are most likely closed too.
    pub(super) fn replace(self: &Arc<Self>) -> Result<Pooled<C>, C::Error> {
        let mut state = self.lock();
        let stale = std::mem::take(&mut state.idle);
        state.open -= u32::try_from(stale.len()).expect("never more than the pool keeps");
        drop(state);
        self.get()
    }

    /// The state stays consistent at every panic point, so a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, State<C::Connection>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self) {
        self.lock().open -= 1;
        self.given_back.notify_one();
    }

    fn give_back(&self, mut connection: C::Connection) {
        if !self.connect.is_reusable(&mut connection) {
            return self.forget();
        }
        let mut state = self.lock();
        if state.idle.len() < POOL_KEPT as usize {
            state.idle.push(connection);
            self.given_back.notify_one();
        } else {
            drop(state);
            self.forget();
        }
    }
}

/// A connection on loan.
pub(super) struct Pooled<C: Connect> {
    pool: Arc<Pool<C>>,
    /// Only `None` while it is dropped.
    connection: Option<C::Connection>,
}

impl<C: Connect> Deref for Pooled<C> {
    type Target = C::Connection;
    fn deref(&self) -> &Self::Target {
        self.connection.as_ref().expect("present until dropped")
    }
}

impl<C: Connect> DerefMut for Pooled<C> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.connection.as_mut().expect("present until dropped")
    }
}

impl<C: Connect> Drop for Pooled<C> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.give_back(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Numbers its connections; those in `dead` fail when tried.
    #[derive(Default)]
    struct Numbers {
        opened: AtomicU32,
        dead: Mutex<Vec<u32>>,
    }

    impl Connect for Numbers {
        type Connection = u32;
        type Error = &'static str;

        fn connect(&self) -> Result<u32, Self::Error> {
            Ok(self.opened.fetch_add(1, Ordering::Relaxed))
        }
        fn is_alive(&self, connection: &mut u32) -> bool {
            !self.dead.lock().expect("not poisoned").contains(connection)
        }
        fn is_reusable(&self, _: &mut u32) -> bool {
            true
        }
        fn exhausted(&self) -> Self::Error {
            "exhausted"
        }
    }

    #[test]
    fn keeps_ten_and_opens_ten_more_under_load() {
        let pool = Pool::open(Numbers::default()).expect("connects");
        let loans: Vec<_> = (0..20).map(|_| pool.get().expect("up to twenty")).collect();
        assert_eq!(pool.connect.opened.load(Ordering::Relaxed), 20);
        drop(loans);
        let state = pool.lock();
        assert_eq!((state.idle.len(), state.open), (10, 10));
    }

    #[test]
    fn the_last_one_given_back_is_the_next_one_out() {
        let pool = Pool::open(Numbers::default()).expect("connects");
        assert_eq!(*pool.get().expect("idle"), 9);
        assert_eq!(*pool.get().expect("idle"), 9);
    }

    #[test]
    fn dead_connections_are_replaced() {
        let pool = Pool::open(Numbers::default()).expect("connects");
        *pool.connect.dead.lock().expect("not poisoned") = (0..10).collect();
        assert_eq!(*pool.get().expect("a new one"), 10);
        assert_eq!(pool.lock().open, 1);
    }
}
