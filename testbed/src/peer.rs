//! A server on threads, one per connection, for peers whose behaviour must be exact: a runtime's
//! timers and buffers would stand between the peer and the socket.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::prctl::set_timerslack;
use nix::sys::socket::{setsockopt, sockopt};

/// A running peer. Dropping it closes the port, then every connection.
#[derive(Debug)]
pub(crate) struct Peer {
    door: Arc<Door>,
    thread: Option<JoinHandle<()>>,
}

/// What a connection's handler may know and do about its server.
#[derive(Debug)]
pub(crate) struct Door {
    address: SocketAddr,
    closed: AtomicBool,
    port_closed: OnceLock<()>,
    accepted: AtomicU64,
    open: AtomicU64,
    open_max: AtomicU64,
    /// Weak, so that a connection closes when its handler is done with it.
    connections: Mutex<Vec<Weak<TcpStream>>>,
}

impl Peer {
    /// Serves on a free loopback port; `name` (15 characters at most) is the threads'.
    ///
    /// # Errors
    /// When the system refuses the socket or the thread.
    pub(crate) fn start<H>(name: &'static str, handler: H) -> io::Result<Self>
    where
        H: Fn(&Door, &TcpStream) -> io::Result<()> + Send + Sync + 'static,
    {
        Self::start_at(Ipv4Addr::LOCALHOST.into(), name, handler)
    }

    /// The same on another address of this machine.
    ///
    /// # Errors
    /// When there is no such address, or the system refuses the socket or the thread.
    pub(crate) fn start_at<H>(ip: IpAddr, name: &'static str, handler: H) -> io::Result<Self>
    where
        H: Fn(&Door, &TcpStream) -> io::Result<()> + Send + Sync + 'static,
    {
        let listener = TcpListener::bind((ip, 0))?;
        let door = Arc::new(Door {
            address: listener.local_addr()?,
            closed: AtomicBool::new(false),
            port_closed: OnceLock::new(),
            accepted: AtomicU64::new(0),
            open: AtomicU64::new(0),
            open_max: AtomicU64::new(0),
            connections: Mutex::default(),
        });
        let (for_thread, handler) = (Arc::clone(&door), Arc::new(handler));
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                accept(name, &listener, &for_thread, &handler);
                drop(listener);
                for_thread.port_closed.get_or_init(|| ());
            })?;
        Ok(Self {
            door,
            thread: Some(thread),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.door.address
    }

    /// Connections accepted so far.
    pub(crate) fn accepted(&self) -> u64 {
        self.door.accepted.load(Ordering::SeqCst)
    }

    /// Connections that stand now, and the most that stood at the same time.
    pub(crate) fn open(&self) -> (u64, u64) {
        let open_max = self.door.open_max.load(Ordering::SeqCst);
        (self.door.open.load(Ordering::SeqCst), open_max)
    }

    pub(crate) fn door(&self) -> &Door {
        &self.door
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.door.close();
        if let Some(thread) = self.thread.take() {
            // A panic of the accepting thread has been printed; the port is closed all the same.
            let _ = thread.join();
        }
    }
}

/// One connection, from its acceptance to its end.
struct Counted(Arc<Door>);

impl Counted {
    fn accepted(door: &Arc<Door>) -> Self {
        door.accepted.fetch_add(1, Ordering::SeqCst);
        let open = door.open.fetch_add(1, Ordering::SeqCst) + 1;
        door.open_max.fetch_max(open, Ordering::SeqCst);
        Self(Arc::clone(door))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Door {
    /// Ends the server as a crash would: no new connections, and the open ones end.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        // Wakes the accepting thread; refused when it has ended already.
        let _ = TcpStream::connect(self.address);
        // First the port, so that whoever sees a connection end can't connect any more, and every
        // accepted connection is in the list.
        self.port_closed.wait();
        for stream in lock(&self.connections)
            .drain(..)
            .filter_map(|weak| weak.upgrade())
        {
            // An error says that the other side was faster.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn accept<H>(name: &'static str, listener: &TcpListener, door: &Arc<Door>, handler: &Arc<H>)
where
    H: Fn(&Door, &TcpStream) -> io::Result<()> + Send + Sync + 'static,
{
    for stream in listener.incoming() {
        if door.closed.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream.map(Arc::new) else {
            continue;
        };
        let counted = Counted::accepted(door);
        let mut connections = lock(&door.connections);
        connections.retain(|weak| weak.strong_count() > 0);
        connections.push(Arc::downgrade(&stream));
        drop(connections);
        let handler = Arc::clone(handler);
        let spawned = thread::Builder::new().name(name.to_owned()).spawn(move || {
            // Ends after the stream, which is the later of the two.
            let (counted, stream) = (counted, stream);
            // Clients that leave are the daily business of these peers.
            let _ = stream
                .set_nodelay(true)
                .and_then(|()| handler(&counted.0, &stream));
        });
        // Without a thread the connection is closed, and its client will say so.
        drop(spawned);
    }
}

/// Lets this thread wake up on time: the usual slack of 50 µs would delay every sleep's end
/// (prctl(2), `PR_SET_TIMERSLACK`).
pub(crate) fn wake_on_time() -> io::Result<()> {
    Ok(set_timerslack(1)?)
}

/// Sleeps until then, and never shorter.
pub(crate) fn sleep_until(due: Instant) {
    while let Some(left) = due
        .checked_duration_since(Instant::now())
        .filter(|left| !left.is_zero())
    {
        thread::sleep(left);
    }
}

/// Waits until the client closes its direction or the connection is gone, without reading a byte.
pub(crate) fn wait_for_the_clients_end_deaf(stream: &TcpStream) -> io::Result<()> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    // EPOLLHUP and EPOLLERR are always told.
    epoll.add(stream, EpollEvent::new(EpollFlags::EPOLLRDHUP, 0))?;
    loop {
        match epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            waited => return Ok(waited.map(drop)?),
        }
    }
}

/// The data behind a lock that no panic can leave half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the close that follows send RST instead of FIN (socket(7), `SO_LINGER`).
pub(crate) fn reset_when_closed(stream: &TcpStream) -> io::Result<()> {
    let linger = nix::libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    Ok(setsockopt(stream, sockopt::Linger, &linger)?)
}

/// Holds back what is written from now on until the end of the connection can go with it (tcp(7),
/// `TCP_CORK`): a server that closes behind its answer, on a machine where it gets no core between
/// the two, would else let a client send into a connection that is about to end.
pub(crate) fn leave_with_the_end(stream: &TcpStream) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_tcp_cork(stream, true)?)
}
