//! The delay proxy's one thread: epoll for the sockets, a timerfd for what is due.
//!
//! All chunks wait equally long, so a plain queue is in the order of their due times and no heap is
//! needed. A timerfd isn't rounded by the thread's timer slack, as sleeping is (50 µs), nor to
//! milliseconds, as the runtimes' timers are. One thread for all connections: a thread for each
//! direction would wake as often and switch more, on cores that the measured service needs.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, connect, socket};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::peer::reset_when_closed;
use crate::proxied_connection::{End, Key, Slot, ends_of};

/// What one connection may have on its way in one direction before its sender has to wait.
const IN_FLIGHT_BYTES_MAX: usize = 4 << 20;
const CHUNK_BYTES_MAX: usize = 64 << 10;
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(50);
const EVENTS_PER_WAIT: usize = 128;

const LISTENER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
const STOP: u64 = u64::MAX - 2;

const CLIENT: usize = 0;
const TARGET: usize = 1;

#[derive(Debug)]
enum Parcel {
    Chunk(Vec<u8>),
    HalfClose,
    Reset,
}

/// Something on its way to an end.
#[derive(Debug)]
struct Transit {
    due: Instant,
    key: Key,
    to: usize,
    parcel: Parcel,
}

/// The state of the proxy's thread.
#[derive(Debug)]
pub(crate) struct ProxyLoop {
    listener: TcpListener,
    target: SocketAddr,
    round_trip: Duration,
    stop: Arc<EventFd>,
    epoll: Epoll,
    timer: TimerFd,
    armed_for: Option<Instant>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Accepted connections that wait for their first round trip, by due time.
    opening: VecDeque<(Instant, Key)>,
    /// What waits for half a round trip, by due time.
    transit: VecDeque<Transit>,
    /// Set while the process is out of descriptors: a listener that stays readable would spin.
    accept_again: Option<Instant>,
    buffer: Vec<u8>,
}

impl ProxyLoop {
    pub(crate) fn new(
        listener: TcpListener,
        target: SocketAddr,
        round_trip: Duration,
        stop: Arc<EventFd>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
        epoll.add(&*stop, EpollEvent::new(EpollFlags::EPOLLIN, STOP))?;
        // By edge: setting the timer anew is then all there is to do, it needs no reading.
        let edge = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
        epoll.add(&timer, EpollEvent::new(edge, TIMER))?;
        Ok(Self {
            listener,
            target,
            round_trip,
            stop,
            epoll,
            timer,
            armed_for: None,
            slots: Vec::new(),
            free: Vec::new(),
            opening: VecDeque::new(),
            transit: VecDeque::new(),
            accept_again: None,
            buffer: vec![0; CHUNK_BYTES_MAX],
        })
    }

    /// Serves until the stop event.
    ///
    /// # Errors
    /// When epoll or the timer fail; a connection's failures end only that connection.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = [EpollEvent::empty(); EVENTS_PER_WAIT];
        loop {
            self.deliver()?;
            self.arm()?;
            let count = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Err(Errno::EINTR) => continue,
                other => other?,
            };
            for event in &events[..count] {
                match event.data() {
                    STOP => {
                        self.stop.read()?;
                        return Ok(());
                    }
                    TIMER => {}
                    LISTENER => self.accept()?,
                    token => {
                        let (key, end) = Key::from_token(token);
                        self.ready(key, end, event.events())?;
                    }
                }
            }
        }
    }

    /// Sets the timer to what is due next, unless it's set to that already.
    fn arm(&mut self) -> io::Result<()> {
        let opening = self.opening.front().map(|(due, _)| *due);
        let transit = self.transit.front().map(|transit| transit.due);
        let next = [opening, transit, self.accept_again]
            .into_iter()
            .flatten()
            .min();
        if next == self.armed_for {
            return Ok(());
        }
        self.armed_for = next;
        let Some(due) = next else { return Ok(()) };
        // A zero would disarm.
        let wait = due
            .saturating_duration_since(Instant::now())
            .max(Duration::from_nanos(1));
        let expiration = Expiration::OneShot(TimeSpec::from_duration(wait));
        Ok(self.timer.set(expiration, TimerSetTimeFlags::empty())?)
    }

    /// Hands over all that is due.
    fn deliver(&mut self) -> io::Result<()> {
        let now = Instant::now();
        if self.accept_again.take_if(|due| *due <= now).is_some() {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, LISTENER);
            self.epoll.add(&self.listener, event)?;
        }
        while let Some((_, key)) = self.opening.pop_front_if(|(due, _)| *due <= now) {
            self.renew_interest(key)?;
        }
        while let Some(transit) = self.transit.pop_front_if(|transit| transit.due <= now) {
            self.arrive(transit)?;
        }
        Ok(())
    }

    fn arrive(&mut self, transit: Transit) -> io::Result<()> {
        let Transit {
            key, to, parcel, ..
        } = transit;
        let Some(ends) = self.ends(key) else {
            return Ok(());
        };
        let end = &mut ends[to];
        match parcel {
            Parcel::Chunk(bytes) if !end.write_ended => end.to_send.push_back(bytes),
            Parcel::Chunk(_) => {} // its receiver is gone
            Parcel::HalfClose => end.closing = true,
            Parcel::Reset => {
                // Refused only for a socket that is broken.
                let _ = reset_when_closed(&end.stream);
                self.remove(key);
                return Ok(());
            }
        }
        self.flush(key, to)
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((client, _)) => self.open(client)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if is_out_of_descriptors(&error) => {
                    self.accept_again = Some(Instant::now() + ACCEPT_AGAIN_AFTER);
                    return Ok(self.epoll.delete(&self.listener)?);
                }
                // A client that left before it was accepted (accept(2), "Error handling").
                Err(_) => {}
            }
        }
    }

    /// Takes a client in; it is read from one round trip later.
    fn open(&mut self, client: TcpStream) -> io::Result<()> {
        let Ok(target) = begin_connect(self.target) else {
            return Ok(()); // out of descriptors or ports: the client sees its connection closed
        };
        let ready = client
            .set_nonblocking(true)
            .and_then(|()| client.set_nodelay(true))
            .and_then(|()| target.set_nodelay(true));
        if ready.is_err() {
            return Ok(()); // broken already
        }
        let ends = Some([End::new(client), End::new(target)]);
        let index = if let Some(index) = self.free.pop() {
            self.slots[index].ends = ends;
            index
        } else {
            self.slots.push(Slot {
                generation: 0,
                ends,
            });
            self.slots.len() - 1
        };
        let key = Key {
            index,
            generation: self.slots[index].generation,
        };
        self.opening
            .push_back((Instant::now() + self.round_trip, key));
        Ok(())
    }

    fn ready(&mut self, key: Key, end: usize, events: EpollFlags) -> io::Result<()> {
        if events.contains(EpollFlags::EPOLLOUT) {
            self.flush(key, end)?;
        }
        let broken = EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP;
        if events.intersects(EpollFlags::EPOLLIN | broken) {
            let Some(ends) = self.ends(key) else {
                return Ok(());
            };
            if !ends[end].read_ended {
                return self.read(key, end);
            }
            if events.intersects(broken) {
                // Nothing more to read and broken: nothing can be written either.
                return self.fail(key, end);
            }
        }
        Ok(())
    }

    /// Reads one chunk and sends it on its way; epoll says when there is more.
    fn read(&mut self, key: Key, from: usize) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let outcome = self
            .ends(key)
            .map(|ends| ends[from].stream.read(&mut buffer));
        let parcel = match &outcome {
            Some(Ok(count)) if *count > 0 => Some(Parcel::Chunk(buffer[..*count].to_vec())),
            Some(Ok(_)) => Some(Parcel::HalfClose),
            _ => None,
        };
        self.buffer = buffer;
        match (outcome, parcel) {
            (_, Some(parcel)) => self.send(key, from, parcel),
            (Some(Err(error)), None) if !is_passing(&error) => self.fail(key, from),
            _ => Ok(()),
        }
    }

    /// Puts a parcel on its way from one end to the other.
    fn send(&mut self, key: Key, from: usize, parcel: Parcel) -> io::Result<()> {
        let due = Instant::now() + self.round_trip / 2;
        let to = CLIENT + TARGET - from;
        let Some(ends) = self.ends(key) else {
            return Ok(());
        };
        match &parcel {
            Parcel::Chunk(bytes) => ends[to].in_flight_bytes += bytes.len(),
            Parcel::HalfClose | Parcel::Reset => ends[from].read_ended = true,
        }
        self.transit.push_back(Transit {
            due,
            key,
            to,
            parcel,
        });
        self.renew_interest(key)
    }

    /// An end is broken: the other one hears of it in its time.
    fn fail(&mut self, key: Key, end: usize) -> io::Result<()> {
        let Some(ends) = self.ends(key) else {
            return Ok(());
        };
        ends[end].write_ended = true;
        ends[end].to_send.clear();
        ends[end].in_flight_bytes = 0;
        self.send(key, end, Parcel::Reset)
    }

    fn flush(&mut self, key: Key, end: usize) -> io::Result<()> {
        let Some(ends) = self.ends(key) else {
            return Ok(());
        };
        if ends[end].flush().is_err() {
            return self.fail(key, end);
        }
        if ends.iter().all(|end| end.write_ended && end.read_ended) {
            self.remove(key);
            return Ok(());
        }
        self.renew_interest(key)
    }

    /// Asks epoll for what each end of the connection can use now.
    fn renew_interest(&mut self, key: Key) -> io::Result<()> {
        let Some(ends) = ends_of(&mut self.slots, key) else {
            return Ok(());
        };
        let has_room =
            [TARGET, CLIENT].map(|other| ends[other].in_flight_bytes < IN_FLIGHT_BYTES_MAX);
        for (index, (end, has_room)) in ends.iter_mut().zip(has_room).enumerate() {
            let mut wanted = EpollFlags::empty();
            wanted.set(EpollFlags::EPOLLIN, !end.read_ended && has_room);
            wanted.set(
                EpollFlags::EPOLLOUT,
                !end.write_ended && !end.to_send.is_empty(),
            );
            // A finished end would be reported as hung up for ever.
            let wanted = (!end.read_ended || !end.write_ended).then_some(wanted);
            if wanted == end.interest {
                continue;
            }
            let token = key.token(index);
            match (end.interest, wanted) {
                (None, Some(flags)) => {
                    self.epoll.add(&end.stream, EpollEvent::new(flags, token))?
                }
                (Some(_), Some(flags)) => {
                    self.epoll
                        .modify(&end.stream, &mut EpollEvent::new(flags, token))?;
                }
                (_, None) => self.epoll.delete(&end.stream)?,
            }
            end.interest = wanted;
        }
        Ok(())
    }

    /// Closes both ends; what is still on its way to them is dropped when it's due.
    fn remove(&mut self, key: Key) {
        let slot = &mut self.slots[key.index];
        slot.ends = None;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.index);
    }

    fn ends(&mut self, key: Key) -> Option<&mut [End; 2]> {
        ends_of(&mut self.slots, key)
    }
}

/// Begins to connect; epoll tells the outcome, as a writable or a broken socket.
fn begin_connect(target: SocketAddr) -> io::Result<TcpStream> {
    let family = if target.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(family, SockType::Stream, flags, None)?;
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(target)) {
        // Refused at once: kept, for the client to hear of it after the round trip it costs.
        Ok(()) | Err(Errno::EINPROGRESS | Errno::ECONNREFUSED) => Ok(TcpStream::from(socket)),
        Err(errno) => Err(errno.into()),
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(
        errno,
        Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM)
    )
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
