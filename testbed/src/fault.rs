//! What the torture server sends for a path: which bytes, after which pauses, and how the
//! connection ends. Pure, so that the table in [`crate::FaultyServer`] can be read off here.

use std::time::Duration;

use crate::faulty::fine;
use crate::http_message::json_answer;
use crate::stream_fault;
use crate::stream_format::StreamFormat;

const SLOW_MS_MAX: u64 = 60_000;
const SLOW_PIECES: usize = 10;

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
}

/// Bytes, after a pause.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) after: Duration,
    pub(crate) bytes: Vec<u8>,
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
        match words {
            ["ok" | "health"] => Self::Fine,
            ["slow", ms] => time(ms).map_or(Self::Unknown, Self::Slow),
            ["slow-body", ms] => time(ms).map_or(Self::Unknown, Self::SlowBody),
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
            Self::Fine => whole(&fine()),
            Self::Status(code) => whole(&json_answer(
                &format!("{code} Fault"),
                r#"{"error":"as asked"}"#,
            )),
            Self::Slow(time) => {
                let mut script = whole(&fine());
                script.pieces[0].after = *time;
                script
            }
            Self::SlowBody(time) => slow_body(*time),
            Self::Stream(name, format) => stream_fault::script(name, *format),
            Self::Named(name) => named(name),
            Self::Unknown => whole(&json_answer(
                "404 Not Found",
                r#"{"error":"no such fault"}"#,
            )),
        }
    }
}

fn whole(text: &str) -> Script {
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

fn piece(text: &str) -> Piece {
    Piece {
        after: Duration::ZERO,
        bytes: text.as_bytes().to_vec(),
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

fn interim(text: &str) -> Script {
    let mut script = whole(&fine());
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
        "close-after" => ending(Close, &fine()),
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
        ] {
            assert_eq!(Fault::of(path, 1), Fault::Unknown, "{path}");
        }
    }
}
