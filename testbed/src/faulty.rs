//! The torture server: misbehaves in every way a load engine must survive, and counts, so that a
//! test knows the exact numbers the engine has to report.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, getsockname, socket};

use crate::fault::{Ending, Fault};
use crate::http_message::{Request, Requests, json_answer};
use crate::peer::{Door, Peer, lock, reset_when_closed};

/// How the whole server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Each path in its own way; see [`FaultyServer`].
    Paths,
    /// The port is taken but nobody listens: connections are refused.
    Refuse,
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
/// HEAD gets the head only.
#[derive(Debug)]
pub struct FaultyServer {
    kind: Kind,
    counts: Arc<Mutex<BTreeMap<String, FaultyCounts>>>,
}

#[derive(Debug)]
enum Kind {
    Serving(Peer),
    /// Bound, not listening.
    Refusing(
        SocketAddr,
        #[expect(dead_code, reason = "holds the port")] OwnedFd,
    ),
}

/// What one path has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultyCounts {
    /// Requests read in full.
    pub requests: u64,
    /// Those of them that met another answer than `/ok`'s.
    pub faults: u64,
}

impl FaultyServer {
    /// Starts the server.
    ///
    /// # Errors
    /// When the system refuses the socket or the thread.
    pub fn start(behaviour: Behaviour) -> io::Result<Self> {
        let counts = Arc::new(Mutex::new(BTreeMap::new()));
        let kind = match behaviour {
            Behaviour::Refuse => {
                let (address, socket) = take_port()?;
                Kind::Refusing(address, socket)
            }
            _ => {
                let handler = Handler {
                    behaviour,
                    counts: Arc::clone(&counts),
                };
                Kind::Serving(Peer::start("faulty", move |door, stream| {
                    handler.serve(door, stream)
                })?)
            }
        };
        Ok(Self { kind, counts })
    }

    /// Where it listens, or doesn't.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        match &self.kind {
            Kind::Serving(peer) => peer.address(),
            Kind::Refusing(address, _) => *address,
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
            Kind::Refusing(..) => 0,
        }
    }

    /// What a path (as requested, without the query) has seen so far.
    #[must_use]
    pub fn counts(&self, path: &str) -> FaultyCounts {
        lock(&self.counts).get(path).copied().unwrap_or_default() // never requested
    }

    /// Requests on all paths so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        lock(&self.counts)
            .values()
            .map(|counts| counts.requests)
            .sum()
    }
}

struct Handler {
    behaviour: Behaviour,
    counts: Arc<Mutex<BTreeMap<String, FaultyCounts>>>,
}

impl Handler {
    fn serve(&self, door: &Door, stream: &TcpStream) -> io::Result<()> {
        match self.behaviour {
            Behaviour::Silent => wait_for_the_clients_end(stream),
            Behaviour::CloseOnAccept => Ok(()),
            Behaviour::ResetOnAccept => reset_when_closed(stream),
            Behaviour::Refuse | Behaviour::Paths => self.answer_all(door, stream, None),
            Behaviour::DiesAfter(answers) => self.answer_all(door, stream, Some(answers)),
        }
    }

    fn answer_all(&self, door: &Door, stream: &TcpStream, answers: Option<u64>) -> io::Result<()> {
        let mut requests = Requests::of(stream);
        while let Some(request) = requests.next()? {
            let Some(fault) = self.choose(&request, answers) else {
                door.close();
                return Ok(());
            };
            let ending = answer(stream, &request, &fault)?;
            match ending {
                Ending::KeepOpen if request.keep_alive => {}
                Ending::KeepOpen | Ending::Close => return Ok(()),
                Ending::Reset => return reset_when_closed(stream),
                Ending::Hang => return wait_for_the_clients_end(stream),
            }
        }
        Ok(())
    }

    /// Counts the request and says how to answer it; `None` when the server has to die of it.
    fn choose(&self, request: &Request, answers: Option<u64>) -> Option<Fault> {
        let mut counts = lock(&self.counts);
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
}

fn answer(mut stream: &TcpStream, request: &Request, fault: &Fault) -> io::Result<Ending> {
    let script = fault.script();
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
            stream.write_all(&piece.bytes[..end + 4])?;
            return Ok(script.ending);
        }
        stream.write_all(&piece.bytes)?;
    }
    Ok(script.ending)
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

/// The answer that is never wrong.
pub(crate) fn fine() -> String {
    json_answer("200 OK", r#"{"status":"ok"}"#)
}
