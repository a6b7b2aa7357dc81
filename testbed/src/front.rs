//! What stands before a server that speaks HTTP/1.1, and lets it be reached over TLS and HTTP/2:
//! so that whatever that server can do wrong is tried over them, too.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{ServerConfig, SupportedProtocolVersion};

use crate::authority::Identity;
use crate::front_http2;

/// A running front on a free loopback port; dropped, it ends.
#[derive(Debug)]
pub struct Front {
    address: SocketAddr,
    scheme: &'static str,
    counts: Arc<Counts>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How a front speaks TLS.
#[derive(Debug, Clone)]
pub struct FrontTls {
    /// What it shows; without one it refuses each handshake by an alert.
    pub identity: Option<Identity>,
    /// What it agrees to, by ALPN names (RFC 7301); where that is `h2`, HTTP/2 is spoken.
    pub alpn: Vec<String>,
    /// Versions; all of them if there is none.
    pub versions: Vec<&'static SupportedProtocolVersion>,
    /// How it ends a connection.
    pub farewell: Farewell,
}

/// How a front ends a connection whose server has ended its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Farewell {
    /// By close_notify (RFC 8446 §6.1), as the standard has it.
    Said,
    /// Without a word, as if somebody had cut it.
    Unsaid,
}

#[derive(Debug, Default)]
struct Counts {
    accepted: AtomicU64,
    handshakes: AtomicU64,
    open: AtomicU64,
}

/// What it does with a connection.
#[derive(Clone)]
enum Speaking {
    /// HTTP/2 without TLS.
    Http2,
    Tls(TlsAcceptor, Farewell),
}

impl Front {
    /// Speaks HTTP/2 without TLS, with prior knowledge, and HTTP/1.1 with `server`.
    ///
    /// # Errors
    /// When the system refuses the socket or the thread.
    pub fn http2(server: SocketAddr) -> io::Result<Self> {
        Self::start(server, "http", Speaking::Http2)
    }

    /// Speaks TLS before `server`.
    ///
    /// # Errors
    /// When TLS can't be spoken so, or the system refuses the socket or the thread.
    pub fn tls(server: SocketAddr, tls: &FrontTls) -> io::Result<Self> {
        let speaking = Speaking::Tls(acceptor(tls)?, tls.farewell);
        Self::start(server, "https", speaking)
    }

    fn start(server: SocketAddr, scheme: &'static str, speaking: Speaking) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let counts = Arc::new(Counts::default());
        let (stop, stopped) = oneshot::channel();
        let for_thread = Arc::clone(&counts);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::Builder::new()
            .name("front".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(listener, server, &speaking, &for_thread) => {}
                        // Also when the sender is gone.
                        _ = stopped => {}
                    }
                });
            })?;
        Ok(Self {
            address,
            scheme,
            counts,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// `https://localhost:…`, or `http://…` without TLS, without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://localhost:{}", self.scheme, self.address.port())
    }

    /// Connections accepted so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.counts.accepted.load(Ordering::SeqCst)
    }

    /// Handshakes of TLS that came to their end so far.
    #[must_use]
    pub fn handshakes(&self) -> u64 {
        self.counts.handshakes.load(Ordering::SeqCst)
    }

    /// Connections that stand now.
    #[must_use]
    pub fn connections_open(&self) -> u64 {
        self.counts.open.load(Ordering::SeqCst)
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed.
            let _ = thread.join();
        }
    }
}

/// Shows one certificate, or none.
#[derive(Debug)]
struct Shown(Option<Arc<CertifiedKey>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.clone()
    }
}

fn acceptor(tls: &FrontTls) -> io::Result<TlsAcceptor> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = if tls.versions.is_empty() {
        builder.with_safe_default_protocol_versions()
    } else {
        builder.with_protocol_versions(&tls.versions)
    };
    let builder = builder.map_err(io::Error::other)?.with_no_client_auth();
    let identity = tls.identity.as_ref().map(Identity::certified).transpose()?;
    let mut config = builder.with_cert_resolver(Arc::new(Shown(identity)));
    let names = tls.alpn.iter().map(|name| name.as_bytes().to_vec());
    config.alpn_protocols = names.collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// One connection, from its acceptance to its end.
struct Counted(Arc<Counts>);

impl Counted {
    fn accepted(counts: &Arc<Counts>) -> Self {
        counts.accepted.fetch_add(1, Ordering::SeqCst);
        counts.open.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(counts))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn accept(
    listener: std::net::TcpListener,
    server: SocketAddr,
    speaking: &Speaking,
    counts: &Arc<Counts>,
) {
    // Refused only outside of a runtime: then nobody is accepted, and whoever connects sees that.
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let (counted, speaking) = (Counted::accepted(counts), speaking.clone());
        drop(tokio::spawn(async move {
            // Clients and servers that leave are the daily business of fronts.
            let _ = serve(stream, server, speaking, &counted.0).await;
        }));
    }
}

async fn serve(
    stream: TcpStream,
    server: SocketAddr,
    speaking: Speaking,
    counts: &Counts,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (acceptor, farewell) = match speaking {
        Speaking::Http2 => return front_http2::serve(stream, server).await,
        Speaking::Tls(acceptor, farewell) => (acceptor, farewell),
    };
    let stream = acceptor.accept(stream).await?;
    counts.handshakes.fetch_add(1, Ordering::SeqCst);
    let (_, session) = stream.get_ref();
    if session.alpn_protocol() == Some(b"h2") {
        return front_http2::serve(stream, server).await;
    }
    let server = TcpStream::connect(server).await?;
    server.set_nodelay(true)?;
    pass_on(stream, server, farewell).await
}

/// Hands on what comes from either side, until both have ended.
async fn pass_on(
    client: impl AsyncRead + AsyncWrite,
    mut server: TcpStream,
    farewell: Farewell,
) -> io::Result<()> {
    let (mut from_client, mut to_client) = split(client);
    let (mut from_server, mut to_server) = server.split();
    let up = async {
        // However the client ends, the server learns it.
        let copied = copy(&mut from_client, &mut to_server).await;
        to_server.shutdown().await?;
        copied
    };
    let down = async {
        // A server that resets breaks off.
        let copied = copy(&mut from_server, &mut to_client).await;
        if copied.is_ok() && farewell == Farewell::Said {
            to_client.shutdown().await?;
            return Ok(());
        }
        Err(io::ErrorKind::ConnectionAborted.into())
    };
    tokio::try_join!(async { up.await.map(drop) }, down).map(drop)
}
