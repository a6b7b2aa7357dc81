//! A run's answer on its way to a client: followed on a thread of the pool, sent as a body of
//! JSON objects or gathered into one.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::Frame;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::refusal::Refusal;
use crate::run::{Run, RunStatus};
use crate::stores::StoreError;
use crate::stores::streams::{Followed, StreamReader};
use crate::stream_event::{Answer, Event};
use crate::stream_threads::StreamThreads;
use crate::thread_slots::ThreadSlots;

/// Objects that may wait for a slow client.
pub(crate) const OBJECTS_WAITING_MAX: usize = 16;
/// From step 0 on nobody gives a stream up.
static NEVER: AtomicBool = AtomicBool::new(false);

/// Follows runs.
#[derive(Clone)]
pub struct RunStreams {
    /// How streams are read.
    pub reader: Arc<dyn StreamReader>,
    /// Where.
    pub slots: ThreadSlots,
    /// Where streams that somebody watches are read instead, before step 0.
    pub own_threads: Option<StreamThreads>,
    /// How long a stream may say nothing before its worker is taken for dead, and how long a
    /// client may take to accept an object.
    pub idle_max: Duration,
}

impl RunStreams {
    /// A body of JSON objects, one after the other with nothing between: an empty one when the
    /// run is queued, then the pieces of the answer. Whatever happens, it just ends: the API
    /// has no errors inside a stream.
    ///
    /// A client that goes away doesn't stop the thread: it stays with the run until that
    /// ends, as the original's does. One that goes away while it waits for a slot takes none.
    /// Before step 0 the thread is the stream's own, and ends when its client leaves.
    pub fn body(&self, run: Run, cursor: Option<String>) -> Body {
        let streams = self.clone();
        if let Some(threads) = &self.own_threads {
            return threads.body(move |given_up, send| {
                let followed = streams.follow(&run, cursor.as_deref(), given_up, |event| {
                    if let Some(answer) = event.answer() {
                        send(Bytes::from(answer.to_json()));
                    }
                });
                report(&run, &followed);
            });
        }
        let (sender, receiver) = mpsc::channel(OBJECTS_WAITING_MAX);
        tokio::spawn(async move {
            let slot = tokio::select! {
                slot = streams.slots.take() => slot,
                () = sender.closed() => return,
            };
            let mut client = Client {
                sender: Some(sender),
                patience: streams.idle_max,
                runtime: Handle::current(),
            };
            tokio::task::spawn_blocking(move || {
                let followed = streams.follow(&run, cursor.as_deref(), &NEVER, |event| {
                    if let Some(answer) = event.answer() {
                        client.send(Bytes::from(answer.to_json()));
                    }
                });
                report(&run, &followed);
                drop(slot);
            });
        });
        Body::new(Objects { receiver })
    }

    /// The whole answer, once the run has ended: also what was said until somebody stopped it.
    ///
    /// # Errors
    /// [`Refusal::RunFailed`] if it ended in any other way.
    pub async fn whole(&self, run: Run) -> Result<Answer, Refusal> {
        let slot = self.slots.take().await;
        let streams = self.clone();
        let gathered = tokio::task::spawn_blocking(move || {
            let mut whole = Answer::default();
            let mut end = None;
            let followed = streams.follow(&run, None, &NEVER, |event| match event {
                Event::Chunk(piece) => whole.add(piece),
                Event::End(status) => end = Some(status),
                Event::Queued | Event::Start => (),
            });
            report(&run, &followed);
            drop(slot);
            (whole, end)
        });
        match gathered.await {
            Ok((whole, Some(RunStatus::Completed | RunStatus::Cancelled))) => Ok(whole),
            Ok(_) => Err(Refusal::RunFailed),
            Err(error) => {
                tracing::error!(%error, "a stream's thread failed");
                Err(Refusal::RunFailed)
            }
        }
    }

    fn follow(
        &self,
        run: &Run,
        cursor: Option<&str>,
        given_up: &AtomicBool,
        mut on_event: impl FnMut(Event),
    ) -> Result<Followed, StoreError> {
        self.reader
            .follow(run, cursor, self.idle_max, given_up, &mut on_event)
    }
}

/// The client sees a plain end; why is for the log.
fn report(run: &Run, followed: &Result<Followed, StoreError>) {
    let stream = run.stream_key();
    match followed {
        Ok(Followed::ToItsEnd | Followed::GivenUp) => (),
        Ok(Followed::Gone) => tracing::info!(stream, "the stream is gone"),
        Ok(Followed::Idle) => tracing::warn!(stream, "the stream is idle: is a worker running?"),
        Err(error) => tracing::warn!(stream, %error, "the stream can't be read"),
    }
}

/// A thread's side of the body.
struct Client {
    /// `None` once the client is gone.
    sender: Option<mpsc::Sender<Bytes>>,
    patience: Duration,
    runtime: Handle,
}

impl Client {
    /// Waits while the client is slow, but not for ever.
    fn send(&mut self, object: Bytes) {
        let Some(sender) = &self.sender else {
            return;
        };
        let sent = match sender.try_send(object) {
            Ok(()) => true,
            Err(TrySendError::Closed(_)) => false,
            Err(TrySendError::Full(object)) => self
                .runtime
                .block_on(async { sender.send_timeout(object, self.patience).await })
                .is_ok(),
        };
        if !sent {
            self.sender = None;
        }
    }
}

/// A body that ends when its thread lets go.
struct Objects {
    receiver: mpsc::Receiver<Bytes>,
}

impl http_body::Body for Objects {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.receiver
            .poll_recv(context)
            .map(|object| object.map(|bytes| Ok(Frame::data(bytes))))
    }
}
