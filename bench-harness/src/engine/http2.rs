//! HTTP/2 as one user speaks it: a connection of its own, one stream after the other.
//!
//! Users don't share a connection, though the protocol would allow it: a user's latency is to be
//! its own, and a loss on one connection not everybody's. The task that waits for an answer drives
//! the connection, so that no other task has to be woken. While a user thinks nobody does: pings
//! wait for its next request.
//!
//! A stream that the service resets, or that nobody wants to read to its end, leaves its connection
//! in use. A request that the service says it never took up, by the GOAWAY that ends a connection
//! in good order, goes out again on another one (RFC 9113 §8.7); a refused stream is a failure,
//! because it is how a service says that it is overloaded.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Reason, RecvStream};
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use http::{Method, Request, Uri};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use unstall_results::record::ErrorKind;

use super::answer::Head;
use super::connection::SendFailure;
use super::failure::Failure;
use super::stamps::SocketStamps;
use super::tls_failure;
use super::transport::Transport;
use super::wire::{Parts, Wire};

/// How much a service may send before it has to wait for us, per stream and per connection: large
/// enough that the network between them never idles, as browsers have it, and there is only one
/// stream at a time.
const WINDOW_BYTES: u32 = 1 << 20;
/// So many DATA frames of a few bytes may wait for us at once, as streams of words have them that
/// were held up somewhere; the library takes a fraction of it for an attack. What it counts is how
/// much such a frame is smaller than 256 bytes.
const SMALL_FRAMES_BUDGET: usize = 65_536 * 256;
/// More is no head (browsers take 256 KiB).
const HEADER_LIST_BYTES_MAX: u32 = 256 * 1024;

/// An open connection.
pub(super) struct Http2 {
    sender: SendRequest<Bytes>,
    driver: Driver,
    scheme: &'static str,
    stamps: SocketStamps,
    looks_closely: Rc<Cell<bool>>,
    answer: Option<Reading>,
    part: Bytes,
}

/// An answer whose head has come.
struct Reading {
    stream: RecvStream,
    /// As the head says.
    length: Option<u64>,
    read: u64,
}

impl Http2 {
    /// Begins to speak HTTP/2; what the other side says to it shows with the first request.
    pub(super) async fn open(
        transport: Transport,
        scheme: &'static str,
        stamps: SocketStamps,
    ) -> Result<Self, Failure> {
        let fault = Fault::default();
        let looks_closely = Rc::new(Cell::new(false));
        let socket = Socket {
            transport,
            stamps: stamps.clone(),
            fault: fault.clone(),
            broken: None,
            looks_closely: Rc::clone(&looks_closely),
        };
        let (sender, connection) = Builder::new()
            .initial_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_header_list_size(HEADER_LIST_BYTES_MAX)
            .data_frame_budget(SMALL_FRAMES_BUDGET)
            .enable_push(false)
            .handshake(socket)
            .await
            .map_err(|error| fault.or(&error))?;
        Ok(Self {
            sender,
            driver: Driver {
                connection: Some(connection),
                fault,
            },
            scheme,
            stamps,
            looks_closely,
            answer: None,
            part: Bytes::new(),
        })
    }

    /// Whether another request may be sent on it: the service said nothing against it and didn't
    /// close it, as far as this side can know by now.
    pub(super) async fn is_usable(&mut self) -> bool {
        let Self { sender, driver, .. } = self;
        let look = poll_fn(|cx| Poll::Ready(!matches!(sender.poll_ready(cx), Poll::Ready(Err(_)))));
        self.looks_closely.set(true);
        let is_ready = driver.drive(look).await;
        self.looks_closely.set(false);
        is_ready && driver.connection.is_some()
    }

    /// Sends a request and reads up to the end of its final answer's head, 1xx passed over.
    pub(super) async fn send(&mut self, wire: &Wire, head: &mut Head) -> Result<(), SendFailure> {
        self.forget();
        let (request, body) = self.request(wire).map_err(|failure| SendFailure {
            failure,
            is_unsent: true,
        })?;
        let Self {
            sender,
            driver,
            stamps,
            ..
        } = self;
        // What was written so far, and may still be before it is let go, is no request.
        let is_let_go = Cell::new(false);
        let exchange = async {
            poll_fn(|cx| sender.poll_ready(cx)).await?;
            stamps.written.arm();
            is_let_go.set(true);
            let (response, mut sending) = sender.send_request(request, body.is_empty())?;
            if !body.is_empty() {
                // As much of it waits in there as the service's window doesn't admit.
                sending.send_data(body, true)?;
            }
            response.await
        };
        let response = match driver.drive(exchange).await {
            Ok(response) => response,
            Err(error) => {
                let is_written = is_let_go.get() && self.stamps.written.get().is_some();
                let is_unsent = !is_written || is_untaken(&error);
                return Err(SendFailure {
                    failure: self.driver.fault.or(&error),
                    is_unsent,
                });
            }
        };
        let (parts, stream) = response.into_parts();
        head.begin(parts.status.as_u16());
        for (name, value) in &parts.headers {
            head.push(name.as_str(), value.as_bytes());
        }
        let length = parts.headers.get(CONTENT_LENGTH);
        self.answer = Some(Reading {
            stream,
            // What isn't a number the library has refused.
            length: length.and_then(|length| length.to_str().ok()?.parse().ok()),
            read: 0,
        });
        Ok(())
    }

    /// The next part of the answer's body, lent, never empty; `None` at its end, which is behind
    /// its trailers. A part is one DATA frame.
    pub(super) async fn chunk(&mut self) -> Result<Option<&[u8]>, Failure> {
        let Some(answer) = &mut self.answer else {
            return Ok(None);
        };
        loop {
            let data = poll_fn(|cx| answer.stream.poll_data(cx));
            match self.driver.drive(data).await {
                Some(Ok(part)) => {
                    answer.read += part.len() as u64;
                    // Refused only for a number that wasn't received.
                    let _ = answer.stream.flow_control().release_capacity(part.len());
                    if !part.is_empty() {
                        self.part = part;
                        return Ok(Some(&self.part));
                    }
                }
                Some(Err(error)) if answer.is_whole(&error) => break,
                Some(Err(error)) => return Err(self.driver.fault.or(&error)),
                None => {
                    let trailers = self.driver.drive(answer.stream.trailers()).await;
                    trailers.map_err(|error| self.driver.fault.or(&error))?;
                    break;
                }
            }
        }
        self.forget();
        Ok(None)
    }

    /// Lets go of the present answer. If there is more of it, the service is told at once that
    /// nobody wants it, so that it stops; the connection is of use again.
    pub(super) async fn leave(&mut self) {
        if self.forget() {
            // One turn of the connection writes what says so.
            self.driver.drive(std::future::ready(())).await;
        }
    }

    /// True if there was an answer.
    fn forget(&mut self) -> bool {
        self.part = Bytes::new();
        self.answer.take().is_some()
    }

    fn request(&self, wire: &Wire) -> Result<(Request<()>, Bytes), Failure> {
        let Parts {
            method,
            path,
            authority,
            fields,
            body,
        } = wire.parts();
        let unusable =
            |what: &str| Failure::service(ErrorKind::CheckFailed, format!("not sent: {what}"));
        let uri = Uri::builder()
            .scheme(self.scheme)
            .authority(authority)
            .path_and_query(path)
            .build()
            .map_err(|error| unusable(&format!("its path is no request target: {error}")))?;
        let mut request = Request::new(());
        *request.uri_mut() = uri;
        *request.method_mut() = Method::from_bytes(method.as_bytes())
            .map_err(|_| unusable(&format!("`{method}` is no method")))?;
        let headers = request.headers_mut();
        for (name, value) in fields {
            if is_of_the_connection(name, value) {
                continue;
            }
            let no_header = |_| unusable(&format!("`{name}` is no header, or its value none"));
            let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| no_header(()))?;
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| no_header(()))?;
            headers.append(name, value);
        }
        if !body.is_empty() {
            headers.insert(CONTENT_LENGTH, body.len().into());
        }
        Ok((request, Bytes::copy_from_slice(body)))
    }
}

/// Headers that tell about an HTTP/1.1 connection have no meaning here and must not be sent
/// (RFC 9113 §8.2.2).
fn is_of_the_connection(name: &str, value: &str) -> bool {
    match name {
        "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade"
        | "host" | "content-length" => true,
        "te" => value != "trailers",
        _ => false,
    }
}

impl Reading {
    /// A service that has answered before it had the whole request stops that by a reset that is
    /// no error, and the answer stands (RFC 9113 §8.1).
    fn is_whole(&self, error: &h2::Error) -> bool {
        error.is_reset()
            && error.reason() == Some(Reason::NO_ERROR)
            && self.length == Some(self.read)
    }
}

/// The half of a connection that has to be driven.
struct Driver {
    /// `None` once it has ended.
    connection: Option<h2::client::Connection<Socket, Bytes>>,
    fault: Fault,
}

impl Driver {
    /// Runs `future`, which waits for this connection, and the connection itself.
    async fn drive<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Some(connection) = self.connection.as_mut()
                && let Poll::Ready(ended) = Pin::new(connection).poll(cx)
            {
                // It also ends what `future` waits for, in general terms.
                if let Err(error) = ended {
                    self.fault.note(failure(&error));
                }
                self.connection = None;
            }
            // All that `future` waits for comes out of the lines above, in this very task: it
            // needs no waker, and a real one would only cause a needless second poll. What it
            // wants sent wakes the connection's own, which is this task's.
            let mut nobody = Context::from_waker(Waker::noop());
            future.as_mut().poll(&mut nobody)
        })
        .await
    }
}

/// What ended the connection, in the words of who knows best: to an answer that is waited for the
/// library only says that the connection has broken.
#[derive(Debug, Clone, Default)]
struct Fault(Rc<RefCell<Option<Failure>>>);

impl Fault {
    /// The first to know is the one who knows.
    fn note(&self, failure: Failure) {
        self.0.borrow_mut().get_or_insert(failure);
    }

    /// That, where the connection's end is all that `error` tells.
    fn or(&self, error: &h2::Error) -> Failure {
        let known = error.is_io().then(|| self.0.borrow().clone()).flatten();
        known.unwrap_or_else(|| failure(error))
    }
}

/// The service ended the connection in good order and says that it never looked at this request.
fn is_untaken(error: &h2::Error) -> bool {
    error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR)
}

fn failure(error: &h2::Error) -> Failure {
    if let Some(error) = error.get_io() {
        return Failure::lost(error);
    }
    let Some(reason) = error.reason() else {
        return Failure::service(ErrorKind::CheckFailed, format!("not sent: {error}"));
    };
    if !error.is_remote() {
        return Failure::service(
            ErrorKind::Protocol,
            format!("not HTTP/2 ({reason:?}): {error}; http = \"1.1\" speaks HTTP/1.1"),
        );
    }
    if reason == Reason::HTTP_1_1_REQUIRED {
        return Failure::service(
            ErrorKind::Protocol,
            "the service wants HTTP/1.1 for this request: say http = \"1.1\" in the scenario's \
             [client]",
        );
    }
    let what = if error.is_go_away() {
        "ended the connection (GOAWAY"
    } else {
        "reset the stream (RST_STREAM"
    };
    Failure::service(ErrorKind::Reset, format!("the service {what}, {reason:?})"))
}

/// The transport, with its stamps.
struct Socket {
    transport: Transport,
    stamps: SocketStamps,
    fault: Fault,
    /// Why nothing can be written any more. Whoever writes learns it only when all has been read.
    broken: Option<io::Error>,
    /// Before another request the kernel is asked whether there is an end to be read.
    looks_closely: Rc<Cell<bool>>,
}

impl Socket {
    /// A service that hangs up may have said why before it did: TLS does.
    fn poll_last_words(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let mut bytes = [0; 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut self.transport).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                Ok(()) => break,
                Err(error) => {
                    self.note(&error);
                    break;
                }
            }
        }
        let broken = self.broken.as_ref().map(io::Error::kind);
        Poll::Ready(broken.unwrap_or(io::ErrorKind::BrokenPipe).into())
    }

    fn note(&self, error: &io::Error) {
        if let Some(failure) = tls_failure::of_connection(error) {
            self.fault.note(failure);
        }
    }

    /// Writes or flushes, unless nothing can be written any more.
    fn poll_out<T>(
        &mut self,
        cx: &mut Context<'_>,
        out: impl FnOnce(&mut Self, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.broken.is_none() {
            match ready!(out(self, cx)) {
                Ok(done) => return Poll::Ready(Ok(done)),
                Err(error) => self.broken = Some(error),
            }
        }
        self.poll_last_words(cx).map(Err)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.transport).poll_read(cx, buffer);
        match &read {
            Poll::Ready(Ok(())) => self.stamps.reads.stamp(),
            Poll::Ready(Err(error)) => self.note(error),
            Poll::Pending if self.looks_closely.get() && self.transport.has_ended() => {
                return Poll::Ready(Ok(()));
            }
            Poll::Pending => {}
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_out(cx, |socket, cx| {
            let transport = Pin::new(&mut socket.transport);
            let written = &socket.stamps.written;
            written.around(|| transport.poll_write(cx, bytes))
        })
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_out(cx, |socket, cx| {
            let transport = Pin::new(&mut socket.transport);
            let written = &socket.stamps.written;
            written.around(|| transport.poll_write_vectored(cx, slices))
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_out(cx, |socket, cx| {
            Pin::new(&mut socket.transport).poll_flush(cx)
        })
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(cx)
    }
}
