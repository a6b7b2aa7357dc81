//! One user's HTTP/1.1 connection: writes prepared bytes, reads into one buffer that it keeps, and
//! lends parts of it.
//!
//! No task, channel, lock or allocation per request: where the request fits into the socket and
//! the answer into the buffer, one exchange is one write and one read.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::answer::Head;
use super::connection::SendFailure;
use super::failure::Failure;
use super::http1_body::Body;
use super::http1_head::{self, Parsed};
use super::stamps::SocketStamps;
use super::transport::Transport;
use super::wire::Wire;

/// Enough for most answers; thousands of users have one each.
const BUFFER_BYTES_MIN: usize = 8 * 1024;
/// Up to here the buffer grows while reads fill it, since each read costs a call.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// An open connection.
pub(super) struct Http1 {
    socket: Socket,
    buffer: ReadBuffer,
    /// What is still to come of the present answer.
    body: Body,
    /// The service takes another request behind the present answer.
    is_kept: bool,
}

impl Http1 {
    pub(super) fn new(transport: Transport, stamps: SocketStamps) -> Self {
        Self {
            socket: Socket { transport, stamps },
            buffer: ReadBuffer::default(),
            body: Body::EMPTY,
            is_kept: true,
        }
    }

    /// Whether another request may be sent: the last answer ended, nothing came behind it, and
    /// the service didn't close.
    pub(super) fn is_usable(&mut self) -> bool {
        let is_quiet = |transport: &mut Transport| {
            let read = transport.try_read(&mut [0]);
            matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
        };
        self.is_kept
            && self.body.has_ended()
            && self.buffer.unread().is_empty()
            && is_quiet(&mut self.socket.transport)
    }

    /// Sends a request and reads up to the end of its final answer's head.
    pub(super) async fn send(&mut self, wire: &Wire, head: &mut Head) -> Result<(), SendFailure> {
        let mut outgoing = Outgoing::of(wire);
        let sent = poll_fn(|cx| self.poll_head(cx, &mut outgoing, head)).await;
        sent.map_err(|failure| SendFailure {
            failure,
            is_unsent: self.socket.stamps.written.get().is_none(),
        })
    }

    /// The next part of the body; `None` at its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<&[u8]>, Failure> {
        let length = poll_fn(|cx| self.poll_chunk(cx)).await?;
        Ok(length.map(|length| self.buffer.consumed(length)))
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        outgoing: &mut Outgoing<'_>,
        head: &mut Head,
    ) -> Poll<Result<(), Failure>> {
        loop {
            outgoing.poll_write(cx, &mut self.socket);
            if let Some(parsed) = self.take_head(outgoing, head)? {
                self.body = parsed.body;
                // A service that answers before it has the whole request may not want the rest.
                self.is_kept = parsed.is_kept && outgoing.is_done;
                return Poll::Ready(Ok(()));
            }
            let ended = match self.buffer.poll_fill(cx, &mut self.socket) {
                Poll::Ready(Ok(1..)) => continue,
                Poll::Ready(Ok(0)) => self.ended_before_body(outgoing, head),
                Poll::Ready(Err(error)) => Failure::lost(&error),
                // Also where nothing can be written any more: the service may have said why, and
                // that, or the connection's end, is about to be read.
                Poll::Pending => return Poll::Pending,
            };
            return Poll::Ready(Err(ended));
        }
    }

    /// The final head, if all of it has come.
    fn take_head(
        &mut self,
        outgoing: &mut Outgoing<'_>,
        head: &mut Head,
    ) -> Result<Option<Parsed>, Failure> {
        while outgoing.may_end_a_head(self.buffer.unread()) {
            let Some(parsed) = http1_head::parse(self.buffer.unread(), outgoing.asks_head, head)?
            else {
                outgoing.seen = self.buffer.unread().len();
                break;
            };
            self.buffer.consume(parsed.head_bytes);
            outgoing.seen = 0;
            if !parsed.is_interim {
                return Ok(Some(parsed));
            }
        }
        Ok(None)
    }

    /// Why there is no whole head and never will be.
    fn ended_before_body(&self, outgoing: &mut Outgoing<'_>, head: &mut Head) -> Failure {
        let unread = self.buffer.unread();
        // A line without an end was not looked at since its beginning.
        if let Err(failure) = http1_head::parse(unread, outgoing.asks_head, head) {
            return failure;
        }
        match &outgoing.broken {
            _ if !unread.is_empty() => {
                Failure::ended("the service closed it in the middle of the answer's head")
            }
            Some(error) => Failure::lost(error),
            None => Failure::ended("the service closed it without an answer"),
        }
    }

    /// The length of the body's next part, which has been consumed just now.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<usize>, Failure>> {
        loop {
            if self.body.has_ended() {
                return Poll::Ready(Ok(None));
            }
            let step = self.body.step(self.buffer.unread());
            let step =
                step.map_err(|fault| Failure::protocol(format_args!("broken body: {fault}")))?;
            self.buffer.consume(step.skipped + step.data);
            if step.data > 0 {
                return Poll::Ready(Ok(Some(step.data)));
            }
            if self.body.has_ended() {
                continue;
            }
            match ready!(self.buffer.poll_fill(cx, &mut self.socket)) {
                Ok(0) => match self.body {
                    Body::UntilClose => self.body = Body::EMPTY,
                    Body::Length(left) => {
                        let how = format_args!(
                            "the service closed it {left} bytes before the end of the answer's body"
                        );
                        return Poll::Ready(Err(Failure::ended(how)));
                    }
                    Body::Chunked(_) => {
                        let how =
                            "the service closed it before the last chunk of the answer's body";
                        return Poll::Ready(Err(Failure::ended(how)));
                    }
                },
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(Failure::lost(&error))),
            }
        }
    }
}

/// The socket, with its stamps.
struct Socket {
    transport: Transport,
    stamps: SocketStamps,
}

/// A request on its way out.
struct Outgoing<'w> {
    rest: &'w [u8],
    /// All of it is with the kernel.
    is_done: bool,
    /// Why the rest can't be written. The service may have answered all the same.
    broken: Option<io::Error>,
    asks_head: bool,
    /// Bytes of the answer's head that are known not to hold its end.
    seen: usize,
}

impl<'w> Outgoing<'w> {
    fn of(wire: &'w Wire) -> Self {
        Self {
            rest: wire.http1(),
            is_done: false,
            broken: None,
            asks_head: wire.is_head(),
            seen: 0,
        }
    }

    /// Writes what the socket takes.
    fn poll_write(&mut self, cx: &mut Context<'_>, socket: &mut Socket) {
        while !self.is_done && self.broken.is_none() {
            let transport = Pin::new(&mut socket.transport);
            let written = if self.rest.is_empty() {
                transport.poll_flush(cx).map_ok(|()| {
                    self.is_done = true;
                    0
                })
            } else {
                let rest = self.rest;
                let written = &socket.stamps.written;
                written.around(|| match transport.poll_write(cx, rest) {
                    Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    written => written,
                })
            };
            match written {
                Poll::Ready(Ok(written)) => self.rest = &self.rest[written..],
                Poll::Ready(Err(error)) => self.broken = Some(error),
                Poll::Pending => return,
            }
        }
    }

    /// Whether it's worth while to look for the end of a head: one that comes byte by byte would
    /// be read again for each.
    fn may_end_a_head(&self, unread: &[u8]) -> bool {
        match self.seen {
            0 => !unread.is_empty(),
            seen => unread.len() > http1_head::HEAD_BYTES_MAX || unread[seen..].contains(&b'\n'),
        }
    }
}

/// What was read and not yet used.
#[derive(Default)]
struct ReadBuffer {
    bytes: Vec<u8>,
    begin: usize,
    end: usize,
}

impl ReadBuffer {
    fn unread(&self) -> &[u8] {
        &self.bytes[self.begin..self.end]
    }

    fn consume(&mut self, length: usize) {
        self.begin += length;
    }

    /// The last `length` bytes that were consumed.
    fn consumed(&self, length: usize) -> &[u8] {
        &self.bytes[self.begin - length..self.begin]
    }

    /// Reads once; 0 at the end of the connection.
    fn poll_fill(&mut self, cx: &mut Context<'_>, socket: &mut Socket) -> Poll<io::Result<usize>> {
        self.make_room();
        let room = self.bytes.len() - self.end;
        let mut into = ReadBuf::new(&mut self.bytes[self.end..]);
        let read = Pin::new(&mut socket.transport).poll_read(cx, &mut into);
        let length = into.filled().len();
        ready!(read)?;
        socket.stamps.reads.stamp();
        self.end += length;
        if length == room && self.bytes.len() < BUFFER_BYTES_MAX {
            self.bytes.resize(self.bytes.len() * 2, 0);
        }
        Poll::Ready(Ok(length))
    }

    fn make_room(&mut self) {
        if self.begin == self.end {
            self.begin = 0;
            self.end = 0;
        }
        if self.end < self.bytes.len() {
            return;
        }
        if self.begin > 0 {
            self.bytes.copy_within(self.begin..self.end, 0);
            self.end -= self.begin;
            self.begin = 0;
        } else {
            // A head that doesn't fit, or nothing was read so far. Heads are bounded.
            let length = (self.bytes.len() * 2).max(BUFFER_BYTES_MIN);
            self.bytes.resize(length, 0);
        }
    }
}
