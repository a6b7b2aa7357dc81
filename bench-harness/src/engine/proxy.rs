//! An HTTP proxy on the way to the service: it forwards plain requests, and opens tunnels for
//! everything else (RFC 9110 §9.3.6).

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{HeaderValue, PROXY_AUTHORIZATION};
use http::{StatusCode, Uri};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use unstall_results::record::ErrorKind;

use super::failure::Failure;
use super::wire::AGENT;

/// More is no head of an answer to CONNECT.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A proxy. What it shows of itself has no password.
#[derive(Debug, Clone)]
pub(super) struct Proxy {
    host: String,
    port: u16,
    authorization: Option<HeaderValue>,
}

/// Why a proxy can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// Not a proxy's URL. What was given isn't shown: it may hold a password.
    #[error(
        "--proxy is not the URL of an HTTP proxy ({0}); write it like http://127.0.0.1:3128 or \
         http://user:password@proxy.example:3128"
    )]
    NotAUrl(String),
}

impl Proxy {
    pub(super) fn parse(given: &str) -> Result<Self, ProxyError> {
        let wrong = |reason: &str| ProxyError::NotAUrl(reason.to_owned());
        let uri: Uri = given
            .trim()
            .parse()
            .map_err(|error| ProxyError::NotAUrl(format!("{error}")))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some(scheme) => {
                return Err(ProxyError::NotAUrl(format!(
                    "its scheme is {scheme}, expected http"
                )));
            }
            None => return Err(wrong("it has no http://")),
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong("it has a path"));
        }
        let authority = uri.authority().ok_or_else(|| wrong("it has no host"))?;
        if authority.host().is_empty() {
            return Err(wrong("its host is empty"));
        }
        let credentials = authority.as_str().rsplit_once('@');
        Ok(Self {
            host: authority.host().to_owned(),
            port: authority.port_u16().unwrap_or(80),
            authorization: credentials
                .map(|(credentials, _)| basic(credentials))
                .transpose()?,
        })
    }

    /// Host name or address, without the brackets of IPv6.
    pub(super) fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Value of the `Proxy-Authorization` header, if it wants one.
    pub(super) fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }

    /// Asks for a tunnel to `authority`. Nothing that comes through it is read here.
    pub(super) async fn tunnel(
        &self,
        stream: &mut TcpStream,
        authority: &str,
    ) -> Result<(), Failure> {
        let mut request =
            format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\nuser-agent: {AGENT}\r\n")
                .into_bytes();
        if let Some(authorization) = &self.authorization {
            request.extend_from_slice(PROXY_AUTHORIZATION.as_str().as_bytes());
            request.extend_from_slice(b": ");
            request.extend_from_slice(authorization.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        let lost = |error| self.refused(format!("it hung up: {error}"));
        stream.write_all(&request).await.map_err(lost)?;
        let status = status_of(&self.head(stream).await?);
        match status {
            Some(status) if status.is_success() => Ok(()),
            Some(StatusCode::PROXY_AUTHENTICATION_REQUIRED) => Err(self.refused(
                match self.authorization {
                    None => "it wants credentials (407): --proxy http://user:password@…",
                    Some(_) => "it does not accept the credentials of --proxy (407)",
                }
                .to_owned(),
            )),
            Some(status) => Err(self.refused(format!("it answers {status}"))),
            None => Err(self.refused("what it answers is not HTTP".to_owned())),
        }
    }

    /// The head of its answer, and not one byte more: what follows is the tunnel's.
    async fn head(&self, stream: &mut TcpStream) -> Result<Vec<u8>, Failure> {
        let lost = |error| self.refused(format!("it hung up: {error}"));
        let mut head = Vec::new();
        let mut buffer = [0; 1024];
        loop {
            let seen = stream.peek(&mut buffer).await.map_err(lost)?;
            if seen == 0 {
                return Err(self.refused("it hung up without an answer".to_owned()));
            }
            let before = head.len();
            head.extend_from_slice(&buffer[..seen]);
            let end = head.windows(4).position(|four| four == b"\r\n\r\n");
            let take = end.map_or(seen, |end| end + 4 - before);
            head.truncate(before + take);
            stream.read_exact(&mut buffer[..take]).await.map_err(lost)?;
            if end.is_some() {
                return Ok(head);
            }
            if head.len() > HEAD_BYTES_MAX {
                return Err(self.refused("what it answers has no end".to_owned()));
            }
        }
    }

    fn refused(&self, reason: String) -> Failure {
        Failure::service(
            ErrorKind::Connect,
            format!("no connection through the proxy {self}: {reason}"),
        )
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}", self.host, self.port)
    }
}

/// Basic credentials (RFC 7617) of a URL's `user:password`.
fn basic(credentials: &str) -> Result<HeaderValue, ProxyError> {
    let decoded = percent_decoded(credentials)
        .ok_or_else(|| ProxyError::NotAUrl("a `%` in its credentials begins nothing".to_owned()))?;
    let mut value = HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(decoded)))
        .map_err(|_| ProxyError::NotAUrl("its credentials fit into no header".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// `%40` is `@` (RFC 3986 §2.1).
fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        if first != b'%' {
            decoded.push(first);
            rest = behind;
            continue;
        }
        let digit = |index: usize| char::from(*behind.get(index)?).to_digit(16);
        let byte = digit(0)? * 16 + digit(1)?;
        decoded.push(u8::try_from(byte).ok()?);
        rest = &behind[2..];
    }
    Some(decoded)
}

/// The status of an HTTP/1 answer's head.
fn status_of(head: &[u8]) -> Option<StatusCode> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let line = line.strip_prefix(b"HTTP/1.")?;
    let status = line.get(2..5)?;
    let is_alone = line.get(5).is_none_or(|byte| *byte == b' ');
    // Anything else than three digits is no status.
    StatusCode::from_bytes(status).ok().filter(|_| is_alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_decoded_and_never_shown() {
        let proxy = Proxy::parse("http://m%40e:p%3aw@[::1]:3128/").expect("a proxy");
        assert_eq!((proxy.host(), proxy.port()), ("::1", 3128));
        assert_eq!(proxy.to_string(), "http://[::1]:3128");
        let sent = proxy.authorization().expect("credentials");
        assert_eq!(sent.as_bytes(), b"Basic bUBlOnA6dw==");
        assert!(!format!("{proxy:?}").contains("bUBl"));
        assert!(
            Proxy::parse("http://proxy")
                .expect("a proxy")
                .authorization()
                .is_none()
        );
    }

    #[test]
    fn mistakes_never_show_what_was_given() {
        for (given, word) in [
            ("proxy:3128", "http://"),
            ("socks5://u:secret@p", "socks5"),
            ("http://u:secret@p/x", "path"),
            ("http://u:secret%4@p", "%"),
            ("http://u:sec ret@p", "invalid"),
            ("", "empty"),
        ] {
            let error = Proxy::parse(given).expect_err(given).to_string();
            assert!(error.contains(word), "{given}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn only_an_answers_first_line_has_its_status() {
        assert_eq!(status_of(b"HTTP/1.1 200 OK\r\n\r\n"), Some(StatusCode::OK));
        assert_eq!(
            status_of(b"HTTP/1.0 407\r\nx: y\r\n\r\n").map(|s| s.as_u16()),
            Some(407)
        );
        for none in [
            &b"HTTP/2 200\r\n"[..],
            b"HTTP/1.1 2000 x\r\n",
            b"hello",
            b"",
        ] {
            assert_eq!(status_of(none), None);
        }
    }
}
