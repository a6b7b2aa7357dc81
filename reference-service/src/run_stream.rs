//! A run's answer on its way to a client: followed on a thread of the pool or, after step 6, on
//! none; sent as a body of JSON objects or gathered into one.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::Frame;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::refusal::Refusal;
use crate::run::{Run, RunStatus};
use crate::stores::streams::{EVENTS_WAITING_MAX, Following, Reading, StreamReader, report};
use crate::stream_event::{Answer, Event};
use crate::thread_slots::ThreadSlots;

/// Who shares the pool follows a run to its end, whoever leaves.
static NEVER: AtomicBool = AtomicBool::new(false);

/// Follows runs.
#[derive(Clone)]
pub struct RunStreams {
    /// How streams are read.
    pub reading: Reading,
    /// How long a stream may say nothing before its worker is taken for dead, and how long a
    /// client may take to accept an object.
    pub idle_max: Duration,
}

impl RunStreams {
    /// A body of JSON objects, one after the other with nothing between: an empty one when the
    /// run is queued, then the pieces of the answer. Whatever happens, it just ends: the API
    /// has no errors inside a stream.
    pub fn body(&self, run: Run, cursor: Option<String>) -> Body {
        match &self.reading {
            Reading::OnThread(reader, slots) => self.thread(reader, slots).body(run, cursor),
            Reading::OnThreadOfItsOwn(reader, slots, threads) => {
                let thread = self.thread(reader, slots);
                threads.body(move |given_up, send| {
                    thread.follow(&run, cursor.as_deref(), given_up, |event| {
                        if let Some(answer) = event.answer() {
                            send(Bytes::from(answer.to_json()));
                        }
                    });
                })
            }
            Reading::OnLoop(reader) => {
                let following = reader.follow(&run, cursor.as_deref(), self.idle_max);
                Body::new(Pieces { following })
            }
        }
    }

    /// The whole answer, once the run has ended: also what was said until somebody stopped it.
    ///
    /// # Errors
    /// [`Refusal::RunFailed`] if it ended in any other way.
    pub async fn whole(&self, run: Run) -> Result<Answer, Refusal> {
        let mut whole = Whole::default();
        match &self.reading {
            Reading::OnThread(reader, slots) | Reading::OnThreadOfItsOwn(reader, slots, _) => {
                whole = self.thread(reader, slots).whole(run).await?;
            }
            Reading::OnLoop(reader) => {
                let mut following = reader.follow(&run, None, self.idle_max);
                while let Some(event) = following.next().await {
                    whole.add(event);
                }
            }
        }
        match whole.end {
            Some(RunStatus::Completed | RunStatus::Cancelled) => Ok(whole.answer),
            _ => Err(Refusal::RunFailed),
        }
    }

    fn thread(&self, reader: &Arc<dyn StreamReader>, slots: &ThreadSlots) -> StreamThread {
        StreamThread {
            reader: Arc::clone(reader),
            slots: slots.clone(),
            idle_max: self.idle_max,
        }
    }
}

/// A whole answer in the making.
#[derive(Default)]
struct Whole {
    answer: Answer,
    end: Option<RunStatus>,
}

impl Whole {
    fn add(&mut self, event: Event) {
        match event {
            Event::Chunk(piece) => self.answer.add(piece),
            Event::End(status) => self.end = Some(status),
            Event::Queued | Event::Start => (),
        }
    }
}

/// A run followed on a thread.
struct StreamThread {
    reader: Arc<dyn StreamReader>,
    slots: ThreadSlots,
    idle_max: Duration,
}

impl StreamThread {
    /// A client that goes away doesn't stop the thread: it stays with the run until that
    /// ends, as the original's does. One that goes away while it waits for a slot takes none.
    fn body(self, run: Run, cursor: Option<String>) -> Body {
        let (sender, receiver) = mpsc::channel(EVENTS_WAITING_MAX);
        tokio::spawn(async move {
            let slot = tokio::select! {
                slot = self.slots.take() => slot,
                () = sender.closed() => return,
            };
            let mut client = Client {
                sender: Some(sender),
                patience: self.idle_max,
                runtime: Handle::current(),
            };
            tokio::task::spawn_blocking(move || {
                self.follow(&run, cursor.as_deref(), &NEVER, |event| {
                    if let Some(answer) = event.answer() {
                        client.send(Bytes::from(answer.to_json()));
                    }
                });
                drop(slot);
            });
        });
        Body::new(Objects { receiver })
    }

    async fn whole(self, run: Run) -> Result<Whole, Refusal> {
        let slot = self.slots.take().await;
        let gathered = tokio::task::spawn_blocking(move || {
            let mut whole = Whole::default();
            self.follow(&run, None, &NEVER, |event| whole.add(event));
            drop(slot);
            whole
        });
        gathered.await.map_err(|error| {
            tracing::error!(%error, "a stream's thread failed");
            Refusal::RunFailed
        })
    }

    fn follow(
        &self,
        run: &Run,
        cursor: Option<&str>,
        given_up: &AtomicBool,
        mut on_event: impl FnMut(Event),
    ) {
        let followed = self
            .reader
            .follow(run, cursor, self.idle_max, given_up, &mut on_event);
        report(&run.stream_key(), &followed);
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

/// A body of a run that no thread follows: dropped with its client, it is followed no longer.
struct Pieces {
    following: Following,
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        while let Some(event) = ready!(self.following.poll_next(context)) {
            if let Some(answer) = event.answer() {
                return Poll::Ready(Some(Ok(Frame::data(Bytes::from(answer.to_json())))));
            }
        }
        Poll::Ready(None)
    }
}
