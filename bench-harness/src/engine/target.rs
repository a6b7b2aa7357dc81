//! Where requests go: a parsed target, checked before anything is sent.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::Uri;
use unstall_scenarios::plan::HttpVersion;

use super::access::{Access, AccessError};
use super::proxy::Proxy;
use super::tls::Tls;

/// A Unix socket's path fits into `sockaddr_un` with a zero behind it (unix(7)).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// A service's base URL, resolved into what a connection needs.
#[derive(Debug, Clone)]
pub struct Target {
    place: Place,
    base_path: String,
    http: HttpVersion,
    tls: Option<Tls>,
    access: Access,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// As the URL has it: an IPv6 address keeps its brackets.
    Host { host: String, port: u16 },
    /// A Unix socket.
    Socket(PathBuf),
}

/// Why a target can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Not a URL, or one without a host.
    #[error(
        "target `{given}` is not a URL with a host ({reason}); write it like \
         http://127.0.0.1:8000, https://example.org or unix:/run/app.sock"
    )]
    NotAUrl {
        /// What was given.
        given: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A scheme that is no HTTP.
    #[error("target `{given}` has the scheme `{scheme}`, expected http, https or unix")]
    Scheme {
        /// What was given.
        given: String,
        /// Its scheme.
        scheme: String,
    },
    /// A query belongs to a scenario's requests.
    #[error("target `{0}` has a query; put it into the scenario's requests")]
    Query(String),
    /// No Unix socket can be there.
    #[error(
        "target `{given}` names no Unix socket ({reason}); write it like unix:/run/app.sock, or \
         unix:/run/app.sock:/base with a path before every request's path"
    )]
    Socket {
        /// What was given.
        given: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What it takes to reach it isn't there, or doesn't fit.
    #[error("target `{given}`: {source}")]
    Access {
        /// What was given.
        given: String,
        /// What is missing.
        source: Box<AccessError>,
    },
}

impl Target {
    /// Parses a base URL, such as `http://127.0.0.1:8000`, `https://[::1]:8443/base` or
    /// `unix:/run/app.sock`, that is reached in the usual way: directly, and trusting whom this
    /// machine trusts.
    ///
    /// # Errors
    /// [`TargetError`] names what was given and what to write instead.
    pub fn parse(given: &str) -> Result<Self, TargetError> {
        Self::reached_by(given, &Access::default())
    }

    /// The same for a target that is reached in a certain way.
    ///
    /// # Errors
    /// [`TargetError`] names what was given and what to write instead.
    pub fn reached_by(given: &str, access: &Access) -> Result<Self, TargetError> {
        let given = given.trim();
        match given.strip_prefix("unix:") {
            Some(place) => Self::at_socket(given, place, access),
            None => Self::at_host(given, access),
        }
    }

    fn at_host(given: &str, access: &Access) -> Result<Self, TargetError> {
        let (whole, given) = (given, without_secrets(given));
        let not_a_url = |reason: String| TargetError::NotAUrl {
            given: given.clone(),
            reason,
        };
        let uri: Uri = whole
            .parse()
            .map_err(|error| not_a_url(format!("{error}")))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(scheme) => {
                return Err(TargetError::Scheme {
                    given: given.clone(),
                    scheme: scheme.to_owned(),
                });
            }
            None => return Err(not_a_url("it has no http://".to_owned())),
        };
        let authority = uri
            .authority()
            .ok_or_else(|| not_a_url("it has no host".to_owned()))?;
        if authority.host().is_empty() {
            return Err(not_a_url("its host is empty".to_owned()));
        }
        if authority.as_str().contains('@') {
            return Err(not_a_url(
                "it has a user name; put credentials into the scenario's headers".to_owned(),
            ));
        }
        if uri.query().is_some() {
            return Err(TargetError::Query(given));
        }
        let host = authority.host().to_owned();
        let tls = is_tls
            .then(|| access.tls(unbracketed(&host)))
            .transpose()
            .map_err(|source| TargetError::Access {
                given,
                source: Box::new(source),
            })?;
        Ok(Self {
            place: Place::Host {
                host,
                port: authority.port_u16().unwrap_or(usual_port(is_tls)),
            },
            base_path: uri.path().trim_end_matches('/').to_owned(),
            http: HttpVersion::Auto,
            tls,
            access: access.clone(),
        })
    }

    /// `path`, or `path:/base` as nginx writes it.
    fn at_socket(given: &str, place: &str, access: &Access) -> Result<Self, TargetError> {
        let socket = |reason: &str| TargetError::Socket {
            given: given.to_owned(),
            reason: reason.to_owned(),
        };
        // `unix:///run/app.sock` has an empty host, which is left out.
        let place = match place.strip_prefix("//") {
            Some(path) if path.starts_with('/') => path,
            Some(_) => return Err(socket("behind `//` there would be a host")),
            None => place,
        };
        let (path, base) = place.split_once(':').unwrap_or((place, ""));
        if path.is_empty() {
            return Err(socket("its path is empty"));
        }
        if path.len() > SOCKET_PATH_BYTES_MAX {
            return Err(socket("its path is longer than 107 bytes"));
        }
        if base.contains(['?', '#']) {
            return Err(TargetError::Query(without_secrets(given)));
        }
        let is_path = base.starts_with('/') && base.parse::<Uri>().is_ok();
        if !(base.is_empty() || is_path) {
            return Err(socket("what follows its second `:` is no path"));
        }
        if access.proxy().is_some() {
            return Err(TargetError::Access {
                given: given.to_owned(),
                source: Box::new(AccessError::ProxyToSocket),
            });
        }
        Ok(Self {
            place: Place::Socket(path.into()),
            base_path: base.trim_end_matches('/').to_owned(),
            http: HttpVersion::Auto,
            tls: None,
            access: access.clone(),
        })
    }

    /// A service on this machine's loopback, without TLS.
    pub fn loopback(port: u16) -> Self {
        Self {
            place: Place::Host {
                host: "127.0.0.1".to_owned(),
                port,
            },
            base_path: String::new(),
            http: HttpVersion::Auto,
            tls: None,
            access: Access::default(),
        }
    }

    /// Host name or address, without the brackets of IPv6; `localhost` for a Unix socket.
    pub fn host(&self) -> &str {
        match &self.place {
            Place::Host { host, .. } => unbracketed(host),
            Place::Socket(_) => "localhost",
        }
    }

    /// TCP port; `None` for a Unix socket.
    pub fn port(&self) -> Option<u16> {
        match &self.place {
            Place::Host { port, .. } => Some(*port),
            Place::Socket(_) => None,
        }
    }

    /// The Unix socket, if it is one.
    pub fn socket(&self) -> Option<&Path> {
        match &self.place {
            Place::Host { .. } => None,
            Place::Socket(path) => Some(path),
        }
    }

    /// Path before every request's path, without a slash at its end.
    pub fn base_path(&self) -> &str {
        &self.base_path
    }

    /// The address, when the host is one: then no name has to be resolved.
    pub fn literal_address(&self) -> Option<SocketAddr> {
        // Not an address is no error here: it is a name then.
        let address: IpAddr = self.host().parse().ok()?;
        Some(SocketAddr::new(address, self.port()?))
    }

    /// Whether the service shares this machine, as far as the address tells.
    pub fn is_here(&self) -> bool {
        match self.literal_address() {
            Some(address) => address.ip().is_loopback(),
            None => self.host().eq_ignore_ascii_case("localhost"),
        }
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Value of the `Host` header, and HTTP/2's `:authority`.
    pub fn host_header(&self) -> String {
        let name = self.access.name();
        match &self.place {
            Place::Host { host, port } => {
                let host = name.unwrap_or(host);
                if *port == usual_port(self.tls.is_some()) {
                    host.to_owned()
                } else {
                    format!("{host}:{port}")
                }
            }
            Place::Socket(_) => name.unwrap_or("localhost").to_owned(),
        }
    }

    /// Host and port, as a proxy is asked for a tunnel to them.
    pub(super) fn authority(&self) -> String {
        match &self.place {
            Place::Host { host, port } => format!("{host}:{port}"),
            Place::Socket(_) => "localhost".to_owned(),
        }
    }

    /// The full URL of a path on this service; that of a Unix socket is for people only.
    pub fn url(&self, path: &str) -> String {
        let base = &self.base_path;
        match &self.place {
            Place::Host { host, port } => {
                format!("{}://{host}:{port}{base}{path}", self.scheme())
            }
            Place::Socket(socket) if base.is_empty() && path.is_empty() => {
                format!("unix:{}", socket.display())
            }
            Place::Socket(socket) => format!("unix:{}:{base}{path}", socket.display()),
        }
    }

    /// The same service, spoken to in this version of HTTP.
    #[must_use]
    pub fn speaking(self, http: HttpVersion) -> Self {
        Self {
            tls: self.tls.map(|tls| tls.speaking(http)),
            http,
            ..self
        }
    }

    /// The same service as one user sees it, who has TLS sessions of its own.
    pub(super) fn of_a_user(self: &Arc<Self>) -> Arc<Self> {
        let Some(tls) = &self.tls else {
            return Arc::clone(self);
        };
        Arc::new(Self {
            tls: Some(tls.of_a_user()),
            ..Self::clone(self)
        })
    }

    /// Whether TLS is spoken.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Which HTTP is to be spoken.
    pub(super) fn http(&self) -> HttpVersion {
        self.http
    }

    /// The proxy that reads requests and forwards them, which it does without a tunnel. TLS needs
    /// a tunnel, and HTTP/2 without it does, too: what a proxy forwards is HTTP/1.1. So does a
    /// name that isn't the host's: a proxy that forwards connects to the name it reads, and sends
    /// that as `Host` (RFC 9112 §3.2.2).
    pub(super) fn forwarding_proxy(&self) -> Option<&Proxy> {
        let is_plain = self.tls.is_none() && self.http != HttpVersion::Http2;
        let has_own_name = self.access.name().is_some();
        self.access.proxy().filter(|_| is_plain && !has_own_name)
    }

    /// What it takes to speak TLS, where it is spoken.
    pub(super) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// How it is reached.
    pub fn access(&self) -> &Access {
        &self.access
    }
}

/// What was given as messages show it: what stands before an `@` may be a password, wherever a
/// parser would see its end, and a query may hold a token.
fn without_secrets(given: &str) -> String {
    let (before, behind) = given.rsplit_once('@').unwrap_or(("", given));
    let (place, query) = match behind.split_once('?') {
        Some((place, _)) => (place, "?…"),
        None => (behind, ""),
    };
    if before.is_empty() {
        return format!("{place}{query}");
    }
    let scheme = before.find("://").map_or("", |at| &before[..at + 3]);
    format!("{scheme}…@{place}{query}")
}

fn unbracketed(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

fn usual_port(is_tls: bool) -> u16 {
    if is_tls { 443 } else { 80 }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::TargetOptions;

    #[test]
    fn the_usual_forms() {
        let plain = Target::parse("http://example.org").expect("a URL");
        assert_eq!((plain.host(), plain.port()), ("example.org", Some(80)));
        assert_eq!(plain.host_header(), "example.org");
        assert_eq!(plain.literal_address(), None);

        let full = Target::parse(" http://127.0.0.1:8001/api/ ").expect("a URL");
        assert_eq!(full.port(), Some(8001));
        assert_eq!(full.base_path(), "/api");
        assert_eq!(full.host_header(), "127.0.0.1:8001");
        assert_eq!(full.url("/x"), "http://127.0.0.1:8001/api/x");
        assert_eq!(full.literal_address(), Some(([127, 0, 0, 1], 8001).into()));

        let six = Target::parse("http://[::1]:9").expect("a URL");
        assert_eq!(six.host(), "::1");
        assert_eq!(six.host_header(), "[::1]:9");
        assert!(six.literal_address().is_some_and(|a| a.is_ipv6()));
        assert!(six.is_here());
    }

    #[test]
    fn tls_has_a_port_of_its_own() {
        let access = insecure();
        let usual = Target::reached_by("https://example.org", &access).expect("a URL");
        assert_eq!((usual.port(), usual.scheme()), (Some(443), "https"));
        assert_eq!(usual.host_header(), "example.org");
        let other = Target::reached_by("https://[::1]:80/b", &access).expect("a URL");
        assert_eq!(other.host_header(), "[::1]:80");
        assert_eq!(other.url("/x"), "https://[::1]:80/b/x");
        assert!(other.tls().is_some());
    }

    #[test]
    fn unix_sockets_have_a_path_and_perhaps_a_base() {
        let plain = Target::parse("unix:/run/app.sock").expect("a socket");
        assert_eq!(plain.socket(), Some(Path::new("/run/app.sock")));
        assert_eq!(
            (plain.port(), plain.host_header().as_str()),
            (None, "localhost")
        );
        assert_eq!(plain.to_string(), "unix:/run/app.sock");
        assert!(plain.is_here());
        let based = Target::parse("unix:///run/app.sock:/api/").expect("a socket");
        assert_eq!(based.base_path(), "/api");
        assert_eq!(based.url("/x"), "unix:/run/app.sock:/api/x");
        let again = Target::parse(&based.to_string()).expect("its own words");
        assert_eq!(again.url("/x"), based.url("/x"));
        let long = format!("unix:/{}", "x".repeat(107));
        for (wrong, word) in [
            ("unix:", "empty"),
            ("unix://run/app.sock", "host"),
            ("unix:/run/app.sock:base", "no path"),
            ("unix:/run/app.sock:/a b", "no path"),
            ("unix:/run/app.sock:/?q", "query"),
            (long.as_str(), "107 bytes"),
        ] {
            let error = Target::parse(wrong).expect_err(wrong).to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn mistakes_name_what_to_write() {
        for (given, word) in [
            ("127.0.0.1:8000", "http://"),
            ("localhost", "http://"),
            ("ftp://x/", "ftp"),
            ("http://", "http://"),
            ("http://user@x/", "user name"),
            ("http://x/?q=1", "query"),
            ("", "http://"),
        ] {
            let error = Target::parse(given).expect_err(given).to_string();
            assert!(error.contains(word), "{given}: {error}");
        }
    }

    #[test]
    fn mistakes_show_no_password_and_no_query() {
        for (given, shown) in [
            ("http://bob:s3cret@x:1/a", "`http://…@x:1/a`"),
            ("https://bob:s3/cr?e#t@x", "`https://…@x`"),
            ("ftp://bob:s3cret@x", "`ftp://…@x`"),
            ("bob:s3cret@x", "`…@x`"),
            ("http://bob:s3cret@", "`http://…@`"),
            ("http://x/a?token=s3cret", "`http://x/a?…`"),
            ("http://x y?token=s3cret", "`http://x y?…`"),
            ("unix:/x:/a?token=s3cret", "`unix:/x:/a?…`"),
        ] {
            let error = Target::parse(given).expect_err(given).to_string();
            assert!(error.contains(shown), "{error}");
            assert!(!error.contains("s3") && !error.contains("cret"), "{error}");
        }
    }

    #[test]
    fn a_proxy_forwards_plain_http_1_and_nothing_else() {
        let access = Access::resolve(&TargetOptions {
            proxy: Some("http://127.0.0.1:3128".to_owned()),
            insecure: true,
            ..TargetOptions::default()
        })
        .expect("a proxy");
        let parse = |given| Target::reached_by(given, &access).expect("a URL");
        let plain = parse("http://[::1]:81/b");
        assert!(plain.forwarding_proxy().is_some());
        let two = plain.speaking(HttpVersion::Http2);
        assert!(two.forwarding_proxy().is_none());
        assert!(parse("https://example.org/").forwarding_proxy().is_none());
        let refused = Target::reached_by("unix:/x", &access).expect_err("no way");
        assert!(refused.to_string().contains("--proxy"), "{refused}");
    }

    fn insecure() -> Access {
        Access::resolve(&TargetOptions {
            insecure: true,
            ..TargetOptions::default()
        })
        .expect("no file is read")
    }
}
