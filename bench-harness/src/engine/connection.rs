//! One user's own connection: hyper's HTTP/1.1 client, driven by the task that uses it.
//!
//! A shared pool would retry silently and hide which request paid for a new
//! connection; a driver task of its own would cost a wake-up per request. So
//! the connection is polled together with the future that waits for it, and
//! the socket is wrapped to stamp the moment of the first written byte.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::failure::Failure;
use super::stream_times::ReadMark;
use super::target::Target;
use super::turns;

/// When the first byte of the current request was written, shared with the socket.
#[derive(Debug, Clone, Default)]
pub(super) struct WriteStamp(Rc<Cell<Option<Instant>>>);

impl WriteStamp {
    /// Forgets the stamp: a request is about to be sent.
    pub(super) fn arm(&self) {
        self.0.set(None);
    }

    /// The stamp, if a byte was written since [`WriteStamp::arm`].
    pub(super) fn get(&self) -> Option<Instant> {
        self.0.get()
    }

    /// Runs a write and stamps its beginning if it wrote anything and nothing did before.
    fn around(&self, write: impl FnOnce() -> Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if self.0.get().is_some() {
            return write();
        }
        let begun = Instant::now();
        let result = write();
        if matches!(result, Poll::Ready(Ok(written)) if written > 0) {
            self.0.set(Some(begun));
        }
        result
    }
}

/// The last read of a user's connection, shared with the socket: whatever items it brought
/// have its time. Off unless a stream is read, because nobody else asks.
#[derive(Debug, Clone, Default)]
pub(super) struct ReadStamp(Rc<Reads>);

#[derive(Debug, Default)]
struct Reads {
    is_on: Cell<bool>,
    number: Cell<u64>,
    at: Cell<Option<Instant>>,
    lateness: Cell<Duration>,
    first_meaningful: Cell<Option<Instant>>,
}

impl ReadStamp {
    /// Switches the stamp for the request that is about to be sent.
    pub(super) fn switch(&self, is_on: bool) {
        self.0.is_on.set(is_on);
        self.0.first_meaningful.set(None);
    }

    /// Keeps when the stream's first meaningful item came, for the case that the block ends
    /// before the stream does.
    pub(super) fn keep_first_meaningful(&self, at: Option<Instant>) {
        self.0.first_meaningful.set(at);
    }

    /// When the present stream's first meaningful item came, if it did.
    pub(super) fn first_meaningful(&self) -> Option<Instant> {
        self.0.first_meaningful.get()
    }

    /// The last read.
    pub(super) fn last(&self) -> ReadMark {
        ReadMark {
            number: self.0.number.get(),
            at: self.0.at.get().unwrap_or_else(Instant::now),
            lateness: self.0.lateness.get(),
        }
    }

    fn stamp(&self) {
        if self.0.is_on.get() {
            self.0.number.set(self.0.number.get() + 1);
            let now = Instant::now();
            self.0.at.set(Some(now));
            // Now, because what it brought may be looked at in a later turn.
            self.0.lateness.set(turns::lateness(now));
        }
    }
}

/// What the socket stamps.
#[derive(Debug, Clone, Default)]
pub(super) struct SocketStamps {
    /// The request's first written byte.
    pub(super) written: WriteStamp,
    /// The answer's reads.
    pub(super) reads: ReadStamp,
}

/// The socket, with its stamps.
struct StampedStream {
    stream: TokioIo<TcpStream>,
    stamps: SocketStamps,
}

impl Read for StampedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            self.stamps.reads.stamp();
        }
        read
    }
}

impl Write for StampedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stamp = self.stamps.written.clone();
        stamp.around(|| Pin::new(&mut self.stream).poll_write(cx, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stamp = self.stamps.written.clone();
        stamp.around(|| Pin::new(&mut self.stream).poll_write_vectored(cx, slices))
    }
}

type Driver = http1::Connection<StampedStream, Full<Bytes>>;

/// An open connection.
pub(super) struct Connection {
    /// Takes requests; only useful inside [`Connection::drive`].
    pub(super) sender: SendRequest<Full<Bytes>>,
    driver: Option<Driver>,
}

impl Connection {
    /// Resolves, connects and prepares HTTP.
    pub(super) async fn open(target: &Target, stamps: &SocketStamps) -> Result<Self, Failure> {
        let stream = connect(target).await?;
        // Small requests must leave at once; a socket without it measures Nagle's algorithm.
        stream
            .set_nodelay(true)
            .map_err(|error| Failure::lost(&error))?;
        let io = StampedStream {
            stream: TokioIo::new(stream),
            stamps: stamps.clone(),
        };
        let (sender, driver) = http1::handshake(io)
            .await
            .map_err(|error| Failure::exchanging(&error))?;
        Ok(Self {
            sender,
            driver: Some(driver),
        })
    }

    /// Runs `future`, which waits for this connection, and the connection itself.
    pub(super) async fn drive<F: Future>(driver: &mut Driving<'_>, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            driver.poll(cx);
            // All that `future` waits for comes out of the line above, in this very task: it
            // needs no waker, and a real one would only cause a needless second poll.
            let mut nobody = Context::from_waker(Waker::noop());
            future.as_mut().poll(&mut nobody)
        })
        .await
    }

    /// The halves, borrowed apart: what takes requests, and what has to be driven.
    pub(super) fn split(&mut self) -> (&mut SendRequest<Full<Bytes>>, Driving<'_>) {
        (&mut self.sender, Driving(&mut self.driver))
    }

    /// Lets the connection notice what happened while it was idle; true if it can be used.
    pub(super) async fn is_usable(&mut self) -> bool {
        poll_fn(|cx| {
            Driving(&mut self.driver).poll(cx);
            Poll::Ready(self.driver.is_some() && !self.sender.is_closed())
        })
        .await
    }
}

/// The driven half of a [`Connection`]; `None` once it has ended.
pub(super) struct Driving<'a>(&'a mut Option<Driver>);

impl Driving<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(driver) = self.0.as_mut()
            // An error of the driver also reaches the future that waits for the answer.
            && Pin::new(driver).poll(cx).is_ready()
        {
            *self.0 = None;
        }
    }
}

/// Connects to the first address that accepts.
async fn connect(target: &Target) -> Result<TcpStream, Failure> {
    if let Some(address) = target.literal_address() {
        return TcpStream::connect(address)
            .await
            .map_err(|error| Failure::connecting(&error));
    }
    let addresses = tokio::net::lookup_host((target.host(), target.port()))
        .await
        .map_err(|error| Failure::resolving(target.host(), &error))?;
    let mut last = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(Failure::connecting(&error)),
        }
    }
    Err(last.unwrap_or_else(|| {
        Failure::resolving(
            target.host(),
            &io::Error::new(io::ErrorKind::NotFound, "the name has no address"),
        )
    }))
}
