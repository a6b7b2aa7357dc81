//! A code host that is watched at one of its routes, where it can misbehave: before a stub that
//! answers properly.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use unstall_testbed::{Hub, HubStub};

/// What happens at the watched route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// The proper answer.
    Right,
    /// The proper answer, once so many calls wait for it together.
    Together(usize),
    /// These bytes, whatever they are, then the connection's end.
    Bytes(&'static str),
    /// 200 and a JSON text that goes on for so many bytes.
    Long(usize),
    /// 200 and a full page, whatever page is asked for.
    FullPage,
    /// Nothing.
    Hang,
    /// 200 and a byte now and then.
    Drip,
}

#[derive(Debug, Default)]
struct Watch {
    /// Which watch it is: a request of an earlier one may end in a later one.
    number: u64,
    requests: u64,
    now: usize,
    at_once_max: usize,
    /// Whose client closed before it had an answer.
    left: u64,
}

struct Shared {
    stub: SocketAddr,
    /// Method and the path's beginning.
    route: Mutex<(&'static str, At)>,
    watch: Mutex<Watch>,
    changed: Condvar,
}

/// The hub. Its threads end with the test's process.
pub(crate) struct WatchedHub {
    _stub: HubStub,
    pub(crate) url: String,
    shared: Arc<Shared>,
}

impl WatchedHub {
    pub(crate) fn start(hub: Hub) -> Self {
        let stub = HubStub::start(Duration::ZERO, hub).expect("a stub");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let shared = Arc::new(Shared {
            stub: stub.addr(),
            route: Mutex::new(("nothing", At::Right)),
            watch: Mutex::default(),
            changed: Condvar::new(),
        });
        let for_thread = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.expect("a client");
                let shared = Arc::clone(&for_thread);
                // Clients break off, as some tests want them to.
                thread::spawn(move || drop(shared.answer(&client)));
            }
        });
        Self {
            _stub: stub,
            url,
            shared,
        }
    }

    /// From now on, at requests that begin like this.
    pub(crate) fn watch(&self, route: &'static str, at: At) {
        *lock(&self.shared.route) = (route, at);
        let mut watch = lock(&self.shared.watch);
        *watch = Watch {
            number: watch.number + 1,
            ..Watch::default()
        };
    }

    /// Requests at the route, and the most that were there at the same time.
    pub(crate) fn seen(&self) -> (u64, usize) {
        let watch = lock(&self.shared.watch);
        (watch.requests, watch.at_once_max)
    }

    /// Requests whose client left before it had an answer.
    pub(crate) fn left(&self) -> u64 {
        lock(&self.shared.watch).left
    }
}

impl Shared {
    fn answer(&self, client: &TcpStream) -> io::Result<()> {
        let head = head(client)?;
        let (route, at) = *lock(&self.route);
        if !head.starts_with(route) {
            return relay(self.stub, &head, client);
        }
        let mut watch = lock(&self.watch);
        watch.requests += 1;
        watch.now += 1;
        watch.at_once_max = watch.at_once_max.max(watch.now);
        self.changed.notify_all();
        if let At::Together(count) = at {
            let waits = |watch: &mut Watch| watch.at_once_max < count;
            let all = self.changed.wait_while(watch, waits);
            watch = all.unwrap_or_else(PoisonError::into_inner);
        }
        let number = watch.number;
        drop(watch);
        self.answer_watched(number, &head, at, client)
    }

    fn answer_watched(
        &self,
        number: u64,
        head: &str,
        at: At,
        mut client: &TcpStream,
    ) -> io::Result<()> {
        let count_end = |left| {
            let mut watch = lock(&self.watch);
            if watch.number == number {
                watch.now -= 1;
                watch.left += left;
            }
        };
        let done = || count_end(0);
        match at {
            At::Right | At::Together(_) => {
                let answer = ask(self.stub, head)?;
                // Before the client can make the next call.
                done();
                client.write_all(&answer)
            }
            At::Bytes(bytes) => {
                done();
                client.write_all(bytes.as_bytes())
            }
            At::Long(length) => {
                done();
                client.write_all(ok(length).as_bytes())?;
                client.write_all(format!("[{}]", " ".repeat(length - 2)).as_bytes())
            }
            At::FullPage => {
                done();
                let page = format!("[{}]", vec![r#"{"login":"o","name":"b"}"#; 100].join(","));
                client.write_all((ok(page.len()) + &page).as_bytes())
            }
            At::Hang => {
                let ended = client.read_to_end(&mut Vec::new());
                count_end(1);
                ended.map(drop)
            }
            At::Drip => {
                done();
                client.write_all(ok(1 << 20).as_bytes())?;
                loop {
                    client.write_all(b" ")?;
                    thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ok(length: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n")
}

/// A request's head; the hub's calls have no body.
fn head(client: &TcpStream) -> io::Result<String> {
    let mut reader = BufReader::new(client);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(head)
}

fn ask(stub: SocketAddr, head: &str) -> io::Result<Vec<u8>> {
    let mut stub = TcpStream::connect(stub)?;
    let head = head.trim_end();
    stub.write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stub.read_to_end(&mut answer)?;
    Ok(answer)
}

fn relay(stub: SocketAddr, head: &str, mut client: &TcpStream) -> io::Result<()> {
    client.write_all(&ask(stub, head)?)
}
