//! A TCP proxy with a stated round-trip time: loopback alone hides what a network does to a service
//! that waits for its stores one call after another.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::proxy_loop::ProxyLoop;

/// A quick network: two machines in one data centre.
pub const DEFAULT_ROUND_TRIP: Duration = Duration::from_micros(500);

const PINGS: usize = 200;
const PINGS_FIRST: usize = 20;

/// A running proxy: `client → proxy → target`, each direction delayed by half of the round trip,
/// and one more round trip before a connection's first byte. Order, half-closes and resets are
/// kept; chunks overlap, so that the throughput isn't limited. Ends when it's dropped.
///
/// One difference from a network stays: a client's `connect` succeeds even when the target refuses;
/// the connection is then reset.
#[derive(Debug)]
pub struct DelayProxy {
    address: SocketAddr,
    round_trip: Duration,
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl DelayProxy {
    /// Starts a proxy before `target` on a free loopback port.
    ///
    /// # Errors
    /// When the system refuses a socket, a timer or a thread.
    pub fn start(target: SocketAddr, round_trip: Duration) -> io::Result<Self> {
        Self::start_at(0, target, round_trip)
    }

    /// The same on a loopback port of one's own choice; 0 takes a free one.
    ///
    /// # Errors
    /// As for [`DelayProxy::start`], or if the port is taken.
    pub fn start_at(port: u16, target: SocketAddr, round_trip: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let stop = Arc::new(EventFd::from_flags(flags)?);
        let proxy = ProxyLoop::new(listener, target, round_trip, Arc::clone(&stop))?;
        let thread = thread::Builder::new()
            .name("delay-proxy".to_owned())
            .spawn(move || proxy.run())?;
        Ok(Self {
            address,
            round_trip,
            stop,
            thread: Some(thread),
        })
    }

    /// Where clients connect to.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The stated round-trip time.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// Measures what the stated round trip is in truth on this machine at this moment: pings
    /// through a proxy of the same kind to an echo, and straight to the echo. Takes about
    /// 0.2 s at 0.5 ms.
    ///
    /// # Errors
    /// When a socket fails.
    pub fn measure(&self) -> io::Result<RoundTrip> {
        let echo = Echo::start()?;
        let proxy = Self::start(echo.address, self.round_trip)?;
        let through = ping(proxy.addr())?;
        let straight = ping(echo.address)?;
        Ok(RoundTrip {
            stated: self.round_trip,
            p50: quantile(&through, 50),
            p95: quantile(&through, 95),
            straight_p50: quantile(&straight, 50),
        })
    }
}

impl Drop for DelayProxy {
    fn drop(&mut self) {
        // Can't fail: the counter is far from its limit.
        let _ = self.stop.write(1);
        if let Some(thread) = self.thread.take() {
            // An error of the loop has reached the clients as closed connections.
            let _ = thread.join();
        }
    }
}

/// Measured round-trip times of a [`DelayProxy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// What was asked for.
    pub stated: Duration,
    /// Median of the pings through the proxy.
    pub p50: Duration,
    /// 95th percentile of the pings through the proxy.
    pub p95: Duration,
    /// Median of the pings without the proxy.
    pub straight_p50: Duration,
}

impl fmt::Display for RoundTrip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(
            f,
            "round trip stated {:.2} ms, measured p50 {:.2} ms, p95 {:.2} ms (without proxy {:.2} ms)",
            ms(self.stated),
            ms(self.p50),
            ms(self.p95),
            ms(self.straight_p50)
        )
    }
}

/// Sends back what it gets, for one connection at a time.
struct Echo {
    address: SocketAddr,
}

impl Echo {
    /// Serves two connections, the proxy's and the straight one, then ends.
    fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        thread::Builder::new()
            .name("delay-echo".to_owned())
            .spawn(move || {
                for stream in listener.incoming().take(2).flatten() {
                    // A failed ping is reported by the one who pings.
                    let _ = echo(stream);
                }
            })?;
        Ok(Self { address })
    }
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; 256];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count])?,
        }
    }
}

fn ping(address: SocketAddr) -> io::Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut times = Vec::with_capacity(PINGS);
    let mut buffer = [0; 64];
    for _ in 0..PINGS_FIRST + PINGS {
        let sent = Instant::now();
        stream.write_all(&[7; 64])?;
        stream.read_exact(&mut buffer)?;
        times.push(sent.elapsed());
    }
    stream.shutdown(Shutdown::Both)?;
    times.drain(..PINGS_FIRST);
    times.sort_unstable();
    Ok(times)
}

/// The `percent` quantile of sorted values, by nearest rank.
fn quantile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted[rank - 1]
}
