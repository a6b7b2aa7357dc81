//! A server of the tests that speaks what real services speak, TLS, HTTP/1.1, HTTP/2 and Unix
//! sockets, misbehaves on demand, and tells what it has seen.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use bytes::Bytes;
use h2::Reason;
use h2::server::SendResponse;
use http::{HeaderMap, Response, StatusCode};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{HandshakeKind, RootCertStore, ServerConfig};
use unstall_loop_monitor::wire::SNAPSHOT_PATH;
use unstall_testbed::{Authority, Identity};

/// The answer to every path that isn't a fault's.
const OK: &[u8] = br#"{"status":"ok"}"#;

/// A running server; dropped, it ends.
pub(crate) struct SecureServer {
    address: Option<SocketAddr>,
    seen: Arc<Mutex<Seen>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How it speaks TLS.
pub(crate) struct Secure<'a> {
    pub(crate) identity: &'a Identity,
    /// Shown from the n-th handshake on, counted from 0, instead of the other.
    pub(crate) later: Option<(u64, &'a Identity)>,
    pub(crate) alpn: &'a [&'a str],
    /// Clients have to show a certificate of this CA.
    pub(crate) clients: Option<&'a Authority>,
}

impl<'a> Secure<'a> {
    pub(crate) fn of(identity: &'a Identity, alpn: &'a [&'a str]) -> Self {
        Self {
            identity,
            later: None,
            alpn,
            clients: None,
        }
    }
}

/// What it has seen.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    pub(crate) connections: u64,
    /// Handshakes that came to their end.
    pub(crate) handshakes: Vec<Handshake>,
    pub(crate) requests: Vec<Asked>,
    /// Streams that the client has reset, by the reason.
    pub(crate) resets: Vec<String>,
    /// What its loop monitor says, if it has one.
    snapshot: Option<Bytes>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handshake {
    pub(crate) name: Option<String>,
    pub(crate) alpn: Option<String>,
    pub(crate) is_resumed: bool,
    pub(crate) has_client_certificate: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) is_http2: bool,
    pub(crate) method: String,
    pub(crate) host: String,
    /// As it came: of HTTP/1.1 the whole request target.
    pub(crate) target: String,
    pub(crate) body_bytes: usize,
}

enum Door {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl SecureServer {
    /// Without TLS, on an address such as `127.0.0.1:0`.
    pub(crate) fn plain(address: &str) -> Self {
        Self::tcp(address, None)
    }

    /// With TLS.
    pub(crate) fn secure(address: &str, secure: &Secure<'_>) -> Self {
        Self::tcp(address, Some(secure))
    }

    /// On a Unix socket.
    pub(crate) fn at_socket(path: &Path) -> Self {
        let listener = std::os::unix::net::UnixListener::bind(path).expect("a socket");
        listener.set_nonblocking(true).expect("a mode");
        let door = move || Door::Unix(UnixListener::from_std(listener).expect("in a runtime"));
        Self::start(None, door, None)
    }

    fn tcp(address: &str, secure: Option<&Secure<'_>>) -> Self {
        let listener = std::net::TcpListener::bind(address).expect("a free port");
        listener.set_nonblocking(true).expect("a mode");
        let address = listener.local_addr().expect("an address");
        let door = move || Door::Tcp(TcpListener::from_std(listener).expect("in a runtime"));
        Self::start(Some(address), door, secure)
    }

    fn start(
        address: Option<SocketAddr>,
        door: impl FnOnce() -> Door + Send + 'static,
        secure: Option<&Secure<'_>>,
    ) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let acceptor = secure.map(acceptor);
        let (stop, stopped) = oneshot::channel();
        let for_thread = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                tokio::select! {
                    () = accept(door(), acceptor, &for_thread) => {}
                    // Also when the sender is gone.
                    _ = stopped => {}
                }
            });
        });
        Self {
            address,
            seen,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.expect("it has an address").port()
    }

    /// Has a loop monitor from now on, which has seen nothing.
    pub(crate) fn show_monitor(&self) {
        let snapshot = unstall_loop_monitor::Monitor::builder().build().snapshot();
        let text = serde_json::to_vec(&snapshot).expect("it can be written");
        lock(&self.seen).snapshot = Some(text.into());
    }

    pub(crate) fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }
}

impl Drop for SecureServer {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed.
            let _ = thread.join();
        }
    }
}

/// The body of a good answer.
fn body_of(target: &str, seen: &Mutex<Seen>) -> Bytes {
    let snapshot = lock(seen).snapshot.clone();
    let path = target.split('?').next().unwrap_or(target);
    let snapshot = snapshot.filter(|_| path.ends_with(SNAPSHOT_PATH));
    snapshot.unwrap_or(Bytes::from_static(OK))
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().expect("nobody panicked with it")
}

/// Shows one certificate, and later another one.
#[derive(Debug)]
struct Certificates {
    shown: Mutex<u64>,
    first: Arc<CertifiedKey>,
    later: Option<(u64, Arc<CertifiedKey>)>,
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut shown = self.shown.lock().expect("nobody panicked with it");
        let index = *shown;
        *shown += 1;
        match &self.later {
            Some((from, later)) if index >= *from => Some(Arc::clone(later)),
            _ => Some(Arc::clone(&self.first)),
        }
    }
}

fn acceptor(secure: &Secure<'_>) -> TlsAcceptor {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("versions");
    let builder = match secure.clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.der()).expect("a CA");
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.expect("a verifier"))
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(Certificates {
        shown: Mutex::new(0),
        first: secure.identity.certified().expect("they belong together"),
        later: secure
            .later
            .map(|(from, later)| (from, later.certified().expect("they belong together"))),
    }));
    let names = secure.alpn.iter().map(|name| name.as_bytes().to_vec());
    config.alpn_protocols = names.collect();
    TlsAcceptor::from(Arc::new(config))
}

async fn accept(door: Door, acceptor: Option<TlsAcceptor>, seen: &Arc<Mutex<Seen>>) {
    loop {
        let seen = Arc::clone(seen);
        match &door {
            Door::Tcp(listener) => {
                let (stream, _) = listener.accept().await.expect("a connection");
                lock(&seen).connections += 1;
                match acceptor.clone() {
                    Some(acceptor) => drop(tokio::spawn(secured(acceptor, stream, seen))),
                    None => drop(tokio::spawn(sniffed(stream, seen))),
                }
            }
            Door::Unix(listener) => {
                let (stream, _) = listener.accept().await.expect("a connection");
                lock(&seen).connections += 1;
                drop(tokio::spawn(sniffed(stream, seen)));
            }
        }
    }
}

async fn secured(acceptor: TlsAcceptor, stream: tokio::net::TcpStream, seen: Arc<Mutex<Seen>>) {
    // A client that doesn't like the certificate is what some tests are about.
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let (_, session) = stream.get_ref();
    let alpn = session
        .alpn_protocol()
        .map(|name| String::from_utf8_lossy(name).into_owned());
    let is_http2 = alpn.as_deref() == Some("h2");
    lock(&seen).handshakes.push(Handshake {
        name: session.server_name().map(ToOwned::to_owned),
        alpn,
        is_resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
        has_client_certificate: session.peer_certificates().is_some(),
    });
    if is_http2 {
        http2(stream, seen).await;
    } else {
        http1(BufReader::new(stream), seen).await;
    }
}

/// Without TLS the first line tells what is spoken.
async fn sniffed(stream: impl AsyncRead + AsyncWrite + Unpin, seen: Arc<Mutex<Seen>>) {
    let mut stream = BufReader::new(stream);
    let Ok(first) = stream.fill_buf().await else {
        return;
    };
    if first.starts_with(b"\x16") {
        // TLS, which is no HTTP. Who doesn't listen to that has gone.
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    } else if first.starts_with(b"PRI ") {
        http2(stream, seen).await;
    } else {
        http1(stream, seen).await;
    }
}

async fn http1(mut stream: impl AsyncBufReadExt + AsyncWrite + Unpin, seen: Arc<Mutex<Seen>>) {
    let mut line = String::new();
    loop {
        line.clear();
        let Ok(1..) = stream.read_line(&mut line).await else {
            return;
        };
        let mut words = line.split_whitespace().map(ToOwned::to_owned);
        let (method, target) = (words.next(), words.next());
        let mut asked = Asked {
            is_http2: false,
            method: method.expect("a method"),
            host: String::new(),
            target: target.expect("a request target"),
            body_bytes: 0,
        };
        loop {
            line.clear();
            let Ok(1..) = stream.read_line(&mut line).await else {
                return;
            };
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            match name {
                "host" => asked.host = value.to_owned(),
                "content-length" => asked.body_bytes = value.parse().expect("a length"),
                _ => {}
            }
        }
        let mut body = vec![0; asked.body_bytes];
        let Ok(_) = stream.read_exact(&mut body).await else {
            return;
        };
        let closes = asked.target.ends_with("/close");
        let body = body_of(&asked.target, &seen);
        lock(&seen).requests.push(asked);
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{}\r\n",
            body.len(),
            if closes { "connection: close\r\n" } else { "" }
        );
        let answer = [head.as_bytes(), &body].concat();
        let sent = stream.write_all(&answer).await;
        if sent.is_err() || stream.flush().await.is_err() || closes {
            return;
        }
    }
}

async fn http2(stream: impl AsyncRead + AsyncWrite + Unpin, seen: Arc<Mutex<Seen>>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return;
    };
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let (head, mut body) = request.into_parts();
        let path = head.uri.path().to_owned();
        let asked = Asked {
            is_http2: true,
            method: head.method.to_string(),
            host: head
                .uri
                .authority()
                .map(ToString::to_string)
                .unwrap_or_default(),
            target: path.clone(),
            body_bytes: 0,
        };
        let index = {
            let mut seen = lock(&seen);
            seen.requests.push(asked);
            seen.requests.len() - 1
        };
        if path == "/early" {
            // Answered, and the rest of the request isn't wanted (RFC 9113 §8.1).
            let mut stream = respond
                .send_response(answer(StatusCode::PAYLOAD_TOO_LARGE, OK.len()), false)
                .expect("a head");
            // Dropped with the rest of the request unread, it is reset without an error.
            stream
                .send_data(Bytes::from_static(OK), true)
                .expect("a body");
            continue;
        }
        let seen = Arc::clone(&seen);
        match path.as_str() {
            "/abrupt" => return,
            "/goaway" => connection.graceful_shutdown(),
            "/goaway-error" => connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM),
            _ => {}
        }
        tokio::spawn(async move {
            let mut received = 0;
            while let Some(Ok(data)) = body.data().await {
                received += data.len();
                // Only what was received is given back.
                let _ = body.flow_control().release_capacity(data.len());
            }
            lock(&seen).requests[index].body_bytes = received;
            respond_to(&path, respond, &seen).await;
        });
    }
}

fn answer(status: StatusCode, length: usize) -> Response<()> {
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .header("content-length", length)
        .body(())
        .expect("an answer")
}

async fn respond_to(path: &str, mut respond: SendResponse<Bytes>, seen: &Mutex<Seen>) {
    match path {
        "/reset" => respond.send_reset(Reason::INTERNAL_ERROR),
        "/refused" => respond.send_reset(Reason::REFUSED_STREAM),
        "/http-1.1" => respond.send_reset(Reason::HTTP_1_1_REQUIRED),
        "/reset-in-body" => {
            let mut stream = respond
                .send_response(answer(StatusCode::OK, OK.len()), false)
                .expect("a head");
            stream
                .send_data(Bytes::from_static(&OK[..5]), false)
                .expect("half a body");
            tokio::task::yield_now().await;
            stream.send_reset(Reason::INTERNAL_ERROR);
        }
        "/early-hints" => {
            let hints = Response::builder().status(103).body(()).expect("hints");
            respond.send_informational(hints).expect("hints");
            fine(respond, Bytes::from_static(OK));
        }
        "/trailers" => {
            let mut stream = respond
                .send_response(answer(StatusCode::OK, OK.len()), false)
                .expect("a head");
            stream
                .send_data(Bytes::from_static(OK), false)
                .expect("a body");
            let mut trailers = HeaderMap::new();
            trailers.insert("checked", "yes".parse().expect("a value"));
            stream.send_trailers(trailers).expect("trailers");
        }
        "/large" => large(respond).await,
        "/stream" => stream(respond, seen).await,
        "/204" => {
            let empty = Response::builder().status(204).body(()).expect("an answer");
            respond.send_response(empty, true).expect("a head");
        }
        _ => fine(respond, body_of(path, seen)),
    }
}

fn fine(mut respond: SendResponse<Bytes>, body: Bytes) {
    // A client that has gone is none of its business.
    if let Ok(mut stream) = respond.send_response(answer(StatusCode::OK, body.len()), false) {
        let _ = stream.send_data(body, true);
    }
}

/// More than the client's windows hold at once.
pub(crate) const LARGE_BYTES: usize = 5_000_000;

async fn large(mut respond: SendResponse<Bytes>) {
    let head = Response::builder().status(200).body(()).expect("an answer");
    let mut stream = respond.send_response(head, false).expect("a head");
    let mut left = LARGE_BYTES;
    while left > 0 {
        stream.reserve_capacity(left.min(50_000));
        let capacity = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
        let Some(Ok(capacity)) = capacity else { return };
        let part = capacity.min(left);
        left -= part;
        let part = Bytes::from(vec![b'x'; part]);
        if stream.send_data(part, left == 0).is_err() {
            return;
        }
    }
}

/// Items until the client says that it has enough, in events as chat services send them.
async fn stream(mut respond: SendResponse<Bytes>, seen: &Mutex<Seen>) {
    let head = Response::builder()
        .status(200)
        .header("content-type", "text/event-stream")
        .body(())
        .expect("an answer");
    let mut stream = respond.send_response(head, false).expect("a head");
    loop {
        let item = Bytes::from_static(b"data: {\"message\":\"word\"}\n\n");
        let is_over = stream.send_data(item, false).is_err();
        let pause = tokio::time::sleep(std::time::Duration::from_millis(1));
        let reset = std::future::poll_fn(|cx| stream.poll_reset(cx));
        tokio::select! {
            () = pause, if !is_over => {}
            reset = reset => {
                let reason = reset.map(|reason| format!("{reason:?}"));
                lock(seen).resets.push(reason.unwrap_or_else(|error| error.to_string()));
                return;
            }
        }
    }
}
