//! What the torture server sends for a path: which bytes, after which pauses, and how the
//! connection ends. Pure, so that the table in [`crate::FaultyServer`] can be read off here.

use std::time::Duration;

use crate::coded_body;
use crate::faulty::right_answer;
use crate::framing_fault;
use crate::http_message::json_answer;
use crate::stream_fault;
use crate::stream_format::StreamFormat;

const SLOW_MS_MAX: u64 = 60_000;
const SLOW_PIECES: usize = 10;
const LARGE_BYTES_MAX: usize = 1 << 30;
const LARGE_BLOCK: usize = 64 << 10;

/// Requests below it are answered before their body is read.
pub(crate) const EARLY: &str = "early";

/// One way to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault.
    Fine,
    Status(u16),
    /// A path from the table, without its slash.
    Named(&'static str),
    Slow(Duration),
    SlowBody(Duration),
    /// Byte by byte, with that pause before each.
    Slowly(Duration),
    /// A body of that many bytes.
    Large(usize),
    /// A name of [`framing_fault`].
    Framing(&'static str),
    /// A coding and its state, of [`coded_body`].
    Coded(&'static str, &'static str),
    /// With that status, to that place.
    Redirect(u16, Option<String>),
    /// With that cookie.
    Cookie(String),
    /// In two writes, cut there.
    Split(usize),
    /// Ends there, so.
    Cut(usize, Ending),
    /// A complete stream without a frame, closed after that many bytes.
    StreamCut(usize, StreamFormat),
    /// Before the request's body is read, so.
    Early(Ending),
    /// A name of [`stream_fault`].
    Stream(&'static str, StreamFormat),
    Unknown,
}

/// What happens to the connection after the last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    KeepOpen,
    Close,
    Reset,
    Hang,
    /// Only the server's direction is closed; it goes on reading.
    HalfClose,
    /// This text again and again, as fast as it is taken.
    Endless(&'static str),
    /// Not a byte more is read.
    Deaf,
    /// The request's body is sent back while it is read; then as `KeepOpen`.
    Echo,
}

/// Bytes, after a pause.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) after: Duration,
    pub(crate) bytes: Vec<u8>,
    /// How often, the pause before the first of them.
    pub(crate) times: usize,
    /// A 1xx, which HEAD gets too.
    pub(crate) is_interim: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) ending: Ending,
    /// False when HEAD is answered with the same rubbish.
    pub(crate) is_http: bool,
}

const NAMES: [&str; 20] = [
    "wrong-shape",
    "not-json",
    "rubbish",
    "half-head",
    "close",
    "reset",
    "reset-in-body",
    "truncated",
    "truncated-chunked",
    "hang",
    "hang-in-body",
    "continue",
    "early-hints",
    "204",
    "304",
    "204-chunked",
    "304-length",
    "chunked",
    "until-close",
    "close-after",
];

impl Fault {
    /// The answer for the `turn`-th request (from 1) of `path`.
    pub(crate) fn of(path: &str, turn: u64) -> Self {
        let words: Vec<&str> = path.split('/').skip(1).collect();
        let (rule, inner) = match words[..] {
            ["after", n, ref inner @ ..] => (n.parse().ok().map(|n: u64| turn > n), inner),
            ["every", n, ref inner @ ..] => (
                n.parse()
                    .ok()
                    .filter(|n| *n > 0)
                    .map(|n: u64| turn.is_multiple_of(n)),
                inner,
            ),
            ref plain => (Some(true), plain),
        };
        match rule {
            Some(true) => Self::plain(inner),
            Some(false) => Self::Fine,
            None => Self::Unknown,
        }
    }

    fn plain(words: &[&str]) -> Self {
        let time = |ms: &str| {
            ms.parse()
                .ok()
                .filter(|ms| *ms <= SLOW_MS_MAX)
                .map(Duration::from_millis)
        };
        let number = |text: &str| text.parse::<usize>().ok();
        match words {
            ["ok" | "health"] => Self::Fine,
            ["slow", ms] => time(ms).map_or(Self::Unknown, Self::Slow),
            ["slow-body", ms] => time(ms).map_or(Self::Unknown, Self::SlowBody),
            ["slowly", ms] => time(ms).map_or(Self::Unknown, Self::Slowly),
            ["large", bytes] => {
                let bytes = number(bytes).filter(|bytes| *bytes <= LARGE_BYTES_MAX);
                bytes.map_or(Self::Unknown, Self::Large)
            }
            ["coded", coding, state] => {
                let coding = coded_body::CODINGS.iter().find(|known| *known == coding);
                let coded = coding.zip(coded_body::STATES.iter().find(|known| *known == state));
                coded.map_or(Self::Unknown, |(coding, state)| Self::Coded(coding, state))
            }
            ["redirect", status, to @ ..] => redirect(status, to),
            ["cookie", name, value] => Self::Cookie(format!("{name}={value}; Path=/")),
            ["cookie", name, value, "secure"] => {
                Self::Cookie(format!("{name}={value}; Path=/; Secure"))
            }
            ["split", at] => number(at).map_or(Self::Unknown, Self::Split),
            ["cut", at] => number(at).map_or(Self::Unknown, |at| Self::Cut(at, Ending::Close)),
            ["reset-at", at] => number(at).map_or(Self::Unknown, |at| Self::Cut(at, Ending::Reset)),
            ["framing", name] => {
                let known = framing_fault::RIGHT.iter().chain(&framing_fault::WRONG);
                let known = known.into_iter().find(|known| *known == name);
                known.map_or(Self::Unknown, |name| Self::Framing(name))
            }
            [EARLY, "read"] => Self::Early(Ending::KeepOpen),
            [EARLY, "half-close"] => Self::Early(Ending::HalfClose),
            [EARLY, "deaf"] => Self::Early(Ending::Deaf),
            [EARLY, "echo"] => Self::Early(Ending::Echo),
            ["stream-cut", at, format] => {
                let cut = number(at).zip(StreamFormat::parse(format));
                cut.map_or(Self::Unknown, |(at, format)| Self::StreamCut(at, format))
            }
            ["stream", name, format] => {
                let known = stream_fault::NAMES.iter().find(|known| *known == name);
                let stream = known.zip(StreamFormat::parse(format));
                stream.map_or(Self::Unknown, |(name, format)| Self::Stream(name, format))
            }
            [name] => {
                let named = NAMES
                    .iter()
                    .find(|known| *known == name)
                    .map(|known| Self::Named(known));
                let status = || name.parse().ok().filter(|code| (400..600).contains(code));
                named
                    .or_else(|| status().map(Self::Status))
                    .unwrap_or(Self::Unknown)
            }
            _ => Self::Unknown,
        }
    }

    pub(crate) fn script(&self) -> Script {
        match self {
            Self::Fine => whole(&right_answer()),
            Self::Status(code) => whole(&json_answer(
                &format!("{code} Fault"),
                r#"{"error":"as asked"}"#,
            )),
            Self::Slow(time) => {
                let mut script = whole(&right_answer());
                script.pieces[0].after = *time;
                script
            }
            Self::SlowBody(time) => slow_body(*time),
            Self::Slowly(pause) => framing_fault::slowly(*pause),
            Self::Large(bytes) => large(*bytes),
            Self::Coded(coding, state) => coded_body::script(coding, state),
            Self::Redirect(status, to) => {
                let location = to.iter().map(|to| format!("Location: {to}\r\n"));
                whole(&format!(
                    "HTTP/1.1 {status} Elsewhere\r\n{}Content-Length: 9\r\n\r\nelsewhere",
                    location.collect::<String>()
                ))
            }
            Self::Cookie(cookie) => {
                let cookie = format!("\r\nSet-Cookie: {cookie}\r\n");
                whole(&right_answer().replacen("\r\n", &cookie, 1))
            }
            Self::Framing(name) => framing_fault::script(name),
            Self::Split(at) => framing_fault::split(*at),
            Self::Cut(at, ending) => framing_fault::cut(*at, *ending),
            Self::StreamCut(at, format) => stream_fault::cut(*at, *format),
            Self::Early(ending) => early(*ending),
            Self::Stream(name, format) => stream_fault::script(name, *format),
            Self::Named(name) => named(name),
            Self::Unknown => whole(&json_answer(
                "404 Not Found",
                r#"{"error":"no such fault"}"#,
            )),
        }
    }
}

/// What follows `/redirect/{status}/`.
fn redirect(status: &str, to: &[&str]) -> Fault {
    let status: Option<u16> = status.parse().ok().filter(|code| (300..400).contains(code));
    let location = match *to {
        ["nowhere"] => None,
        ["loop"] => Some("loop".to_owned()),
        ["hops", hops] => match hops.parse() {
            Ok(0..=1) => Some("/ok".to_owned()),
            // Relative to /redirect/{status}/hops/{n}.
            Ok::<u32, _>(hops) => Some((hops - 1).to_string()),
            Err(_) => return Fault::Unknown,
        },
        ["port", port, ref path @ ..] => {
            Some(format!("http://127.0.0.1:{port}/{}", path.join("/")))
        }
        ["host", host, ref path @ ..] => Some(format!("//{host}/{}", path.join("/"))),
        _ => return Fault::Unknown,
    };
    status.map_or(Fault::Unknown, |status| Fault::Redirect(status, location))
}

pub(crate) fn whole(text: &str) -> Script {
    ending(Ending::KeepOpen, text)
}

fn ending(ending: Ending, text: &str) -> Script {
    let pieces = if text.is_empty() {
        vec![]
    } else {
        vec![piece(text)]
    };
    Script {
        pieces,
        ending,
        is_http: true,
    }
}

pub(crate) fn piece(text: &str) -> Piece {
    Piece {
        after: Duration::ZERO,
        bytes: text.as_bytes().to_vec(),
        times: 1,
        is_interim: false,
    }
}

fn slow_body(time: Duration) -> Script {
    let mut script =
        whole("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\n");
    script.pieces.extend((0..SLOW_PIECES).map(|_| Piece {
        after: time / SLOW_PIECES as u32,
        ..piece("x")
    }));
    script
}

fn large(bytes: usize) -> Script {
    let mut script = whole(&format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {bytes}\r\n\r\n"
    ));
    let block = |bytes: usize, times: usize| Piece {
        times,
        ..piece(&"x".repeat(bytes))
    };
    script.pieces.push(block(LARGE_BLOCK, bytes / LARGE_BLOCK));
    script.pieces.push(block(bytes % LARGE_BLOCK, 1));
    script
}

/// A refusal that says what becomes of the connection; or a head before all that comes.
fn early(ending: Ending) -> Script {
    if ending == Ending::Echo {
        return Script {
            ending,
            ..whole(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n",
            )
        };
    }
    let connection = match ending {
        Ending::HalfClose => "Connection: close\r\n",
        _ => "",
    };
    let refusal = json_answer("413 Content Too Large", r#"{"error":"too large"}"#);
    Script {
        ending,
        ..whole(&refusal.replacen("\r\n", &format!("\r\n{connection}"), 1))
    }
}

fn interim(text: &str) -> Script {
    let mut script = whole(&right_answer());
    script.pieces.insert(
        0,
        Piece {
            is_interim: true,
            ..piece(text)
        },
    );
    script
}

fn named(name: &str) -> Script {
    use Ending::{Close, Hang, Reset};
    let broken_body = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"status\":\"o";
    match name {
        "wrong-shape" => whole(&json_answer("200 OK", r#"{"unexpected":[1,2,3]}"#)),
        "not-json" => whole(&json_answer("200 OK", "<html>not JSON</html>")),
        "rubbish" => {
            let text = "\u{1}\u{2} this is not HTTP\n\u{fffd} at all\n";
            Script {
                is_http: false,
                ..ending(Close, text)
            }
        }
        "half-head" => Script {
            is_http: false,
            ..ending(Close, "HTTP/1.1 200 OK\r\nContent-Ty")
        },
        "close" => ending(Close, ""),
        "reset" => ending(Reset, ""),
        "reset-in-body" => ending(Reset, broken_body),
        "truncated" => ending(Close, broken_body),
        "truncated-chunked" => ending(
            Close,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n{\"status\"",
        ),
        "hang" => ending(Hang, ""),
        "hang-in-body" => ending(Hang, broken_body),
        "continue" => interim("HTTP/1.1 100 Continue\r\n\r\n"),
        "early-hints" => interim("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n"),
        "204" => whole("HTTP/1.1 204 No Content\r\n\r\n"),
        "204-chunked" => whole("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n"),
        "304" => whole("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n"),
        "304-length" => whole("HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n"),
        "chunked" => whole(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"status\r\n7\r\n\":\"ok\"}\r\n0\r\n\r\n",
        ),
        "until-close" => ending(
            Close,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{\"status\":\"ok\"}",
        ),
        "close-after" => ending(Close, &right_answer()),
        // `Fault::Named` is made from NAMES only; a test walks them all.
        _ => Fault::Unknown.script(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_count_from_one() {
        let faults = |path: &str| -> Vec<bool> {
            (1..=6)
                .map(|turn| Fault::of(path, turn) != Fault::Fine)
                .collect()
        };
        assert_eq!(
            faults("/after/4/500"),
            [false, false, false, false, true, true]
        );
        assert_eq!(
            faults("/every/3/slow/5"),
            [false, false, true, false, false, true]
        );
        assert_eq!(faults("/ok"), [false; 6]);
    }

    #[test]
    fn redirects_say_where_to() {
        for (path, location) in [
            ("/redirect/302/hops/3", Some("2")),
            ("/redirect/302/hops/1", Some("/ok")),
            ("/redirect/307/loop", Some("loop")),
            ("/redirect/301/nowhere", None),
            ("/redirect/308/port/81/a/b", Some("http://127.0.0.1:81/a/b")),
            ("/redirect/303/host/x.test:81/ok", Some("//x.test:81/ok")),
        ] {
            let Fault::Redirect(_, to) = Fault::of(path, 1) else {
                panic!("{path}");
            };
            assert_eq!(to.as_deref(), location, "{path}");
        }
    }

    #[test]
    fn every_name_has_a_script_and_every_other_path_is_a_404() {
        let unknown = Fault::Unknown.script();
        for name in NAMES {
            assert_ne!(
                Fault::of(&format!("/{name}"), 1).script(),
                unknown,
                "{name}"
            );
        }
        for path in [
            "/",
            "/nonsense",
            "/after/x/500",
            "/every/0/500",
            "/600",
            "/slow/9999999",
            "/ok/500",
            "/stream/nonsense/sse",
            "/stream/cut/xml",
            "/stream-cut/x/sse",
            "/framing/nonsense",
            "/split/x",
            "/large/99999999999",
            "/early/nonsense",
            "/coded/gzip/nonsense",
            "/redirect/200/loop",
            "/redirect/302/nonsense",
        ] {
            assert_eq!(Fault::of(path, 1), Fault::Unknown, "{path}");
        }
    }
}
