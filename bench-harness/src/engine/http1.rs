//! One user's HTTP/1.1 connection: writes prepared bytes, reads into one buffer that it keeps, and
//! lends parts of it.
//!
//! No task, channel, lock or allocation per request: where the request fits into the socket and
//! the answer into the buffer, one exchange is one write and one read.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use super::answer::Head;
use super::connection::SendFailure;
use super::failure::Failure;
use super::http1_body::Body;
use super::http1_head::{self, Parsed};
use super::http1_outgoing::Outgoing;
use super::http1_socket::{ReadBuffer, Socket, Way};
use super::stamps::SocketStamps;
use super::transport::Transport;
use super::wire::Wire;

/// An open connection.
pub(super) struct Http1<W = Transport> {
    socket: Socket<W>,
    buffer: ReadBuffer,
    /// What is still to come of the present answer.
    body: Body,
    /// The service takes another request behind the present answer.
    is_kept: bool,
    /// What of the request the socket had not taken when its answer began.
    unsent: Option<Outgoing<'static>>,
}

impl<W: Way> Http1<W> {
    pub(super) fn new(way: W, stamps: SocketStamps) -> Self {
        Self {
            socket: Socket { way, stamps },
            buffer: ReadBuffer::default(),
            body: Body::EMPTY,
            is_kept: true,
            unsent: None,
        }
    }

    /// Whether another request may be sent: the last answer ended, nothing came behind it, and
    /// the service didn't close.
    pub(super) fn is_usable(&mut self) -> bool {
        if !self.is_kept || !self.body.has_ended() || !self.buffer.unread().is_empty() {
            return false;
        }
        let read = self.socket.way.try_read(&mut [0]);
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
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
                // Whether both sides agree on where the next request begins, nobody knows then.
                self.is_kept = parsed.is_kept && outgoing.is_done();
                // A refusal that ends the connection doesn't want the rest (RFC 9112 §9.5).
                let is_refused = head.status() >= 400 && !parsed.is_kept;
                self.unsent = if is_refused { None } else { outgoing.rest() };
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
            if let Some(unsent) = &mut self.unsent {
                // Where it can't be written, what the service still has to say is about to be read.
                unsent.poll_write(cx, &mut self.socket);
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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::pin::Pin;

    use proptest::prelude::*;
    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
    use unstall_results::record::ErrorKind;
    use unstall_scenarios::render::RenderedRequest;

    use super::*;
    use crate::engine::failure::Cause;
    use crate::engine::target::Target;

    /// A service that sends these bytes in these reads, and then closes or falls silent.
    #[derive(Default)]
    struct Script {
        reads: VecDeque<Vec<u8>>,
        closes: bool,
        /// Takes nothing of a request.
        is_deaf: bool,
        written: Vec<u8>,
    }

    impl Script {
        fn of(bytes: &[u8], cuts: &[usize]) -> Self {
            let mut rest = bytes;
            let mut reads = VecDeque::new();
            for cut in cuts {
                let (read, later) = rest.split_at((*cut).min(rest.len()));
                reads.extend((!read.is_empty()).then(|| read.to_vec()));
                rest = later;
            }
            reads.extend((!rest.is_empty()).then(|| rest.to_vec()));
            Self {
                reads,
                closes: true,
                ..Self::default()
            }
        }
    }

    impl AsyncRead for Script {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let Some(mut read) = self.reads.pop_front() else {
                let silent = !self.closes;
                return if silent {
                    Poll::Pending
                } else {
                    Poll::Ready(Ok(()))
                };
            };
            let rest = read.split_off(read.len().min(buffer.remaining()));
            buffer.put_slice(&read);
            if !rest.is_empty() {
                self.reads.push_front(rest);
            }
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Script {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            if self.is_deaf {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            // In two writes at least.
            let length = bytes.len().div_ceil(2);
            self.written.extend_from_slice(&bytes[..length]);
            Poll::Ready(Ok(length))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl Way for Script {
        fn try_read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            match self.reads.front() {
                Some(_) => Ok(1),
                None if self.closes => Ok(0),
                None => Err(io::ErrorKind::WouldBlock.into()),
            }
        }
    }

    type Fields = Vec<(String, Vec<u8>)>;

    /// Status, fields and body of the next answer.
    fn exchange(connection: &mut Http1<Script>) -> Result<(u16, Fields, Vec<u8>), SendFailure> {
        let wire = Wire::get("/", &Target::loopback(80)).expect("it can be sent");
        let mut head = Head::default();
        let work = async {
            connection.send(&wire, &mut head).await?;
            let mut body = Vec::new();
            loop {
                match connection.chunk().await {
                    Ok(Some(part)) => body.extend_from_slice(part),
                    Ok(None) => break,
                    Err(failure) => {
                        let is_unsent = false;
                        return Err(SendFailure { failure, is_unsent });
                    }
                }
            }
            let fields = head.fields();
            let fields = fields.map(|(name, value)| (name.to_owned(), value.to_vec()));
            Ok((head.status(), fields.collect(), body))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime starts").block_on(work)
    }

    fn connection(script: Script) -> Http1<Script> {
        Http1::new(script, SocketStamps::default())
    }

    fn failure_of(bytes: &[u8]) -> Failure {
        let outcome = exchange(&mut connection(Script::of(bytes, &[])));
        outcome.expect_err("it must fail").failure
    }

    const LENGTH: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

    #[test]
    fn a_request_is_written_whole_and_stamped() {
        let mut connection = connection(Script::of(LENGTH, &[]));
        exchange(&mut connection).expect("an answer");
        let wire = Wire::get("/", &Target::loopback(80)).expect("it can be sent");
        assert_eq!(connection.socket.way.written, wire.http1());
        assert!(connection.socket.stamps.written.get().is_some());
    }

    #[test]
    fn a_connection_is_used_again_only_if_nothing_speaks_against_it() {
        for (bytes, closes, is_usable) in [
            (LENGTH, false, true),
            (LENGTH, true, false),
            (
                b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok more",
                false,
                false,
            ),
            (
                b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                false,
                false,
            ),
            (
                b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
                false,
                false,
            ),
            (
                b"HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n",
                false,
                true,
            ),
        ] {
            let mut script = Script::of(bytes, &[]);
            script.closes = closes;
            let mut connection = connection(script);
            assert!(!connection.is_usable(), "an answer before any request");
            exchange(&mut connection).expect("an answer");
            assert_eq!(
                connection.is_usable(),
                is_usable,
                "{}",
                bytes.escape_ascii()
            );
        }
    }

    #[test]
    fn what_breaks_off_is_a_reset_and_what_is_no_http_is_not() {
        let ok = "HTTP/1.1 200 OK\r\n";
        for (text, kind) in [
            (String::new(), ErrorKind::Reset),
            (ok[..4].to_owned(), ErrorKind::Reset),
            (format!("{ok}content-ty"), ErrorKind::Reset),
            ("HTTP/1.1 100 Continue\r\n\r\n".to_owned(), ErrorKind::Reset),
            (format!("{ok}content-length: 3\r\n\r\nok"), ErrorKind::Reset),
            (
                format!("{ok}transfer-encoding: chunked\r\n\r\n2\r\nok"),
                ErrorKind::Reset,
            ),
            (
                format!("{ok}transfer-encoding: chunked\r\n\r\n2\r\nokay"),
                ErrorKind::Protocol,
            ),
            ("no HTTP, and no line".to_owned(), ErrorKind::Protocol),
            (format!("{ok}a\0"), ErrorKind::Protocol),
        ] {
            let failure = failure_of(text.as_bytes());
            assert_eq!(failure.cause, Cause::Service(kind), "{text:?}: {failure:?}");
        }
    }

    #[test]
    fn a_head_is_bounded() {
        let mut bytes = b"HTTP/1.1 200 OK\r\n".to_vec();
        while bytes.len() < 10 * http1_head::HEAD_BYTES_MAX {
            bytes.extend_from_slice(b"a: b\r\n");
        }
        let failure = failure_of(&bytes);
        assert!(failure.message.contains("header fields"), "{failure:?}");
        bytes.retain(|byte| *byte != b'\r' && *byte != b'\n');
        let mut head = b"HTTP/1.1 200 OK\r\na: ".to_vec();
        head.extend_from_slice(&bytes);
        let failure = failure_of(&head);
        assert!(failure.message.contains("longer than"), "{failure:?}");
    }

    #[test]
    fn who_takes_nothing_may_be_asked_again_and_an_early_answer_counts() {
        let deaf = |bytes: &[u8]| Script {
            is_deaf: true,
            ..Script::of(bytes, &[])
        };
        let failed = exchange(&mut connection(deaf(b""))).expect_err("it can't be sent");
        assert!(failed.is_unsent);
        assert_eq!(failed.failure.cause, Cause::Service(ErrorKind::Reset));
        let mut early = connection(deaf(b"HTTP/1.1 413 No\r\ncontent-length: 0\r\n\r\n"));
        assert_eq!(exchange(&mut early).expect("an answer").0, 413);
        early.socket.way.closes = false;
        assert!(
            !early.is_usable(),
            "the rest of the request is still to come"
        );
    }

    #[test]
    fn to_head_there_is_no_body() {
        let request = RenderedRequest {
            method: "HEAD".to_owned(),
            path_and_query: "/".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        };
        let wire = Wire::new(request, &Target::loopback(80)).expect("it can be sent");
        let mut script = Script::of(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", &[]);
        script.closes = false;
        let mut connection = connection(script);
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let work = async {
            let sent = connection.send(&wire, &mut Head::default()).await;
            sent.expect("an answer");
            assert_eq!(connection.chunk().await, Ok(None));
        };
        runtime.expect("a runtime starts").block_on(work);
        assert!(connection.is_usable());
    }

    /// An answer in one of the ways to say where its body ends, or none.
    fn answers() -> impl Strategy<Value = Vec<u8>> {
        let body = prop::collection::vec(any::<u8>(), 0..20_000);
        (0..3u8, body, 1..5_000usize, 0..3usize).prop_map(|(way, body, size, interim)| {
            let mut bytes = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(interim);
            bytes.extend_from_slice(b"HTTP/1.1 200 OK\r\nserver: it\r\n");
            match way {
                0 => {
                    let length = format!("Content-Length: {}\r\n\r\n", body.len());
                    bytes.extend_from_slice(length.as_bytes());
                    bytes.extend_from_slice(&body);
                }
                1 => {
                    bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
                    for chunk in body.chunks(size) {
                        bytes.extend_from_slice(format!("{:X};x=y\r\n", chunk.len()).as_bytes());
                        bytes.extend_from_slice(chunk);
                        bytes.extend_from_slice(b"\r\n");
                    }
                    bytes.extend_from_slice(b"0\r\ntrailer: t\r\n\r\n");
                }
                _ => {
                    bytes.extend_from_slice(b"\r\n");
                    bytes.extend_from_slice(&body);
                }
            }
            bytes
        })
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(
            bytes in answers(),
            cuts in prop::collection::vec(1..300usize, 0..60),
        ) {
            let whole = exchange(&mut connection(Script::of(&bytes, &[])));
            let cut = exchange(&mut connection(Script::of(&bytes, &cuts)));
            let whole = whole.expect("it is an answer");
            prop_assert_eq!(cut.expect("it is an answer, however cut"), whole);
        }

        #[test]
        fn any_bytes_are_an_answer_or_a_failure(
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            begins in prop::sample::select(vec![
                "", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            ]),
            cut in 1..400usize,
        ) {
            let bytes = [begins.as_bytes(), &bytes].concat();
            let whole = exchange(&mut connection(Script::of(&bytes, &[])));
            let cut = exchange(&mut connection(Script::of(&bytes, &[cut])));
            match (whole, cut) {
                (Ok(whole), Ok(cut)) => prop_assert_eq!(whole, cut),
                (Err(whole), Err(cut)) => prop_assert_eq!(whole.failure.cause, cut.failure.cause),
                (whole, cut) => prop_assert!(false, "{:?} but cut {:?}", whole, cut),
            }
        }
    }
}
