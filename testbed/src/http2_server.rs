//! The torture server's sibling that speaks HTTP/2: it writes its frames itself, so that they can
//! be any, and counts, so that a test knows the exact numbers the engine has to report.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::http2_fault::{self, End, Fault, Reading, Step};
use crate::http2_frame::{
    ACK, DATA, END_STREAM, Frame, HEADERS, PING, PREFACE, SETTINGS, WINDOW_UPDATE, frame,
};
use crate::peer::{Peer, leave_with_the_end, reset_when_closed};

/// Ways to serve that carry a right answer.
pub const RIGHT_HTTP2: &[&str] = &http2_fault::RIGHT;
/// Ways to serve that carry none.
pub const WRONG_HTTP2: &[&str] = &http2_fault::WRONG;

/// An HTTP/2 server without TLS on a free loopback port, which answers every request in one way,
/// whatever its path: 200 and `{"status":"ok"}`, if nothing else is said. A client speaks to it
/// with prior knowledge (RFC 9113 §3.3).
///
/// | [`RIGHT_HTTP2`] | how |
/// |---|---|
/// | `h2-plain`, `h2-trailers`, `h2-interims` | trailers behind it; 100 and twice 103 before it |
/// | `h2-continuation`, `h2-padded`, `h2-bytes`, `h2-empty-end`, `h2-burst` | the head in pieces; padding and priority; a frame for each byte; empty DATA; 5 000 frames of one byte at once |
/// | `h2-unknown-frames`, `h2-late-words` | frames and settings of tomorrow; WINDOW_UPDATE and RST_STREAM behind the end |
/// | `h2-204`, `h2-304-length` | no body; a length that is another answer's |
/// | `h2-settings-late`, `h2-settings-again` | SETTINGS after 150 ms; again before each answer, which waits for their ACK |
/// | `h2-ping`, `h2-ping-flood` | answers when its PING is acknowledged; 2 000 of them before each answer |
/// | `h2-goaway-behind`, `h2-goaway-refused`, `h2-close-behind` | GOAWAY in good order behind each answer, or instead of a connection's second one; closed behind each |
/// | `h2-window-small`, `h2-early` | bodies are taken 1 000 bytes at a time; 413 before the body, then RST_STREAM (NO_ERROR) |
/// | `h2-settings-never`, `h2-data-after-end` | no SETTINGS; DATA behind END_STREAM: forbidden, and the answer is whole |
///
/// | [`WRONG_HTTP2`] | how |
/// |---|---|
/// | `h2-push` | PUSH_PROMISE, though the client forbids it |
/// | `h2-length-short`, `h2-length-long` | a Content-Length that isn't the body's |
/// | `h2-no-status`, `h2-upper-case`, `h2-connection-header` | heads that are none |
/// | `h2-data-first`, `h2-other-stream` | DATA before the head; an answer to nobody |
/// | `h2-frame-too-large`, `h2-bad-index`, `h2-bad-padding`, `h2-ping-short`, `h2-settings-on-stream` | frames that are none |
/// | `h2-window-zero`, `h2-window-overflow` | WINDOW_UPDATEs that are none |
/// | `h2-header-list`, `h2-endless-continuation` | 280 kB of headers; a head without end |
/// | `h2-not-http2` | HTTP/1.1 |
/// | `h2-goaway-error`, `h2-close`, `h2-reset` | instead of an answer |
/// | `h2-cut-in-frame`, `h2-cut-in-body`, `h2-reset-in-body` | closed there; RST_STREAM there |
/// | `h2-hang`, `h2-hang-in-body` | nothing more comes |
/// | `h2-window-stalled` | bodies are not taken, and nothing comes |
#[derive(Debug)]
pub struct Http2Server {
    peer: Peer,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    body_bytes: AtomicU64,
    bytes_sent: AtomicU64,
    acks: AtomicU64,
}

impl Http2Server {
    /// Starts a server that serves in the way of this name.
    ///
    /// # Errors
    /// When there is no such way, or the system refuses the socket or the thread.
    pub fn start(name: &str) -> io::Result<Self> {
        let mut known = RIGHT_HTTP2.iter().chain(WRONG_HTTP2);
        let name = known.find(|known| **known == name).ok_or_else(|| {
            let message = format!("there is no way to serve that is called {name}");
            io::Error::new(io::ErrorKind::InvalidInput, message)
        })?;
        Self::serving(Fault::Named(name))
    }

    /// Starts a server that resets each stream for this reason (RFC 9113 §7) instead of an answer.
    ///
    /// # Errors
    /// When the system refuses the socket or the thread.
    pub fn resetting(reason: u32) -> io::Result<Self> {
        Self::serving(Fault::ResetFor(reason))
    }

    fn serving(fault: Fault) -> io::Result<Self> {
        let counts = Arc::new(Counts::default());
        let for_peer = Arc::clone(&counts);
        let peer = Peer::start("http2", move |_, stream| {
            Serving {
                fault,
                counts: &for_peer,
                reader: BufReader::new(stream),
                writer: stream,
                acks: 0,
            }
            .serve()
        })?;
        Ok(Self { peer, counts })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.peer.address()
    }

    /// `http://…` without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// Connections accepted so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.peer.accepted()
    }

    /// Connections that stand now, and the most that stood at the same time.
    #[must_use]
    pub fn connections_open(&self) -> (u64, u64) {
        self.peer.open()
    }

    /// Requests so far, each counted by its head.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.counts.requests.load(Ordering::SeqCst)
    }

    /// Bytes of requests' bodies that have come so far.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.counts.body_bytes.load(Ordering::SeqCst)
    }

    /// Bytes that were handed to the kernel so far.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.counts.bytes_sent.load(Ordering::SeqCst)
    }

    /// PINGs and SETTINGS that clients have acknowledged so far.
    #[must_use]
    pub fn acks(&self) -> u64 {
        self.counts.acks.load(Ordering::SeqCst)
    }
}

/// One connection.
struct Serving<'s> {
    fault: Fault,
    counts: &'s Counts,
    reader: BufReader<&'s TcpStream>,
    writer: &'s TcpStream,
    /// Of this connection.
    acks: u64,
}

/// Whether a connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    Leave,
}

impl Serving<'_> {
    fn serve(&mut self) -> io::Result<()> {
        let mut preface = [0; PREFACE.len()];
        self.reader.read_exact(&mut preface)?;
        if preface != PREFACE {
            return Ok(());
        }
        if self.do_all(self.fault.greeting())? == Then::Leave {
            return Ok(());
        }
        let mut turn = 0;
        while let Some(stream) = self.request()? {
            turn += 1;
            let answer = self.fault.answer(stream, turn);
            if self.do_all(answer)? == Then::Leave {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The stream of the next request, or `None` when the client has gone.
    fn request(&mut self) -> io::Result<Option<u32>> {
        while let Some(frame) = self.frame()? {
            let is_over = match self.fault.reading() {
                Reading::Head => frame.kind == HEADERS,
                Reading::Whole => matches!(frame.kind, HEADERS | DATA) && frame.has(END_STREAM),
            };
            if is_over {
                return Ok(Some(frame.stream));
            }
        }
        Ok(None)
    }

    /// The next frame, after what has to be done about it.
    fn frame(&mut self) -> io::Result<Option<Frame>> {
        let Some(came) = Frame::read(&mut self.reader)? else {
            return Ok(None);
        };
        match came.kind {
            HEADERS => {
                self.counts.requests.fetch_add(1, Ordering::SeqCst);
            }
            DATA => {
                let bytes = came.payload.len() as u64;
                self.counts.body_bytes.fetch_add(bytes, Ordering::SeqCst);
                if bytes > 0 && self.fault.opens_its_window() {
                    self.take(&came)?;
                }
            }
            SETTINGS | PING if came.has(ACK) => {
                self.acks += 1;
                self.counts.acks.fetch_add(1, Ordering::SeqCst);
            }
            SETTINGS => self.write(&frame(SETTINGS, ACK, 0, &[]))?,
            PING => self.write(&frame(PING, ACK, 0, &came.payload))?,
            _ => {}
        }
        Ok(Some(came))
    }

    /// Lets the client send as much again.
    fn take(&mut self, data: &Frame) -> io::Result<()> {
        let bytes = u32::try_from(data.payload.len()).map_err(io::Error::other)?;
        for stream in [0, data.stream] {
            // Nothing more comes on a stream that has ended.
            if stream == 0 || !data.has(END_STREAM) {
                self.write(&frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes()))?;
            }
        }
        Ok(())
    }

    fn do_all(&mut self, steps: Vec<Step>) -> io::Result<Then> {
        let sends_at_once = |step: &Step| matches!(step, Step::Send(_) | Step::End(_));
        if matches!(steps.last(), Some(Step::End(End::Close))) && steps.iter().all(sends_at_once) {
            leave_with_the_end(self.writer)?;
        }
        for step in steps {
            match step {
                Step::Send(bytes) => self.write(&bytes)?,
                Step::Pause(time) => std::thread::sleep(time),
                Step::AwaitAcks(acks) => {
                    while self.acks < acks {
                        if self.frame()?.is_none() {
                            return Ok(Then::Leave);
                        }
                    }
                }
                Step::End(end) => {
                    self.end(end)?;
                    return Ok(Then::Leave);
                }
            }
        }
        Ok(Then::GoOn)
    }

    fn end(&mut self, end: End) -> io::Result<()> {
        match end {
            // Nothing that is on its way is lost by it, as it would be with something unread.
            End::Close => {
                self.writer.shutdown(Shutdown::Write)?;
                self.read_to_the_end()
            }
            End::Reset => reset_when_closed(self.writer),
            End::Hang => self.read_to_the_end(),
            End::Endless(frame) => {
                let block = frame.repeat(1_000);
                loop {
                    self.write(&block)?;
                }
            }
        }
    }

    /// Whatever comes, until the client goes.
    fn read_to_the_end(&mut self) -> io::Result<()> {
        io::copy(&mut self.reader, &mut io::sink()).map(drop)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Before the client can have them, so that it never has more than is counted here.
        self.counts
            .bytes_sent
            .fetch_add(bytes.len() as u64, Ordering::SeqCst);
        self.writer.write_all(bytes)
    }
}
