//! The torture server: misbehaves in every way a load engine must survive, and counts, so that a
//! test knows the exact numbers the engine has to report.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, getsockname, listen, socket,
};

use crate::fault::{EARLY, Ending, Fault};
use crate::framing_fault;
use crate::http_message::{Request, Requests, json_answer};
use crate::peer::{
    Door, Peer, leave_with_the_end, lock, reset_when_closed, wait_for_the_clients_end_deaf,
};

/// Names of `/framing/{name}` that carry a right answer in an unusual frame.
pub const RIGHT_FRAMES: &[&str] = &framing_fault::RIGHT;
/// Names of `/framing/{name}` whose frame is none.
pub const WRONG_FRAMES: &[&str] = &framing_fault::WRONG;

/// How long the kernel may take to let a connection into the queue of a listener that has room: on
/// loopback it takes microseconds.
const QUEUED_WITHIN: Duration = Duration::from_millis(300);
/// Requests that are kept as they came.
const RECEIVED_MAX: usize = 100;
/// More than a queue of the shortest length takes.
const QUEUED_MAX: usize = 8;

/// How the whole server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Each path in its own way; see [`FaultyServer`].
    Paths,
    /// The port is taken but nobody listens: connections are refused.
    Refuse,
    /// Listens and never accepts, and its queue is full: who connects waits in vain.
    Full,
    /// Accepts, and never reads or writes.
    Silent,
    /// Accepts and closes at once.
    CloseOnAccept,
    /// Accepts and resets at once.
    ResetOnAccept,
    /// Like `Paths`, until that many requests are answered; with the next one the server dies: the
    /// port is closed and every connection ends.
    DiesAfter(u64),
}

/// A misbehaving HTTP/1.1 server on a free loopback port. Paths, for any method:
///
/// | path | what happens |
/// |---|---|
/// | `/ok`, `/health` | 200, `{"status":"ok"}` |
/// | `/500`, `/503`, `/404`, … | that status (400–599) with a JSON body |
/// | `/wrong-shape` | 200, JSON of another shape |
/// | `/not-json` | 200, says JSON, is HTML |
/// | `/rubbish` | bytes that aren't HTTP, then close |
/// | `/half-head` | a head that breaks off, then close |
/// | `/close`, `/reset` | closed, or reset (RST), instead of an answer |
/// | `/reset-in-body` | head, half of the body, RST |
/// | `/truncated`, `/truncated-chunked` | the body breaks off, then close |
/// | `/hang`, `/hang-in-body` | nothing more comes |
/// | `/slow/{ms}`, `/slow-body/{ms}` | late answer; body in ten pieces over that time |
/// | `/slowly/{ms}` | `/ok` byte by byte, with that pause before each |
/// | `/large/{bytes}` | 200 with a body of that length |
/// | `/split/{n}` | `/ok` in two writes, cut after n bytes |
/// | `/cut/{n}`, `/reset-at/{n}` | `/ok` up to its n-th byte, then FIN or RST |
/// | `/redirect/{3xx}/{to}` | a `Location`, by `to`: `hops/{n}` (relative, then `/ok`), `loop`, `nowhere` (none), `port/{port}/{path}`, `host/{host}/{path}` |
/// | `/cookie/{name}/{value}` | `/ok` with that cookie for all paths; behind it `/secure`: for TLS only |
/// | `/coded/{coding}/{state}` | `/ok` by `gzip`, `deflate`, `raw-deflate` or `br`: `whole`, `bytes` (a chunk each), `cut`, `spoilt`, or with `more` behind it |
/// | `/early/read` | 413 before the body is read; then it is read |
/// | `/early/half-close` | 413 with `Connection: close` before the body is read, then FIN; the body is read |
/// | `/early/deaf` | 413 before the body is read, and nothing is ever read again |
/// | `/early/echo` | 200 before the body is read, which is sent back in chunks as it comes |
/// | `/continue`, `/early-hints` | 100 or 103 before the 200 |
/// | `/204`, `/304` | no body |
/// | `/204-chunked`, `/304-length` | no body, but headers that speak of one |
/// | `/chunked` | 200 in chunks |
/// | `/until-close` | 200 without a length, `Connection: close` |
/// | `/close-after` | 200, then closed without having said so |
/// | `/after/{n}/{path}` | the first n requests are `/ok`, all later ones are `{path}` |
/// | `/every/{n}/{path}` | each n-th request is `{path}`, the others are `/ok` |
///
/// Streams, as `/stream/{what}/{format}` with a [`StreamFormat`](crate::StreamFormat)'s name;
/// five items `{"message":"word 1 "}`, each an HTTP chunk, `[DONE]` behind them in `sse`:
///
/// | what | what happens |
/// |---|---|
/// | `complete` | all of it |
/// | `bytes` | each byte is a chunk |
/// | `one-write` | all in one write |
/// | `chat` | role, reasoning, then words; 30 ms before each |
/// | `unterminated` | nothing behind the last item: no marker, blank line or line feed |
/// | `short`, `empty` | a proper end after three items, or none |
/// | `meaningless` | five empty messages |
/// | `half-item` | a proper end in the middle of the fifth item |
/// | `cut`, `reset` | closed or reset in the middle of the fourth item |
/// | `early-close` | closed behind the head |
/// | `garbage` | `oops` as the third item |
/// | `wrong-item` | a number for a message in the third item |
/// | `after-the-end` | an item behind the end marker |
/// | `endless` | a second item that goes on for 8 MiB |
/// | `silent` | nothing more after two items |
/// | `wrong-type` | all of it, called `application/json` |
///
/// `/stream-cut/{n}/{format}` is the body of `complete` without chunks, closed after n bytes.
///
/// Frames, as `/framing/{name}`, are named by [`RIGHT_FRAMES`] (`obs-fold`, `trailers`,
/// `then-answer`: with a second answer that nobody asked for, …) and [`WRONG_FRAMES`]
/// (`two-lengths`, `chunk-overflow`, `endless-head`, …). Behind a wrong head the server waits.
///
/// HEAD gets the head only.
#[derive(Debug)]
pub struct FaultyServer {
    kind: Kind,
    counts: Arc<Counts>,
}

/// What the server has seen.
#[derive(Debug, Default)]
struct Counts {
    paths: Mutex<BTreeMap<String, FaultyCounts>>,
    received: Mutex<Vec<Received>>,
    bytes_sent: AtomicU64,
}

#[derive(Debug)]
enum Kind {
    Serving(Peer),
    /// Bound, not listening.
    Refusing(
        SocketAddr,
        #[expect(dead_code, reason = "holds the port")] OwnedFd,
    ),
    /// Listening with a full queue.
    Full {
        address: SocketAddr,
        #[expect(dead_code, reason = "listens")]
        listener: OwnedFd,
        #[expect(dead_code, reason = "fill the queue")]
        queued: Vec<TcpStream>,
    },
}

/// What one path has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultyCounts {
    /// Requests read in full; those below `/early` are counted by their head.
    pub requests: u64,
    /// Those of them that met another answer than `/ok`'s.
    pub faults: u64,
}

/// One request, as the server got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Method.
    pub method: String,
    /// Path without its query.
    pub path: String,
    /// Its `Authorization`.
    pub authorization: Option<String>,
    /// Its `Cookie`.
    pub cookie: Option<String>,
    /// Its `Accept-Encoding`.
    pub accept_encoding: Option<String>,
    /// Its body, or the beginning of a long one; empty below `/early`.
    pub body: Vec<u8>,
}

impl FaultyServer {
    /// Starts the server.
    ///
    /// # Errors
    /// When the system refuses the socket or the thread.
    pub fn start(behaviour: Behaviour) -> io::Result<Self> {
        let counts = Arc::new(Counts::default());
        let kind = match behaviour {
            Behaviour::Refuse => {
                let (address, socket) = take_port()?;
                Kind::Refusing(address, socket)
            }
            Behaviour::Full => full()?,
            _ => return Self::serve(Ipv4Addr::LOCALHOST.into(), behaviour, counts),
        };
        Ok(Self { kind, counts })
    }

    /// Starts a server of [`Behaviour::Paths`] on another address of this machine, as `::1`.
    ///
    /// # Errors
    /// When there is no such address, or the system refuses the socket or the thread.
    pub fn start_at(ip: IpAddr) -> io::Result<Self> {
        Self::serve(ip, Behaviour::Paths, Arc::default())
    }

    fn serve(ip: IpAddr, behaviour: Behaviour, counts: Arc<Counts>) -> io::Result<Self> {
        let handler = Handler {
            behaviour,
            counts: Arc::clone(&counts),
        };
        let peer = Peer::start_at(ip, "faulty", move |door, stream| {
            handler.serve(door, stream)
        })?;
        Ok(Self {
            kind: Kind::Serving(peer),
            counts,
        })
    }

    /// Where it listens, or doesn't.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        match &self.kind {
            Kind::Serving(peer) => peer.address(),
            Kind::Refusing(address, _) | Kind::Full { address, .. } => *address,
        }
    }

    /// `http://…` without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// Ends as a crash would, from outside: the port is closed and every connection ends.
    pub fn die(&self) {
        if let Kind::Serving(peer) = &self.kind {
            peer.door().close();
        }
    }

    /// Connections accepted so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        match &self.kind {
            Kind::Serving(peer) => peer.accepted(),
            Kind::Refusing(..) | Kind::Full { .. } => 0,
        }
    }

    /// Connections that stand now, and the most that stood at the same time. One stands until
    /// both sides have closed, where the server waits for the client's end.
    #[must_use]
    pub fn connections_open(&self) -> (u64, u64) {
        match &self.kind {
            Kind::Serving(peer) => peer.open(),
            Kind::Refusing(..) | Kind::Full { .. } => (0, 0),
        }
    }

    /// Bytes of answers, heads included, that were handed to the kernel so far.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.counts.bytes_sent.load(Ordering::SeqCst)
    }

    /// What a path (as requested, without the query) has seen so far.
    #[must_use]
    pub fn counts(&self, path: &str) -> FaultyCounts {
        lock(&self.counts.paths)
            .get(path)
            .copied()
            .unwrap_or_default() // never requested
    }

    /// The first requests, on all paths, in their order; a hundred of them at most.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        lock(&self.counts.received).clone()
    }

    /// Requests on all paths so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        lock(&self.counts.paths)
            .values()
            .map(|counts| counts.requests)
            .sum()
    }
}

struct Handler {
    behaviour: Behaviour,
    counts: Arc<Counts>,
}

impl Handler {
    fn serve(&self, door: &Door, stream: &TcpStream) -> io::Result<()> {
        match self.behaviour {
            Behaviour::Silent => wait_for_the_clients_end(stream),
            Behaviour::CloseOnAccept => Ok(()),
            Behaviour::ResetOnAccept => reset_when_closed(stream),
            Behaviour::Refuse | Behaviour::Full | Behaviour::Paths => {
                self.answer_all(door, stream, None)
            }
            Behaviour::DiesAfter(answers) => self.answer_all(door, stream, Some(answers)),
        }
    }

    fn answer_all(&self, door: &Door, stream: &TcpStream, answers: Option<u64>) -> io::Result<()> {
        let mut requests = Requests::of(stream);
        while let Some((mut request, length)) = requests.head()? {
            let is_early = request.path.split('/').nth(1) == Some(EARLY);
            if !is_early {
                request.body = requests.body(length)?;
            }
            let Some(fault) = self.choose(&request, answers) else {
                door.close();
                return Ok(());
            };
            let ending = self.answer(stream, &request, &fault)?;
            match ending {
                Ending::KeepOpen if request.keep_alive => {}
                Ending::KeepOpen | Ending::Close => return Ok(()),
                Ending::Reset => return reset_when_closed(stream),
                Ending::Hang => return wait_for_the_clients_end(stream),
                Ending::HalfClose => {
                    stream.shutdown(Shutdown::Write)?;
                    return wait_for_the_clients_end(stream);
                }
                Ending::Endless(text) => return self.write_for_ever(stream, text),
                Ending::Deaf => return wait_for_the_clients_end_deaf(stream),
                Ending::Echo => {
                    self.echo(stream, &mut requests, &request, length)?;
                    if request.keep_alive {
                        continue;
                    }
                    return Ok(());
                }
            }
            if is_early {
                requests.body(length)?;
            }
        }
        Ok(())
    }

    /// Counts the request and says how to answer it; `None` when the server has to die of it.
    fn choose(&self, request: &Request, answers: Option<u64>) -> Option<Fault> {
        self.keep(request);
        let mut counts = lock(&self.counts.paths);
        let so_far: u64 = counts.values().map(|counts| counts.requests).sum();
        let count = counts.entry(request.path.clone()).or_default();
        count.requests += 1;
        let fault = Fault::of(&request.path, count.requests);
        if answers.is_some_and(|answers| so_far >= answers) {
            count.faults += 1;
            return None;
        }
        count.faults += u64::from(fault != Fault::Fine);
        Some(fault)
    }

    fn keep(&self, request: &Request) {
        let mut received = lock(&self.counts.received);
        if received.len() < RECEIVED_MAX {
            received.push(Received {
                method: request.method.clone(),
                path: request.path.clone(),
                authorization: request.authorization.clone(),
                cookie: request.cookie.clone(),
                accept_encoding: request.accept_encoding.clone(),
                body: request.body.clone(),
            });
        }
    }

    fn answer(&self, stream: &TcpStream, request: &Request, fault: &Fault) -> io::Result<Ending> {
        let script = fault.script();
        if script.ending == Ending::Close && script.pieces.len() == 1 {
            leave_with_the_end(stream)?;
        }
        for piece in &script.pieces {
            std::thread::sleep(piece.after);
            let head_only = request.method == "HEAD" && script.is_http;
            let end = || {
                let mut fours = piece.bytes.windows(4);
                fours.position(|four| four == b"\r\n\r\n")
            };
            if head_only
                && !piece.is_interim
                && let Some(end) = end()
            {
                self.write(stream, &piece.bytes[..end + 4])?;
                return Ok(script.ending);
            }
            for _ in 0..piece.times {
                self.write(stream, &piece.bytes)?;
            }
        }
        Ok(script.ending)
    }

    fn write(&self, mut stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
        // Before the client can have them, so that it never has more than is counted here.
        let bytes_count = bytes.len() as u64;
        self.counts
            .bytes_sent
            .fetch_add(bytes_count, Ordering::SeqCst);
        stream.write_all(bytes)
    }

    /// The body of an answer whose head is out: the request's, in chunks as it comes.
    fn echo(
        &self,
        stream: &TcpStream,
        requests: &mut Requests<&TcpStream>,
        request: &Request,
        length: u64,
    ) -> io::Result<()> {
        if request.method == "HEAD" {
            return requests.body(length).map(drop);
        }
        requests.pass_on(length, |bytes| {
            let size = format!("{:x}\r\n", bytes.len());
            self.write(stream, &[size.as_bytes(), bytes, b"\r\n"].concat())
        })?;
        self.write(stream, b"0\r\n\r\n")
    }

    /// Until the client, who is the only one that can end it, has gone.
    fn write_for_ever(&self, stream: &TcpStream, text: &str) -> io::Result<()> {
        const BLOCK: usize = 16 << 10;
        let block = text.repeat(BLOCK.div_ceil(text.len()));
        loop {
            self.write(stream, block.as_bytes())?;
        }
    }
}

/// Reads and ignores until the client closes or the server ends.
fn wait_for_the_clients_end(mut stream: &TcpStream) -> io::Result<()> {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer)? > 0 {}
    Ok(())
}

/// A loopback port that is taken, so that nobody else gets it, and refuses connections.
fn take_port() -> io::Result<(SocketAddr, OwnedFd)> {
    let socket = socket(
        AddressFamily::Inet,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    let any = SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));
    bind(socket.as_raw_fd(), &any)?;
    let address: SockaddrIn = getsockname(socket.as_raw_fd())?;
    Ok((address.into(), socket))
}

/// A listener whose queue nobody empties any more.
fn full() -> io::Result<Kind> {
    let (address, listener) = take_port()?;
    listen(&listener, Backlog::new(0)?)?;
    let mut queued = vec![];
    while queued.len() < QUEUED_MAX {
        match TcpStream::connect_timeout(&address, QUEUED_WITHIN) {
            Ok(stream) => queued.push(stream),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Ok(Kind::Full {
                    address,
                    listener,
                    queued,
                });
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(
        "this kernel's queue of connections has no end, so it can't be filled",
    ))
}

/// The answer that is never wrong, byte for byte: what `/ok` gets.
#[must_use]
pub fn right_answer() -> String {
    json_answer("200 OK", r#"{"status":"ok"}"#)
}
