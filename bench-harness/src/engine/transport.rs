//! How bytes get to a service: an open way, and what opening it took.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use unstall_results::record::EndpointSamples;

use super::failure::Failure;
use super::target::Target;

/// An open way to a service.
pub(super) enum Transport {
    Tcp(TcpStream),
}

/// What the request that opened a connection paid for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Phases {
    /// Resolving the name, if it is one.
    pub(super) dns: Option<Duration>,
    /// Connecting, failed addresses before the right one included.
    pub(super) tcp: Option<Duration>,
    /// The handshake of TLS.
    pub(super) tls: Option<Duration>,
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
    pub(super) phases: Phases,
}

impl Transport {
    /// Reads what is there already; [`io::ErrorKind::WouldBlock`] if nothing is.
    pub(super) fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(buffer),
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
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// Resolves and connects.
pub(super) async fn open(target: &Target) -> Result<Opened, Failure> {
    let mut phases = Phases::default();
    let stream = connect(target, &mut phases).await?;
    // Small requests must leave at once; a socket without it measures Nagle's algorithm.
    stream
        .set_nodelay(true)
        .map_err(|error| Failure::lost(&error))?;
    Ok(Opened {
        transport: Transport::Tcp(stream),
        phases,
    })
}

/// Connects to the first address that accepts.
async fn connect(target: &Target, phases: &mut Phases) -> Result<TcpStream, Failure> {
    let begun = Instant::now();
    if let Some(address) = target.literal_address() {
        let stream = TcpStream::connect(address).await;
        phases.tcp = Some(begun.elapsed());
        return stream.map_err(|error| Failure::connecting(&error));
    }
    let addresses = tokio::net::lookup_host((target.host(), target.port()))
        .await
        .map_err(|error| Failure::resolving(target.host(), &error))?;
    let resolved = Instant::now();
    phases.dns = Some(resolved.saturating_duration_since(begun));
    let mut last = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                phases.tcp = Some(resolved.elapsed());
                return Ok(stream);
            }
            Err(error) => last = Some(Failure::connecting(&error)),
        }
    }
    Err(last.unwrap_or_else(|| {
        Failure::resolving(
            target.host(),
            &io::Error::new(io::ErrorKind::NotFound, "the name has no address"),
        )
    }))
}
