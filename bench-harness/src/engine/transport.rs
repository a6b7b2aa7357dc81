//! How bytes get to a service: an open way, and what opening it took.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use nix::sys::socket::{MsgFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio_rustls::client::TlsStream;
use unstall_results::record::{EndpointSamples, ErrorKind};
use unstall_scenarios::plan::HttpVersion;

use super::failure::Failure;
use super::target::Target;
use super::tls;

/// An open way to a service.
pub(super) enum Transport {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// What a request paid for connections, redirects to several services and all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Phases {
    /// Resolving the name, if it is one: the service's, or that of the proxy before it. However
    /// that ended: a name server that is slower than the timeout must show here.
    pub(super) dns: Option<Duration>,
    /// Until a connection to the service stood: failed addresses before the right one, and a
    /// proxy's opening of its tunnel, are part of it. Only of those that stood: where none does,
    /// the failure says so, and the time until a refusal tells nothing of what connecting takes.
    pub(super) tcp: Option<Duration>,
    /// The handshake of TLS, however it ended.
    pub(super) tls: Option<Duration>,
}

/// Times a phase until it is over, also where that is a failure, or its deadline drops it.
struct Timed<'p> {
    took: &'p mut Option<Duration>,
    begun: Instant,
}

impl<'p> Timed<'p> {
    fn begin(took: &'p mut Option<Duration>) -> Self {
        Self {
            took,
            begun: Instant::now(),
        }
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        add(self.took, self.begun.elapsed());
    }
}

/// Redirects may need several connections.
fn add(took: &mut Option<Duration>, more: Duration) {
    *took = Some(took.unwrap_or_default() + more); // none so far is no time
}

/// The HTTP that was agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

impl Phases {
    /// Adds what there is to the endpoint that paid.
    pub(super) fn add_to(self, samples: &mut EndpointSamples) {
        let Self { dns, tcp, tls } = self;
        for (took, slot) in [
            (dns, &mut samples.dns),
            (tcp, &mut samples.tcp),
            (tls, &mut samples.tls),
        ] {
            if let Some(took) = took {
                slot.get_or_insert_default().record(took);
            }
        }
    }
}

/// Joins what two threads' requests paid.
pub(super) fn join_phases(mine: &mut EndpointSamples, theirs: &EndpointSamples) {
    for (mine, theirs) in [
        (&mut mine.dns, &theirs.dns),
        (&mut mine.tcp, &theirs.tcp),
        (&mut mine.tls, &theirs.tls),
    ] {
        if let Some(theirs) = theirs {
            mine.get_or_insert_default().merge(theirs);
        }
    }
}

/// A way that has just been opened.
pub(super) struct Opened {
    pub(super) transport: Transport,
    pub(super) protocol: Protocol,
}

/// Resolves the name, connects and shakes hands; what that took is added to `phases`, also where
/// it fails. `deadline` only shares out the time between several addresses: whoever waits for this
/// ends it in time.
pub(super) async fn open(
    target: &Target,
    deadline: Instant,
    phases: &mut Phases,
) -> Result<Opened, Failure> {
    if let Some(path) = target.socket() {
        let begun = Instant::now();
        let stream = connect_to_socket(path).await;
        let stream = stream.map_err(|error| at(Failure::connecting(&error), path.display()))?;
        add(&mut phases.tcp, begun.elapsed());
        return Ok(Opened {
            transport: Transport::Unix(stream),
            protocol: without_tls(target.http()),
        });
    }
    let stream = connect(target, deadline, phases).await?;
    let Some(tls) = target.tls() else {
        return Ok(Opened {
            transport: Transport::Tcp(stream),
            protocol: without_tls(target.http()),
        });
    };
    let stream = {
        let _timed = Timed::begin(&mut phases.tls);
        tls.connect(stream).await?
    };
    let (_, session) = stream.get_ref();
    let protocol = agreed(session.alpn_protocol(), target.http())?;
    Ok(Opened {
        transport: Transport::Tls(Box::new(stream)),
        protocol,
    })
}

/// Without TLS nobody asks what the other side speaks.
fn without_tls(http: HttpVersion) -> Protocol {
    match http {
        HttpVersion::Http2 => Protocol::Http2,
        HttpVersion::Auto | HttpVersion::Http1 => Protocol::Http1,
    }
}

/// What ALPN came to. A service that doesn't know ALPN speaks HTTP/1.1.
fn agreed(alpn: Option<&[u8]>, http: HttpVersion) -> Result<Protocol, Failure> {
    match (alpn, http) {
        (Some(tls::H2), _) => Ok(Protocol::Http2),
        (_, HttpVersion::Http2) => Err(Failure::service(
            ErrorKind::Protocol,
            "the service did not agree to HTTP/2, which the scenario's [client] asks for; \
             http = \"auto\" takes what it speaks",
        )),
        _ => Ok(Protocol::Http1),
    }
}

/// A TCP connection to the service itself, or to the proxy that stands for it.
async fn connect(
    target: &Target,
    deadline: Instant,
    phases: &mut Phases,
) -> Result<TcpStream, Failure> {
    let proxy = target.access().proxy();
    let (host, port) = match (proxy, target.port()) {
        (Some(proxy), _) => (proxy.host(), proxy.port()),
        (None, port) => (target.host(), port.unwrap_or_default()), // sockets are opened elsewhere
    };
    let addresses = resolve(host, port, &mut phases.dns).await?;
    let begun = Instant::now();
    let connected = first_that_accepts(&addresses, deadline).await;
    let mut stream = connected.map_err(|error| {
        let failure = Failure::connecting(&error);
        match proxy {
            Some(proxy) => at(failure, format_args!("the proxy {proxy}")),
            None => failure,
        }
    })?;
    // Small requests must leave at once; a socket without it measures Nagle's algorithm.
    stream
        .set_nodelay(true)
        .map_err(|error| Failure::lost(&error))?;
    if let Some(proxy) = proxy
        && target.forwarding_proxy().is_none()
    {
        proxy.tunnel(&mut stream, &target.authority()).await?;
    }
    add(&mut phases.tcp, begun.elapsed());
    Ok(stream)
}

/// Where a socket's queue is full this waits, as TCP does: the kernel tells it at once here (EAGAIN,
/// connect(2)). Whoever waits for this ends it in time.
async fn connect_to_socket(path: &Path) -> io::Result<UnixStream> {
    const LOOK_EVERY: Duration = Duration::from_millis(1);
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            connected => return connected,
        }
    }
}

async fn resolve(
    host: &str,
    port: u16,
    took: &mut Option<Duration>,
) -> Result<Vec<SocketAddr>, Failure> {
    if let Ok(address) = host.parse() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let found = {
        let _timed = Timed::begin(took);
        lookup_host((host, port)).await
    };
    let addresses: Vec<SocketAddr> = found
        .map_err(|error| Failure::resolving(host, &error))?
        .collect();
    if addresses.is_empty() {
        let error = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        return Err(Failure::resolving(host, &error));
    }
    Ok(addresses)
}

/// Tries one address after the other. One that doesn't even refuse gets its share of the time
/// that is left, so that those behind it have theirs.
async fn first_that_accepts(addresses: &[SocketAddr], deadline: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for (index, address) in addresses.iter().enumerate() {
        let connect = TcpStream::connect(address);
        let behind = (addresses.len() - index - 1) as u32;
        let connected = if behind == 0 {
            connect.await
        } else {
            let share = deadline.saturating_duration_since(Instant::now()) / (behind + 1);
            match tokio::time::timeout(share, connect).await {
                Ok(connected) => connected,
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            }
        };
        match connected {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The failure, with where it was met.
fn at(mut failure: Failure, place: impl Display) -> Failure {
    failure.message = format!("{} at {place}", failure.message);
    failure
}

impl Transport {
    /// Whether the other side has closed it, and all that it sent was read. The kernel is asked: the
    /// runtime learns of an end that came together with other bytes when it asks for events again,
    /// and the next request may be sent before that.
    pub(super) fn has_ended(&self) -> bool {
        let descriptor = match self {
            Self::Tcp(stream) => stream.as_raw_fd(),
            Self::Unix(stream) => stream.as_raw_fd(),
            Self::Tls(stream) => stream.get_ref().0.as_raw_fd(),
        };
        let look = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        matches!(recv(descriptor, &mut [0], look), Ok(0))
    }

    /// Reads what is there already; [`io::ErrorKind::WouldBlock`] if nothing is.
    pub(super) fn try_read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(bytes),
            Self::Unix(stream) => stream.try_read(bytes),
            Self::Tls(stream) => {
                // Records without data for us, such as session tickets, are dealt with on the way.
                let mut buffer = ReadBuf::new(bytes);
                let mut nobody = Context::from_waker(Waker::noop());
                match Pin::new(stream.as_mut()).poll_read(&mut nobody, &mut buffer) {
                    Poll::Ready(read) => read.map(|()| buffer.filled().len()),
                    Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
                }
            }
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_that_refuses_leaves_those_behind_it() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let here = listener.local_addr().expect("an address");
        let closed = {
            let gone = std::net::TcpListener::bind("[::1]:0").expect("a free port");
            gone.local_addr().expect("an address")
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        let stream = first_that_accepts(&[closed, here], deadline).await;
        assert_eq!(stream.expect("the second").peer_addr().ok(), Some(here));
        let refused = first_that_accepts(&[closed, closed], deadline).await;
        let kind = refused.map_err(|error| error.kind()).map(drop);
        assert_eq!(kind, Err(io::ErrorKind::ConnectionRefused));
    }

    #[test]
    fn what_is_spoken_is_agreed_on_or_asked_for() {
        let (h2, other) = (Some(tls::H2), Some(&b"http/1.1"[..]));
        for (alpn, http, protocol) in [
            (h2, HttpVersion::Auto, Some(Protocol::Http2)),
            (other, HttpVersion::Auto, Some(Protocol::Http1)),
            (None, HttpVersion::Auto, Some(Protocol::Http1)),
            (None, HttpVersion::Http1, Some(Protocol::Http1)),
            (h2, HttpVersion::Http2, Some(Protocol::Http2)),
            (None, HttpVersion::Http2, None),
            (other, HttpVersion::Http2, None),
        ] {
            assert_eq!(agreed(alpn, http).ok(), protocol, "{alpn:?} {http:?}");
        }
        assert_eq!(without_tls(HttpVersion::Auto), Protocol::Http1);
        assert_eq!(without_tls(HttpVersion::Http2), Protocol::Http2);
    }
}
