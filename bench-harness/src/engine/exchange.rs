//! One request and its answer, with the stamps that every published time is made of.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::task::coop;
use tokio::time::Sleep;
use unstall_results::record::ErrorKind;

use super::answer::Answer;
use super::connection::Connection;
use super::failure::Failure;
use super::stamps::SocketStamps;
use super::streamed::StreamReader;
use super::target::Target;
use super::transport::Phases;
use super::wire::Wire;

/// Bodies are kept for the check up to this size; what is longer is only counted.
const CHECKED_BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// So much of a body that isn't checked is kept for messages: they quote less, but take secrets
/// out of it before they cut it.
const QUOTED_BODY_BYTES_MAX: usize = 16 * 1024;

/// One user's way to the service: its connection, opened when it is needed.
pub(super) struct Client {
    target: Arc<Target>,
    connection: Option<Connection>,
    answer: Answer,
    stamps: SocketStamps,
    timer: Pin<Box<Sleep>>,
}

/// When things happened to one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamps {
    /// When it was let go: the user and what it needed were free.
    pub(super) released: Instant,
    /// When its first byte was written, if one was.
    pub(super) written: Option<Instant>,
    /// When the answer was complete, or the failure known.
    pub(super) ended: Instant,
    /// True if the service answered with a head at least: it is alive.
    pub(super) answered: bool,
    /// What it paid for a connection, if it opened one.
    pub(super) phases: Phases,
}

impl Stamps {
    /// Of a request that could not even be built.
    pub(super) fn unsent(now: Instant) -> Self {
        Self {
            released: now,
            written: None,
            ended: now,
            answered: false,
            phases: Phases::default(),
        }
    }
}

/// What is done with the body of an answer.
pub(super) enum Reading<'r> {
    /// Its beginning is kept, for messages; the rest is counted and let go.
    Counted,
    /// It is kept whole, for the check.
    Kept,
    /// It is read item by item, if the head is a stream's; else it is counted.
    Streamed(&'r mut StreamReader),
}

/// How far an exchange has come, for the case that its deadline ends it.
#[derive(Default)]
struct Reached {
    answered: bool,
    phases: Phases,
}

impl Client {
    pub(super) fn new(target: Arc<Target>, stamps: SocketStamps) -> Self {
        Self {
            target,
            connection: None,
            answer: Answer::default(),
            stamps,
            timer: Box::pin(tokio::time::sleep(Duration::from_secs(0))),
        }
    }

    /// Sends one request and reads its answer to the end, not beyond `timeout` after `intended`.
    /// After a success the answer is in [`Client::answer`].
    ///
    /// Opening a connection is part of the request. A failed connection is dropped; the
    /// next request opens another one.
    pub(super) async fn exchange(
        &mut self,
        wire: &Wire,
        reading: Reading<'_>,
        intended: Instant,
        timeout: Duration,
    ) -> (Stamps, Result<(), Failure>) {
        let released = Instant::now();
        self.stamps.written.arm();
        let is_streamed = matches!(reading, Reading::Streamed(_));
        self.stamps.reads.switch(is_streamed);
        self.answer.reset();
        let mut reached = Reached::default();
        let deadline = intended + timeout;
        let conversation = Conversation {
            target: &self.target,
            slot: &mut self.connection,
            stamps: &self.stamps,
            answer: &mut self.answer,
            reached: &mut reached,
        };
        let work = conversation.run(wire, reading);
        let outcome = before(self.timer.as_mut(), deadline, work)
            .await
            .unwrap_or_else(|| {
                Err(Failure::service(
                    ErrorKind::Timeout,
                    format!("no complete answer within {} ms", timeout.as_millis()),
                ))
            });
        let ended = Instant::now();
        if outcome.is_err() || self.answer.is_left {
            self.connection = None;
        }
        let stamps = Stamps {
            released,
            written: self.stamps.written.get(),
            ended,
            answered: reached.answered,
            phases: reached.phases,
        };
        (stamps, outcome)
    }

    /// The last answer, or as much of one as had come before it failed.
    pub(super) fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Nothing was asked, so nothing was answered.
    pub(super) fn forget_answer(&mut self) {
        self.answer.reset();
    }
}

/// What one exchange works on.
struct Conversation<'c> {
    target: &'c Target,
    slot: &'c mut Option<Connection>,
    stamps: &'c SocketStamps,
    answer: &'c mut Answer,
    reached: &'c mut Reached,
}

impl Conversation<'_> {
    /// Opens a connection if there is none, sends, reads.
    async fn run(mut self, wire: &Wire, reading: Reading<'_>) -> Result<(), Failure> {
        self.send(wire).await?;
        self.reached.answered = true;
        let connection = self.slot.as_mut().expect("it has just been used");
        read(connection, self.stamps, self.answer, reading).await
    }

    async fn send(&mut self, wire: &Wire) -> Result<(), Failure> {
        if let Some(idle) = self.slot.as_mut() {
            if idle.is_usable().await {
                match idle.send(wire, &mut self.answer.head).await {
                    Ok(()) => return Ok(()),
                    Err(failed) if !failed.is_unsent => return Err(failed.failure),
                    // The service closed the idle connection in this very moment, before anything
                    // was written: sending on a new one repeats nothing.
                    Err(_) => {}
                }
            }
            *self.slot = None;
        }
        let (connection, phases) = Connection::open(self.target, self.stamps).await?;
        self.reached.phases = phases;
        let connection = self.slot.insert(connection);
        let sent = connection.send(wire, &mut self.answer.head).await;
        sent.map_err(|failed| failed.failure)
    }
}

/// Reads the body to its end, so that the connection is free again.
async fn read(
    connection: &mut Connection,
    stamps: &SocketStamps,
    answer: &mut Answer,
    reading: Reading<'_>,
) -> Result<(), Failure> {
    let kept_bytes_max = match reading {
        Reading::Kept => CHECKED_BODY_BYTES_MAX,
        Reading::Streamed(reader) if reader.expects(&answer.head)? => {
            let read = reader.read(connection, &stamps.reads).await?;
            answer.body_bytes = read.body_bytes;
            answer.is_left = read.is_left;
            return Ok(());
        }
        Reading::Counted | Reading::Streamed(_) => QUOTED_BODY_BYTES_MAX,
    };
    while let Some(part) = connection.chunk().await? {
        answer.body_bytes += part.len() as u64;
        let room = kept_bytes_max - answer.body.len();
        if room < part.len() && kept_bytes_max == CHECKED_BODY_BYTES_MAX {
            return Err(Failure::service(
                ErrorKind::CheckFailed,
                format!(
                    "the body is longer than {CHECKED_BODY_BYTES_MAX} bytes, too long to check"
                ),
            ));
        }
        answer.body.extend_from_slice(&part[..part.len().min(room)]);
        // One read may bring thousands of tiny parts, and only reads yield by themselves.
        coop::consume_budget().await;
    }
    Ok(())
}

/// Runs `work` until `deadline`; `None` when that came first.
///
/// One timer per user is enough: it is moved only when it has fired early or
/// stands too late, so a request that ends in time costs no timer operation.
pub(super) async fn before<F: Future>(
    mut timer: Pin<&mut Sleep>,
    deadline: Instant,
    work: F,
) -> Option<F::Output> {
    let mut work = pin!(work);
    let deadline = tokio::time::Instant::from_std(deadline);
    poll_fn(move |cx| {
        if let Poll::Ready(output) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        expired(timer.as_mut(), deadline, cx).map(|()| None)
    })
    .await
}

fn expired(
    mut timer: Pin<&mut Sleep>,
    deadline: tokio::time::Instant,
    cx: &mut Context<'_>,
) -> Poll<()> {
    if timer.deadline() > deadline {
        timer.as_mut().reset(deadline);
    }
    // Even when the budget of this turn is spent: a peer that never pauses spends it always,
    // and a timer that had to keep to it would never fire.
    while pin!(coop::unconstrained(timer.as_mut()))
        .poll(cx)
        .is_ready()
    {
        if tokio::time::Instant::now() >= deadline {
            return Poll::Ready(());
        }
        timer.as_mut().reset(deadline);
    }
    Poll::Pending
}
