//! Streams at the start of the migration: a thread for each, however many there are, and between
//! it and its client a queue that takes whatever comes.
//!
//! From step 0 on streams share the pool of 40, and a queue holds 16 objects (`run_stream`).

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::thread;

use axum::body::Body;
use bytes::Bytes;
use http_body::Frame;
use tokio::sync::mpsc;

use crate::start_faults::StartFaults;
use crate::stores::streams::EVENTS_WAITING_MAX;
use crate::thread_slots::THREADS_MAX;

/// Where the reproduction stops being faithful and saves the machine: streams beyond so many
/// threads, and one whose client lets so many objects wait, just end.
const STREAM_THREADS_MAX: usize = 4096;
const OBJECTS_QUEUED_MAX: usize = 65_536;

/// Starts streams' threads, and counts those that are alive.
#[derive(Debug, Clone)]
pub struct StreamThreads {
    alive: Arc<AtomicUsize>,
    faults: StartFaults,
}

impl StreamThreads {
    /// None yet.
    #[must_use]
    pub fn new(faults: StartFaults) -> Self {
        Self {
            alive: Arc::default(),
            faults,
        }
    }

    /// A body of what `follow` sends from a thread of its own. It should return soon after it finds
    /// the flag set, which says that the client has left; then its thread ends.
    pub(crate) fn body(
        &self,
        follow: impl FnOnce(&AtomicBool, &mut dyn FnMut(Bytes)) + Send + 'static,
    ) -> Body {
        let (queue, objects) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared::default());
        let body = Objects {
            objects,
            shared: Arc::clone(&shared),
        };
        // Counted here, so that of many streams that begin at once each finds those before it.
        let alive = Alive::one_more(&self.alive);
        if alive.others >= THREADS_MAX {
            self.faults.stream_threads_beyond_pool.add(1);
        }
        if alive.others >= STREAM_THREADS_MAX {
            tracing::warn!("a stream ends at once: {STREAM_THREADS_MAX} threads of streams");
            return Body::new(body);
        }
        let faults = self.faults.clone();
        let thread = thread::Builder::new().name("stream".to_owned());
        let started = thread.spawn(move || {
            let _until_the_end = alive;
            follow(&shared.given_up, &mut |object| {
                send(&queue, &shared, &faults, object);
            });
        });
        if let Err(error) = started {
            tracing::warn!(%error, "a stream ends at once: there is no thread for it");
        }
        Body::new(body)
    }
}

/// Whatever waits already; nobody ever waits for a slow client.
fn send(
    queue: &mpsc::UnboundedSender<Bytes>,
    shared: &Shared,
    faults: &StartFaults,
    object: Bytes,
) {
    let waiting = shared.waiting.fetch_add(1, Relaxed);
    if waiting >= EVENTS_WAITING_MAX {
        faults.stream_objects_queued_beyond_bound.add(1);
    }
    // The receiver is gone once the client is: then the flag is set already.
    if waiting >= OBJECTS_QUEUED_MAX || queue.send(object).is_err() {
        shared.given_up.store(true, Relaxed);
    }
}

/// One more thread, until it is dropped.
struct Alive {
    count: Arc<AtomicUsize>,
    /// How many there were already.
    others: usize,
}

impl Alive {
    fn one_more(count: &Arc<AtomicUsize>) -> Self {
        Self {
            others: count.fetch_add(1, Relaxed),
            count: Arc::clone(count),
        }
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Relaxed);
    }
}

/// Between a stream's thread and its body.
#[derive(Debug, Default)]
struct Shared {
    /// Objects in the queue.
    waiting: AtomicUsize,
    given_up: AtomicBool,
}

/// A body that ends with its thread, or the other way round.
struct Objects {
    objects: mpsc::UnboundedReceiver<Bytes>,
    shared: Arc<Shared>,
}

impl http_body::Body for Objects {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = self.objects.poll_recv(context);
        if let Poll::Ready(Some(_)) = polled {
            self.shared.waiting.fetch_sub(1, Relaxed);
        }
        polled.map(|object| object.map(|bytes| Ok(Frame::data(bytes))))
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        self.shared.given_up.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    #[tokio::test]
    async fn a_queue_takes_whatever_comes_and_gives_it_all() {
        const OBJECTS: usize = 100;
        let faults = StartFaults::default();
        let (sent, mut all_sent) = mpsc::unbounded_channel();
        let body = StreamThreads::new(faults.clone()).body(move |_, send| {
            (0..OBJECTS).for_each(|n| send(Bytes::from(format!("{n};"))));
            sent.send(()).expect("the test listens");
        });
        all_sent.recv().await.expect("nobody keeps it waiting");
        let beyond = faults.stream_objects_queued_beyond_bound.value();
        assert_eq!(beyond, (OBJECTS - EVENTS_WAITING_MAX) as u64);
        let whole = to_bytes(body, usize::MAX).await.expect("whole");
        let expected: String = (0..OBJECTS).map(|n| format!("{n};")).collect();
        assert_eq!(whole, expected);
    }

    #[tokio::test]
    async fn a_stream_ends_before_its_queue_fills_the_machine() {
        let (sent, mut counted) = mpsc::unbounded_channel();
        let threads = StreamThreads::new(StartFaults::default());
        let body = threads.body(move |given_up, send| {
            let mut objects = 0;
            while !given_up.load(Relaxed) {
                send(Bytes::from_static(b"x"));
                objects += 1;
            }
            sent.send(objects).expect("the test listens");
        });
        let objects: usize = counted.recv().await.expect("it is told to end");
        assert_eq!(objects, OBJECTS_QUEUED_MAX + 1);
        let whole = to_bytes(body, usize::MAX).await.expect("whole");
        assert_eq!(whole.len(), OBJECTS_QUEUED_MAX, "what was queued arrives");
    }

    #[tokio::test]
    async fn a_client_that_leaves_is_told_to_its_thread() {
        let (ended, mut end) = mpsc::unbounded_channel();
        let threads = StreamThreads::new(StartFaults::default());
        let body = threads.body(move |given_up, _| {
            while !given_up.load(Relaxed) {
                thread::yield_now();
            }
            ended.send(()).expect("the test listens");
        });
        drop(body);
        end.recv().await.expect("its thread ends");
    }
}
