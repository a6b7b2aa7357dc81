//! Just enough of HTTP/1.1 for peers that must control every byte and every instant: requests with
//! a Content-Length or none, connections kept alive.

use std::io::{self, BufRead, BufReader, Read};
use std::net::TcpStream;

const HEAD_LINES_MAX: usize = 200;
const LINE_BYTES_MAX: u64 = 64 << 10;
/// As much of a body as is kept.
const BODY_BYTES_MAX: u64 = 64 << 10;

/// A request, read to its end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Without the query.
    pub(crate) path: String,
    /// What follows the path's `?`, as sent.
    pub(crate) query: String,
    /// That header's value.
    pub(crate) authorization: Option<String>,
    /// That header's value.
    pub(crate) cookie: Option<String>,
    /// That header's value.
    pub(crate) accept_encoding: Option<String>,
    /// The body's beginning.
    pub(crate) body: Vec<u8>,
    pub(crate) keep_alive: bool,
}

/// Reads requests from one connection.
#[derive(Debug)]
pub(crate) struct Requests<R> {
    reader: BufReader<R>,
}

impl<'a> Requests<&'a TcpStream> {
    pub(crate) fn of(stream: &'a TcpStream) -> Self {
        Self::new(stream)
    }
}

impl<R: Read> Requests<R> {
    fn new(reader: R) -> Self {
        Self {
            reader: BufReader::new(reader),
        }
    }

    /// The next request, or `None` when the client has closed.
    ///
    /// # Errors
    /// When the connection breaks or what comes isn't HTTP/1.
    pub(crate) fn next(&mut self) -> io::Result<Option<Request>> {
        let Some((mut request, length)) = self.head()? else {
            return Ok(None);
        };
        request.body = self.body(length)?;
        Ok(Some(request))
    }

    /// The next request without its body, whose length is given, or `None` when the client has
    /// closed.
    ///
    /// # Errors
    /// As [`Requests::next`].
    pub(crate) fn head(&mut self) -> io::Result<Option<(Request, u64)>> {
        let first = self.line()?;
        if first.is_empty() {
            return Ok(None);
        }
        let mut words = first.split_whitespace();
        let (Some(method), Some(target), Some(version)) =
            (words.next(), words.next(), words.next())
        else {
            return Err(invalid(&first));
        };
        if !version.starts_with("HTTP/1.") {
            return Err(invalid(&first));
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Request {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            keep_alive: version == "HTTP/1.1",
            ..Request::default()
        };
        let length = self.headers(&mut request)?;
        Ok(Some((request, length)))
    }

    /// Reads a body to its end and keeps its beginning.
    ///
    /// # Errors
    /// When the connection breaks before that end.
    pub(crate) fn body(&mut self, length: u64) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        let mut rest = self.reader.by_ref().take(length);
        let kept = rest.by_ref().take(BODY_BYTES_MAX).read_to_end(&mut body)?;
        let skipped = io::copy(&mut rest, &mut io::sink())?;
        if kept as u64 + skipped < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(body)
    }

    /// Hands a body on as it comes, to its end.
    ///
    /// # Errors
    /// When the connection breaks before that end, or what `to` says.
    pub(crate) fn pass_on(
        &mut self,
        length: u64,
        mut to: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut rest = self.reader.by_ref().take(length);
        while rest.limit() > 0 {
            let came = rest.fill_buf()?;
            if came.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            to(came)?;
            let came = came.len();
            rest.consume(came);
        }
        Ok(())
    }

    /// Reads the headers and gives the body's length.
    fn headers(&mut self, request: &mut Request) -> io::Result<u64> {
        let mut length = 0;
        for _ in 0..HEAD_LINES_MAX {
            let line = self.line()?;
            let line = line.trim_end();
            if line.is_empty() {
                return Ok(length);
            }
            let (name, value) = line.split_once(':').ok_or_else(|| invalid(line))?;
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().map_err(|_| invalid(line))?,
                "authorization" => request.authorization = Some(value.to_owned()),
                "cookie" => request.cookie = Some(value.to_owned()),
                "accept-encoding" => request.accept_encoding = Some(value.to_owned()),
                "connection" => request.keep_alive = !value.eq_ignore_ascii_case("close"),
                "transfer-encoding" => return Err(invalid(line)),
                _ => {}
            }
        }
        Err(invalid("more headers than a client of these peers sends"))
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.reader
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_line(&mut line)?;
        Ok(line)
    }
}

fn invalid(line: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("not understood: {line:?}"),
    )
}

/// A whole answer with a JSON body.
pub(crate) fn json_answer(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> io::Result<Vec<Request>> {
        let mut requests = Requests::new(text.as_bytes());
        std::iter::from_fn(|| requests.next().transpose()).collect()
    }

    #[test]
    fn requests_are_read_and_connections_kept() -> io::Result<()> {
        let got = all(
            "POST /a?x=1 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloGET /b HTTP/1.1\r\nconnection: Close\r\n\r\nHEAD /c HTTP/1.0\r\n\r\n",
        )?;
        let got: Vec<_> = got
            .iter()
            .map(|request| {
                (
                    request.method.as_str(),
                    request.path.as_str(),
                    request.query.as_str(),
                    request.body.as_slice(),
                    request.keep_alive,
                )
            })
            .collect();
        assert_eq!(
            got,
            [
                ("POST", "/a", "x=1", &b"hello"[..], true),
                ("GET", "/b", "", b"", false),
                ("HEAD", "/c", "", b"", false)
            ]
        );
        Ok(())
    }

    #[test]
    fn long_bodies_are_read_to_their_end_and_kept_in_part() -> io::Result<()> {
        let long = "x".repeat(100_000);
        let got = all(&format!(
            "PUT /a HTTP/1.1\r\nAuthorization: Bearer t\r\nContent-Length: 100000\r\n\r\n{long}GET /b HTTP/1.1\r\n\r\n"
        ))?;
        assert_eq!(got[0].body.len(), 64 << 10);
        assert_eq!(got[0].authorization.as_deref(), Some("Bearer t"));
        assert_eq!(got[1].path, "/b");
        Ok(())
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for text in [
            "hello\r\n\r\n",
            "GET / SPDY/3\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhell",
        ] {
            assert!(all(text).is_err(), "{text:?} was understood");
        }
    }

    proptest::proptest! {
        #[test]
        fn requests_are_read_one_by_one_whatever_their_bodies(
            bodies in proptest::collection::vec("[ -~\r\n]{0,40}", 0..6)
        ) {
            let text: String = bodies
                .iter()
                .map(|body| format!("PUT /x HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
                .collect();
            proptest::prop_assert_eq!(all(&text).ok().map(|got| got.len()), Some(bodies.len()));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(0_u8..=255, 0..200)) {
            let mut requests = Requests::new(bytes.as_slice());
            while let Ok(Some(_)) = requests.next() {}
        }
    }
}
