//! Who serves a case: a server that speaks HTTP/1.1, alone or behind TLS and HTTP/2, or one that
//! writes its frames of HTTP/2 itself.

use std::{fs, io};

use tempfile::TempDir;
use tokio_rustls::rustls::SupportedProtocolVersion;
use unstall_bench_harness::engine::{Access, Target, TargetOptions};
use unstall_testbed::{
    Authority, Behaviour, Farewell, FaultyServer, Front, FrontTls, Http2Server, Identity, Received,
};

use super::case::Trouble;
use super::load::{broken, start};

/// Names of the protocols by which a front is reached (RFC 7301).
pub(super) const HTTP1: &[&str] = &["http/1.1"];
pub(super) const HTTP2: &[&str] = &["h2"];

/// Who serves.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Faulty(Behaviour),
    /// By the name of its way to serve.
    Http2(&'static str),
    /// The faulty server of paths behind a front that speaks HTTP/2.
    BehindHttp2,
    /// The same behind TLS.
    BehindTls(TlsKind),
    /// A server without TLS, which is spoken to by TLS.
    NoTls(Behaviour),
}

/// How TLS is spoken.
#[derive(Debug, Clone, Copy)]
pub(super) struct TlsKind {
    pub(super) behind: Behaviour,
    pub(super) certificate: Certificate,
    pub(super) alpn: &'static [&'static str],
    pub(super) versions: &'static [&'static SupportedProtocolVersion],
    pub(super) farewell: Farewell,
}

impl TlsKind {
    /// As it has to be.
    pub(super) const fn right(alpn: &'static [&'static str]) -> Self {
        Self {
            behind: Behaviour::Paths,
            certificate: Certificate::Right,
            alpn,
            versions: &[],
            farewell: Farewell::Said,
        }
    }
}

/// What a service shows.
#[derive(Debug, Clone, Copy)]
pub(super) enum Certificate {
    Right,
    Expired,
    OfAnotherName,
    OfAnotherAuthority,
    /// None: it refuses.
    None,
}

/// A running one.
pub(super) struct Service {
    server: Server,
    front: Option<Front>,
    access: Access,
    /// Where there is no front.
    scheme: &'static str,
    /// Holds the CA's file.
    _folder: Option<TempDir>,
}

enum Server {
    Faulty(FaultyServer),
    Http2(Http2Server),
}

impl Service {
    pub(super) fn start(kind: &Kind) -> Result<Self, Trouble> {
        match kind {
            Kind::Faulty(behaviour) => Ok(Self::alone(Server::Faulty(start(*behaviour)?))),
            Kind::Http2(name) => {
                let server = Http2Server::start(name).map_err(not_started)?;
                Ok(Self::alone(Server::Http2(server)))
            }
            Kind::BehindHttp2 => {
                let server = start(Behaviour::Paths)?;
                let front = Front::http2(server.addr()).map_err(not_started)?;
                Ok(Self {
                    front: Some(front),
                    ..Self::alone(Server::Faulty(server))
                })
            }
            Kind::BehindTls(kind) => Self::behind_tls(kind),
            Kind::NoTls(behaviour) => {
                let access = Access::resolve(&TargetOptions {
                    insecure: true,
                    ..TargetOptions::default()
                });
                Ok(Self {
                    access: access.map_err(|error| broken("the target", &error))?,
                    scheme: "https",
                    ..Self::alone(Server::Faulty(start(*behaviour)?))
                })
            }
        }
    }

    fn alone(server: Server) -> Self {
        Self {
            server,
            front: None,
            access: Access::default(),
            scheme: "http",
            _folder: None,
        }
    }

    fn behind_tls(kind: &TlsKind) -> Result<Self, Trouble> {
        let server = start(kind.behind)?;
        let authority = Authority::new("the CA of the self-test").map_err(not_started)?;
        let tls = FrontTls {
            identity: kind.certificate.signed_by(&authority)?,
            alpn: kind.alpn.iter().map(ToString::to_string).collect(),
            versions: kind.versions.to_vec(),
            farewell: kind.farewell,
        };
        let front = Front::tls(server.addr(), &tls).map_err(not_started)?;
        let folder = tempfile::tempdir().map_err(|error| broken("a folder", &error))?;
        let ca = folder.path().join("ca.pem");
        fs::write(&ca, authority.pem()).map_err(|error| broken("the CA's file", &error))?;
        let access = Access::resolve(&TargetOptions {
            ca: Some(ca),
            ..TargetOptions::default()
        });
        Ok(Self {
            front: Some(front),
            access: access.map_err(|error| broken("the CA's file", &error))?,
            _folder: Some(folder),
            ..Self::alone(Server::Faulty(server))
        })
    }

    /// How load gets there.
    pub(super) fn target(&self) -> Result<Target, Trouble> {
        let url = match (&self.front, &self.server) {
            (Some(front), _) => front.url(),
            (None, Server::Faulty(server)) => format!("{}://{}", self.scheme, server.addr()),
            (None, Server::Http2(server)) => format!("{}://{}", self.scheme, server.addr()),
        };
        Target::reached_by(&url, &self.access).map_err(|error| broken("the target", &error))
    }

    /// Connections that came from the load, so far.
    pub(super) fn connections(&self) -> u64 {
        match (&self.front, &self.server) {
            (Some(front), _) => front.connections(),
            (None, Server::Faulty(server)) => server.connections(),
            (None, Server::Http2(server)) => server.connections(),
        }
    }

    /// Those of them that stand now.
    pub(super) fn connections_open(&self) -> u64 {
        match (&self.front, &self.server) {
            (Some(front), _) => front.connections_open(),
            (None, Server::Faulty(server)) => server.connections_open().0,
            (None, Server::Http2(server)) => server.connections_open().0,
        }
    }

    /// Requests that the server has read.
    pub(super) fn requests(&self) -> u64 {
        match &self.server {
            Server::Faulty(server) => server.requests(),
            Server::Http2(server) => server.requests(),
        }
    }

    /// What it has read of the first of them; nothing where it doesn't keep them.
    pub(super) fn received(&self) -> Vec<Received> {
        match &self.server {
            Server::Faulty(server) => server.received(),
            Server::Http2(_) => vec![],
        }
    }

    /// Bytes that the server has sent.
    pub(super) fn bytes_sent(&self) -> u64 {
        match &self.server {
            Server::Faulty(server) => server.bytes_sent(),
            Server::Http2(server) => server.bytes_sent(),
        }
    }

    /// Bytes of requests' bodies that it has got.
    pub(super) fn uploaded(&self) -> u64 {
        match &self.server {
            Server::Faulty(server) => {
                let all = server.received();
                all.iter().map(|request| request.body.len() as u64).sum()
            }
            Server::Http2(server) => server.body_bytes(),
        }
    }
}

impl Certificate {
    fn signed_by(self, authority: &Authority) -> Result<Option<Identity>, Trouble> {
        const NAME: &[&str] = &["localhost"];
        let identity = match self {
            Self::Right => authority.server(NAME),
            Self::Expired => authority.expired(NAME),
            Self::OfAnotherName => authority.server(&["other.test"]),
            Self::OfAnotherAuthority => {
                Authority::new("another CA").and_then(|another| another.server(NAME))
            }
            Self::None => return Ok(None),
        };
        identity.map(Some).map_err(not_started)
    }
}

fn not_started(error: io::Error) -> Trouble {
    Trouble::NotRun(format!("no server could be started: {error}"))
}
