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
use crate::stream_threads::StreamThreads;
use crate::thread_slots::ThreadSlots;

mod auth;
pub(crate) mod notifier;
pub(crate) mod redis;
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

    /// The slots that it shares.
    #[must_use]
    pub fn slots(&self) -> &ThreadSlots {
        &self.slots
    }

    /// Threads for streams beside the pool, whose faults count with those of the calls.
    #[must_use]
    pub fn stream_threads(&self) -> StreamThreads {
        StreamThreads::new(self.faults.clone())
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
fn at_once<R>(call: impl Future<Output = R>) -> R {
    let mut call = pin!(call);
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("a blocking call waits on its thread, for nobody to wake it"),
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::thread_slots::THREADS_MAX;

    fn pool() -> CallPool {
        CallPool::new(ThreadSlots::new(), StartFaults::default())
    }

    #[tokio::test]
    async fn a_call_is_made_on_another_thread_and_a_session_carried_there_is_counted() {
        let pool = pool();
        let here = thread::current().id();
        let elsewhere = async move |text: &str| (text.len(), thread::current().id() != here);
        let without: OnThreads<str> = OnThreads::new("four".into(), &pool);
        assert_eq!(without.call(elsewhere).await, (4, true));
        assert_eq!(pool.faults.sessions_used_on_other_threads.value(), 0);
        let with: OnThreads<str> = OnThreads::in_sessions("four".into(), &pool);
        assert_eq!(with.call(elsewhere).await, (4, true));
        assert_eq!(pool.faults.sessions_used_on_other_threads.value(), 1);
        assert_eq!(pool.faults.store_calls_queued_for_pool.value(), 0);
    }

    #[tokio::test]
    async fn a_call_that_panics_panics_where_it_is_awaited_and_frees_its_slot() {
        let pool = pool();
        let store: OnThreads<str> = OnThreads::new("x".into(), &pool);
        let call = store.call::<()>(async |_| panic!("as in the store"));
        let panicked = tokio::spawn(call).await.expect_err("it panics");
        let panic = panicked.into_panic();
        assert_eq!(panic.downcast_ref(), Some(&"as in the store"));
        let slots: Vec<_> = (0..THREADS_MAX)
            .map_while(|_| pool.slots.take_free())
            .collect();
        assert_eq!(slots.len(), THREADS_MAX);
    }

    #[tokio::test]
    async fn who_leaves_while_the_pool_is_full_has_asked_for_nothing() {
        let pool = pool();
        let (asked, mut seen) = mpsc::unbounded_channel();
        let mut slots: Vec<_> = (0..THREADS_MAX)
            .map_while(|_| pool.slots.take_free())
            .collect();
        let store: OnThreads<str> = OnThreads::new("x".into(), &pool);
        let mut call = store.call(async move |_| asked.send(()).expect("the test listens"));
        let mut context = Context::from_waker(Waker::noop());
        assert!(call.as_mut().poll(&mut context).is_pending());
        assert_eq!(pool.faults.store_calls_queued_for_pool.value(), 1);
        drop(call);
        slots.clear();
        store.call(async |_| ()).await;
        assert_eq!(seen.recv().await, None::<()>, "the call is gone");
    }

    #[tokio::test]
    async fn what_is_held_goes_along_and_is_dropped_on_a_thread() {
        /// Tells on which thread it is dropped.
        struct Told(mpsc::UnboundedSender<ThreadId>);
        impl Drop for Told {
            fn drop(&mut self) {
                self.0
                    .send(thread::current().id())
                    .expect("the test listens");
            }
        }
        let (told, mut dropped) = mpsc::unbounded_channel();
        let mut held = HeldOnThreads::new(Box::new(Told(told)), pool());
        let used_on = held.call(async |_| thread::current().id()).await;
        assert_ne!(used_on, thread::current().id());
        drop(held);
        let dropped_on = dropped.recv().await.expect("it is dropped");
        assert_ne!(dropped_on, thread::current().id());
    }
}
