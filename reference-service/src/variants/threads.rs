//! The start of the migration: the blocking variant, called on threads of the pool of 40.
//!
//! It is what wrapping each call in `asyncio.to_thread` made of the service that is migrated. The
//! loop never blocks, and pays for it: every call takes one of the 40 threads that streams and
//! sessions need too, and carries its request's database session over to it.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

use tokio::runtime::Handle;

use crate::start_faults::StartFaults;
use crate::thread_slots::ThreadSlots;

mod auth;
pub(crate) mod notifier;
pub(crate) mod redis;
mod search;
mod service_client;
pub(crate) mod sql;
pub(crate) mod streams;

/// A call's result, once a thread has made it.
pub(crate) type CallFuture<'a, R> = Pin<Box<dyn Future<Output = R> + Send + 'a>>;

/// The pool as calls use it.
#[derive(Debug, Clone)]
pub struct CallPool {
    slots: ThreadSlots,
    faults: StartFaults,
}

impl CallPool {
    /// Calls take slots of the pool that streams and sessions take theirs of.
    #[must_use]
    pub fn new(slots: ThreadSlots, faults: StartFaults) -> Self {
        Self { slots, faults }
    }

    /// Waits for a slot and does the work on a thread. A caller who leaves before has asked for
    /// nothing; one who leaves later lets it go on to its end, as nothing can stop a thread.
    async fn run<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> R {
        let slot = match self.slots.take_free() {
            Some(slot) => slot,
            None => {
                self.faults.store_calls_queued_for_pool.add(1);
                self.slots.take().await
            }
        };
        let job = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(slot);
            done
        });
        match job.await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                // As if the call had been made here.
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends before a thread began, and so does whoever waits here.
                Err(_cancelled) => std::future::pending().await,
            },
        }
    }
}

/// A blocking store, or client, whose calls are made on threads.
pub(crate) struct OnThreads<S: ?Sized> {
    inner: Arc<S>,
    pool: CallPool,
    /// Whether each call needs a database session.
    has_sessions: bool,
}

impl<S: ?Sized + Send + Sync + 'static> OnThreads<S> {
    /// One that needs no database session.
    pub(crate) fn new(inner: Arc<S>, pool: &CallPool) -> Self {
        Self {
            inner,
            pool: pool.clone(),
            has_sessions: false,
        }
    }

    /// One in PostgreSQL: its session is opened where the call is asked for, and used where it is
    /// made.
    pub(crate) fn in_sessions(inner: Arc<S>, pool: &CallPool) -> Self {
        Self {
            has_sessions: true,
            ..Self::new(inner, pool)
        }
    }

    /// Makes a call on a thread. What it takes must be its own: it may outlive who asks.
    pub(crate) fn call<'a, R: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(&S) -> R + Send + 'static,
    ) -> CallFuture<'a, R> {
        let inner = Arc::clone(&self.inner);
        let pool = self.pool.clone();
        let has_sessions = self.has_sessions;
        Box::pin(async move {
            let session = has_sessions.then(Session::open);
            let faults = pool.faults.clone();
            pool.run(move || {
                if session.is_some_and(|session| !session.is_of_this_thread()) {
                    faults.sessions_used_on_other_threads.add(1);
                }
                at_once(work(&inner))
            })
            .await
        })
    }
}

/// A database session as the original's library has it: it belongs to the thread that opened it,
/// and takes a connection when it is first used. Nothing goes wrong here when another thread does:
/// one at a time has it, as ownership makes sure.
#[derive(Debug, Clone, Copy)]
struct Session {
    opened_on: ThreadId,
}

impl Session {
    fn open() -> Self {
        Self {
            opened_on: thread::current().id(),
        }
    }

    fn is_of_this_thread(self) -> bool {
        self.opened_on == thread::current().id()
    }
}

/// What a request holds between its calls, such as a connection: each call takes it along to a
/// thread and back.
pub(crate) struct HeldOnThreads<T: ?Sized + Send + 'static> {
    /// On a thread while a call is made; for good if nobody waits for that call's end.
    held: Option<Box<T>>,
    pool: CallPool,
}

impl<T: ?Sized + Send + 'static> HeldOnThreads<T> {
    fn new(held: Box<T>, pool: CallPool) -> Self {
        Self {
            held: Some(held),
            pool,
        }
    }

    /// Makes a call on a thread. What it takes must be its own: it may outlive who asks.
    pub(crate) fn call<'a, R: Send + 'static>(
        &'a mut self,
        work: impl AsyncFnOnce(&mut T) -> R + Send + 'static,
    ) -> CallFuture<'a, R> {
        Box::pin(async move {
            let mut held = self.held.take().expect("one call follows the other");
            let (held, result) = self
                .pool
                .run(move || {
                    let result = at_once(work(&mut held));
                    (held, result)
                })
                .await;
            self.held = Some(held);
            result
        })
    }
}

impl<T: ?Sized + Send + 'static> Drop for HeldOnThreads<T> {
    /// Closing a connection is a call, too.
    fn drop(&mut self) {
        let Some(held) = self.held.take() else {
            return;
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(held))),
            Err(_no_loop_to_block) => drop(held),
        }
    }
}

/// What the blocking variant promises has happened once it has been asked for.
pub(super) fn at_once<R>(call: impl Future<Output = R>) -> R {
    let mut call = pin!(call);
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("a blocking call waits on its thread, for nobody to wake it"),
    }
}
