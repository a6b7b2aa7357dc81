//! The head of an HTTP/1.1 answer: from bytes to status, fields and what its body is
//! (RFC 9112 §4 to §6). Pure; the lines themselves are httparse's.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Response, Status};

use super::answer::Head;
use super::failure::Failure;
use super::http1_body::Body;

/// The longest head that is read.
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The most fields that one may have.
const FIELDS_MAX: usize = 128;

/// A whole head at the front of the input.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) head_bytes: usize,
    /// An interim answer (1xx): the one that counts is still to come.
    pub(super) is_interim: bool,
    pub(super) body: Body,
    /// The service will take another request on this connection.
    pub(super) is_kept: bool,
}

/// Reads the head at the front of `input` into `head`; `None` if its end isn't there yet.
///
/// # Errors
/// It is none, or says of its body what can't be.
pub(super) fn parse(
    input: &[u8],
    asked_for_head: bool,
    head: &mut Head,
) -> Result<Option<Parsed>, Failure> {
    let mut fields = [const { MaybeUninit::<Header<'_>>::uninit() }; FIELDS_MAX];
    let mut response = Response::new(&mut []);
    let mut config = ParserConfig::default();
    // Whoever reads an answer may not refuse it (RFC 9112 §5.2).
    config.allow_obsolete_multiline_headers_in_responses(true);
    let parsed = config.parse_response_with_uninit_headers(&mut response, input, &mut fields);
    let head_bytes = match parsed {
        Ok(Status::Complete(head_bytes)) => head_bytes,
        Ok(Status::Partial) if input.len() > HEAD_BYTES_MAX => return Err(too_long()),
        Ok(Status::Partial) => return Ok(None),
        Err(error) => return Err(unreadable(error, input)),
    };
    if head_bytes > HEAD_BYTES_MAX {
        return Err(too_long());
    }
    // Both are there in a complete head.
    let (status, version) = (response.code.unwrap_or(0), response.version.unwrap_or(0));
    if status < 100 {
        return Err(Failure::protocol(format_args!("the status {status:03}")));
    }
    if status == 101 {
        let message = "the service switched protocols (101), which nobody had asked it to";
        return Err(Failure::protocol(message));
    }
    head.begin(status);
    let mut said = Said::default();
    for field in response.headers.iter() {
        said.hear(field)?;
        head.push(field.name, field.value);
    }
    let is_interim = status < 200;
    let body = if asked_for_head || is_interim || matches!(status, 204 | 304) {
        Body::EMPTY
    } else {
        said.body()
    };
    // With both, the two sides may not agree where the answer ended (RFC 9112 §6.1).
    let is_doubtful = said.chunked && said.length.is_some();
    let is_kept = match version {
        0 => said.keep_alive && !said.chunked,
        _ => !is_doubtful,
    };
    Ok(Some(Parsed {
        head_bytes,
        is_interim,
        body,
        is_kept: is_kept && !said.close && body != Body::UntilClose,
    }))
}

/// What fields say of the message and its connection.
#[derive(Default)]
struct Said {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
}

impl Said {
    fn hear(&mut self, field: &Header<'_>) -> Result<(), Failure> {
        // By length first: most fields are none of these.
        match field.name.len() {
            10 if field.name.eq_ignore_ascii_case("connection") => {
                for option in options(field.value) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if field.name.eq_ignore_ascii_case("content-length") => {
                let length = length(field.value)?;
                // Twice the same is what some proxies make of one, and harmless (RFC 9110 §8.6).
                let before = self.length.replace(length);
                if before.is_some_and(|before| before != length) {
                    return Err(Failure::protocol("it has several content-lengths"));
                }
            }
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                for coding in options(field.value) {
                    self.coding(coding)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn coding(&mut self, coding: &[u8]) -> Result<(), Failure> {
        if coding.eq_ignore_ascii_case(b"identity") {
            return Ok(());
        }
        if !coding.eq_ignore_ascii_case(b"chunked") {
            let coding = coding.escape_ascii();
            return Err(Failure::protocol(format_args!(
                "its transfer-encoding is `{coding}`, which nobody had asked for"
            )));
        }
        if std::mem::replace(&mut self.chunked, true) {
            return Err(Failure::protocol("it is chunked several times"));
        }
        Ok(())
    }

    fn body(&self) -> Body {
        match (self.length, self.chunked) {
            // Chunks override a length (RFC 9112 §6.3).
            (_, true) => Body::CHUNKED,
            (Some(length), false) => Body::Length(length),
            (None, false) => Body::UntilClose,
        }
    }
}

/// The members of a list (RFC 9110 §5.6.1).
fn options(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let members = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    members.filter(|member| !member.is_empty())
}

fn length(value: &[u8]) -> Result<u64, Failure> {
    let digits = value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| digits);
    text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        let value = value.escape_ascii();
        Failure::protocol(format_args!(
            "its content-length is `{value}`, expected a number"
        ))
    })
}

fn too_long() -> Failure {
    Failure::protocol(format_args!(
        "the answer's head is longer than {HEAD_BYTES_MAX} bytes"
    ))
}

fn unreadable(error: httparse::Error, input: &[u8]) -> Failure {
    match error {
        httparse::Error::TooManyHeaders => Failure::protocol(format_args!(
            "the answer has more than {FIELDS_MAX} header fields"
        )),
        // A record of TLS: an alert, or a handshake (RFC 8446 §5.1).
        _ if matches!(input, [0x15 | 0x16, 0x03, ..]) => {
            Failure::protocol("the service speaks TLS on this port; write the target as https://")
        }
        _ => Failure::protocol(format_args!("{error} in the answer's head")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unstall_results::record::ErrorKind;

    use super::*;
    use crate::engine::failure::Cause;

    fn parsed(text: &str) -> Result<Option<Parsed>, Failure> {
        parse(text.as_bytes(), false, &mut Head::default())
    }

    /// Body and persistence of an answer with these lines.
    fn framing(status_line: &str, lines: &str) -> (Body, bool) {
        let text = format!("{status_line}\r\n{lines}\r\n");
        let parsed = parsed(&text).expect("it is a head").expect("a whole one");
        assert_eq!(parsed.head_bytes, text.len());
        (parsed.body, parsed.is_kept)
    }

    #[test]
    fn the_body_is_what_the_standard_says() {
        let ok = "HTTP/1.1 200 OK";
        for (status_line, lines, body, is_kept) in [
            (ok, "Content-Length: 12\r\n", Body::Length(12), true),
            (ok, "content-length:0\r\n", Body::EMPTY, true),
            (ok, "transfer-encoding: Chunked\r\n", Body::CHUNKED, true),
            (
                ok,
                "transfer-encoding: identity\r\ncontent-length: 1\r\n",
                Body::Length(1),
                true,
            ),
            (ok, "", Body::UntilClose, false),
            (
                ok,
                "connection: close\r\ncontent-length: 1\r\n",
                Body::Length(1),
                false,
            ),
            (
                ok,
                "connection: upgrade, Close\r\ncontent-length: 1\r\n",
                Body::Length(1),
                false,
            ),
            (
                "HTTP/1.0 200 OK",
                "content-length: 1\r\n",
                Body::Length(1),
                false,
            ),
            (
                "HTTP/1.0 200 OK",
                "connection: keep-alive\r\ncontent-length: 1\r\n",
                Body::Length(1),
                true,
            ),
            (
                "HTTP/1.0 200 OK",
                "connection: keep-alive\r\n",
                Body::UntilClose,
                false,
            ),
            (
                "HTTP/1.0 200 OK",
                "connection: keep-alive\r\ntransfer-encoding: chunked\r\n",
                Body::CHUNKED,
                false,
            ),
            (
                ok,
                "a: b\r\n c\r\ncontent-length: 1\r\n",
                Body::Length(1),
                true,
            ),
            (
                ok,
                "content-length: 1\r\ncontent-length: 1\r\n",
                Body::Length(1),
                true,
            ),
            (
                ok,
                "content-length: 1\r\ntransfer-encoding: chunked\r\n",
                Body::CHUNKED,
                false,
            ),
            (
                "HTTP/1.1 204 No Content",
                "transfer-encoding: chunked\r\n",
                Body::EMPTY,
                true,
            ),
            (
                "HTTP/1.1 304 Not Modified",
                "content-length: 100\r\n",
                Body::EMPTY,
                true,
            ),
            (
                "HTTP/1.1 999",
                "content-length: 1\r\n",
                Body::Length(1),
                true,
            ),
        ] {
            assert_eq!(
                framing(status_line, lines),
                (body, is_kept),
                "{status_line} {lines}"
            );
        }
        let text = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
        let parsed = parse(text, true, &mut Head::default()).expect("it is a head");
        assert_eq!(parsed.map(|parsed| parsed.body), Some(Body::EMPTY), "HEAD");
    }

    #[test]
    fn interim_answers_are_known_as_such() {
        let mut head = Head::default();
        let text = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n";
        let parsed = parse(text, false, &mut head)
            .expect("it is a head")
            .expect("whole");
        assert!(parsed.is_interim && parsed.is_kept);
        assert_eq!(parsed.head_bytes, text.len() - 17);
    }

    #[test]
    fn what_is_no_head_is_called_by_its_name() {
        let ok = "HTTP/1.1 200 OK\r\n";
        for (text, words) in [
            (
                "\u{1}\u{2} this is not HTTP\n".to_owned(),
                "invalid HTTP version",
            ),
            (
                "<html>an answer of HTTP/0.9</html>".to_owned(),
                "invalid HTTP version",
            ),
            ("HTTP/2.0 200 OK\r\n\r\n".to_owned(), "invalid HTTP version"),
            ("HTTP/1.1 20 OK\r\n\r\n".to_owned(), "status"),
            ("HTTP/1.1 099 OK\r\n\r\n".to_owned(), "099"),
            ("HTTP/1.1 101 Switching\r\n\r\n".to_owned(), "101"),
            ("\u{15}\u{3}\u{1}\0\u{2}\u{2}".to_owned(), "https://"),
            (format!("{ok}a b: c\r\n\r\n"), "header name"),
            (format!("{ok}a: b\0c\r\n\r\n"), "header value"),
            (
                format!("{ok}content-length: 1\r\ncontent-length: 2\r\n\r\n"),
                "several",
            ),
            (format!("{ok}content-length: 1, 1\r\n\r\n"), "`1, 1`"),
            (format!("{ok}content-length: -1\r\n\r\n"), "`-1`"),
            (format!("{ok}content-length: +1\r\n\r\n"), "`+1`"),
            (
                format!("{ok}content-length: 18446744073709551616\r\n\r\n"),
                "expected a number",
            ),
            (format!("{ok}content-length:\r\n\r\n"), "``"),
            (
                format!("{ok}transfer-encoding: gzip, chunked\r\n\r\n"),
                "`gzip`",
            ),
            (
                format!("{ok}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n"),
                "several",
            ),
            (
                format!("{ok}{}\r\n", "a: b\r\n".repeat(FIELDS_MAX + 1)),
                "128 header",
            ),
            (
                format!("{ok}a: {}", "b".repeat(HEAD_BYTES_MAX)),
                "longer than 65536",
            ),
            (
                format!("{ok}a: {}\r\n\r\n", "b".repeat(HEAD_BYTES_MAX)),
                "longer than 65536",
            ),
        ] {
            let failure = parsed(&text).expect_err(&text);
            assert_eq!(
                failure.cause,
                Cause::Service(ErrorKind::Protocol),
                "{text:?}"
            );
            assert!(
                failure.message.contains(words),
                "{text:?}: {}",
                failure.message
            );
        }
    }

    proptest! {
        #[test]
        fn a_part_of_a_head_is_no_head_and_no_fault(cut in 0..1_000usize) {
            let text = "HTTP/1.1 200 OK\r\nserver: a\r\ncontent-length: 17\r\nx-y: z\r\n\r\n";
            let cut = cut % text.len();
            prop_assert_eq!(parsed(&text[..cut]), Ok(None));
        }

        #[test]
        fn any_bytes_are_a_head_or_not(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut text = b"HTTP/1.1 200 OK\r\n".to_vec();
            text.extend_from_slice(&bytes);
            for input in [&bytes, &text] {
                if let Ok(Some(parsed)) = parse(input, false, &mut Head::default()) {
                    prop_assert!(parsed.head_bytes <= input.len());
                }
            }
        }
    }
}
