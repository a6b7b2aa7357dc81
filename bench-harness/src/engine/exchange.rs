//! One request and its answer, with the stamps that every published time is made of.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::http::{HeaderMap, Request, Response};
use tokio::task::coop;
use tokio::time::Sleep;
use unstall_results::record::ErrorKind;

use super::connection::{Connection, SocketStamps};
use super::failure::Failure;
use super::streamed::StreamReader;
use super::target::Target;

/// Bodies are kept for the check up to this size; what is longer is only counted.
const CHECKED_BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One user's way to the service: its connection, opened when it is needed.
pub(super) struct Client {
    target: Arc<Target>,
    connection: Option<Connection>,
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
}

impl Stamps {
    /// Of a request that could not even be built.
    pub(super) fn unsent(now: Instant) -> Self {
        Self {
            released: now,
            written: None,
            ended: now,
            answered: false,
        }
    }
}

/// A complete answer, or as much of a stream as the scenario wants.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    /// Whole if that was asked for, else its first part.
    pub(super) body: Bytes,
    pub(super) body_bytes: u64,
    /// There may be more of it, which nobody wants: the connection is of no use any more.
    is_left: bool,
}

/// What is done with the body of an answer.
pub(super) enum Reading<'r> {
    /// Its first part is kept, for messages; the rest is counted and let go.
    Counted,
    /// It is kept whole, for the check.
    Kept,
    /// It is read item by item, if the head is a stream's; else it is counted.
    Streamed(&'r mut StreamReader),
}

impl Client {
    pub(super) fn new(target: Arc<Target>, stamps: SocketStamps) -> Self {
        Self {
            target,
            connection: None,
            stamps,
            timer: Box::pin(tokio::time::sleep(Duration::from_secs(0))),
        }
    }

    /// Sends one request and reads its answer to the end, not beyond `timeout` after `intended`.
    ///
    /// Opening a connection is part of the request. A failed connection is dropped; the
    /// next request opens another one.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        reading: Reading<'_>,
        intended: Instant,
        timeout: Duration,
    ) -> (Stamps, Result<Answer, Failure>) {
        let released = Instant::now();
        self.stamps.written.arm();
        let is_streamed = matches!(reading, Reading::Streamed(_));
        self.stamps.reads.switch(is_streamed);
        let mut answered = false;
        let deadline = intended + timeout;
        let Self {
            target,
            connection,
            stamps,
            timer,
        } = self;
        let work = converse(target, connection, stamps, request, reading, &mut answered);
        let outcome = before(timer.as_mut(), deadline, work)
            .await
            .unwrap_or_else(|| {
                Err(Failure::service(
                    ErrorKind::Timeout,
                    format!("no complete answer within {} ms", timeout.as_millis()),
                ))
            });
        let ended = Instant::now();
        if outcome.as_ref().map_or(true, |answer| answer.is_left) {
            self.connection = None;
        }
        let stamps = Stamps {
            released,
            written: self.stamps.written.get(),
            ended,
            answered,
        };
        (stamps, outcome)
    }
}

/// Opens a connection if there is none, sends, reads.
async fn converse(
    target: &Target,
    slot: &mut Option<Connection>,
    stamps: &SocketStamps,
    request: Request<Full<Bytes>>,
    reading: Reading<'_>,
    answered: &mut bool,
) -> Result<Answer, Failure> {
    if let Some(idle) = slot.as_mut()
        && !idle.is_usable().await
    {
        *slot = None;
    }
    let reused = slot.is_some();
    let mut request = request;
    if reused {
        let connection = slot.as_mut().expect("it is there, as just seen");
        match send(connection, request).await {
            Ok(response) => {
                *answered = true;
                return read(connection, stamps, response, reading).await;
            }
            // The service closed the idle connection in this very moment and nothing was
            // written: sending on a new one repeats nothing.
            Err((_, Some(unsent))) if stamps.written.get().is_none() => request = unsent,
            Err((failure, _)) => return Err(failure),
        }
    }
    let connection = slot.insert(Connection::open(target, stamps).await?);
    let response = send(connection, request)
        .await
        .map_err(|(failure, _)| failure)?;
    *answered = true;
    read(connection, stamps, response, reading).await
}

type Unsent = Option<Request<Full<Bytes>>>;

/// Sends and waits for the head of the final answer; 1xx ones are passed over by hyper.
async fn send(
    connection: &mut Connection,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, (Failure, Unsent)> {
    let (sender, mut driving) = connection.split();
    let head = sender.try_send_request(request);
    Connection::drive(&mut driving, head)
        .await
        .map_err(|mut error| {
            let unsent = error.take_message();
            (Failure::exchanging(error.error()), unsent)
        })
}

/// Reads the body to its end, so that the connection is free again.
async fn read(
    connection: &mut Connection,
    stamps: &SocketStamps,
    response: Response<Incoming>,
    reading: Reading<'_>,
) -> Result<Answer, Failure> {
    let (head, mut body) = response.into_parts();
    let (_, mut driving) = connection.split();
    let keep_body = match reading {
        Reading::Kept => true,
        Reading::Streamed(reader) if reader.expects(&head)? => {
            let read = reader.read(&mut driving, body, &stamps.reads).await?;
            return Ok(Answer {
                status: head.status.as_u16(),
                headers: head.headers,
                body: Bytes::new(),
                body_bytes: read.body_bytes,
                is_left: read.is_left,
            });
        }
        Reading::Counted | Reading::Streamed(_) => false,
    };
    let mut kept = Kept::default();
    let mut body_bytes = 0_u64;
    while let Some(frame) = Connection::drive(&mut driving, body.frame()).await {
        // One read may bring thousands of tiny frames, and only reads yield by themselves.
        coop::consume_budget().await;
        let frame = frame.map_err(|error| Failure::exchanging(&error))?;
        if let Ok(data) = frame.into_data() {
            body_bytes += data.len() as u64;
            if keep_body || body_bytes == data.len() as u64 {
                kept.push(data)?;
            }
        }
    }
    Ok(Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        body: kept.into_bytes(),
        body_bytes,
        is_left: false,
    })
}

/// A body for the check: without a copy when it came in one piece, as most do.
#[derive(Default)]
struct Kept {
    first: Bytes,
    rest: Vec<u8>,
}

impl Kept {
    fn push(&mut self, data: Bytes) -> Result<(), Failure> {
        if self.first.is_empty() && self.rest.is_empty() {
            self.first = data;
            return Ok(());
        }
        if self.rest.is_empty() {
            self.rest.extend_from_slice(&self.first);
        }
        if self.rest.len() + data.len() > CHECKED_BODY_BYTES_MAX {
            return Err(Failure::service(
                ErrorKind::CheckFailed,
                format!(
                    "the body is longer than {CHECKED_BODY_BYTES_MAX} bytes, too long to check"
                ),
            ));
        }
        self.rest.extend_from_slice(&data);
        Ok(())
    }

    fn into_bytes(self) -> Bytes {
        if self.rest.is_empty() {
            self.first
        } else {
            self.rest.into()
        }
    }
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
