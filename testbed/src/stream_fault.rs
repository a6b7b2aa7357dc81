//! What the torture server streams: right streams in unusual shapes, and wrong ones.

use std::time::Duration;

use crate::fault::{Ending, Piece, Script};
use crate::stream_format::{LAST_CHUNK, StreamFormat, chunk, head};

/// Long enough for a client to have read what came before, also on a busy machine.
const READ_WITHIN: Duration = Duration::from_millis(200);
/// Before each item of `chat`.
const CHAT_PAUSE: Duration = Duration::from_millis(30);
/// The endless item's length before the server falls silent, and the pieces it comes in.
const ENDLESS_PIECES: usize = 128;
const ENDLESS_PIECE_BYTES: usize = 64 << 10;

pub(crate) const NAMES: [&str; 18] = [
    "complete",
    "bytes",
    "one-write",
    "chat",
    "unterminated",
    "short",
    "empty",
    "meaningless",
    "half-item",
    "cut",
    "reset",
    "early-close",
    "garbage",
    "wrong-item",
    "after-the-end",
    "endless",
    "silent",
    "wrong-type",
];

/// The script of a name from [`NAMES`].
pub(crate) fn script(name: &str, format: StreamFormat) -> Script {
    let five: Vec<String> = five();
    let stream = Stream::of(format);
    match name {
        "bytes" => {
            let whole: String = five.iter().map(|item| format.framed(item)).collect();
            let end = stream.end_marker();
            let bytes = whole.bytes().chain(end.bytes());
            stream.pieces(bytes.map(|byte| vec![byte])).end()
        }
        "one-write" => stream.items(&five).marker().in_one_write().end(),
        "chat" => stream.items(&chat()).slowly().marker().end(),
        "unterminated" => {
            let last = format.framed(&five[4]);
            let last = last.trim_end().to_owned();
            stream.items(&five[..4]).text(&last).end()
        }
        "short" => stream.items(&five[..3]).end(),
        "empty" => stream.end(),
        "meaningless" => stream.items(&vec![message(""); 5]).marker().end(),
        "half-item" => stream.items(&five[..4]).text(&half(format, &five[4])).end(),
        "cut" => stream.items(&five[..3]).broken(Ending::Close),
        "reset" => stream.items(&five[..3]).broken(Ending::Reset),
        "early-close" => stream.ending(Ending::Close),
        "garbage" => stream
            .items(&five[..2])
            .text(&format.framed("oops"))
            .items(&five[2..])
            .end(),
        "wrong-item" => {
            let wrong = r#"{"message":7}"#.to_owned();
            let items = [&five[..2], &[wrong], &five[2..]].concat();
            stream.items(&items).marker().end()
        }
        "after-the-end" => stream.items(&five).marker().items(&five[..1]).end(),
        "endless" => {
            let begun = format.framed(r#"{"message":""#);
            let endless = vec![vec![b'x'; ENDLESS_PIECE_BYTES]; ENDLESS_PIECES];
            let stream = stream.items(&five[..1]).text(begun.trim_end());
            stream.pieces(endless.into_iter()).ending(Ending::Hang)
        }
        "silent" => stream.items(&five[..2]).ending(Ending::Hang),
        "wrong-type" => {
            let mut stream = stream.items(&five).marker();
            stream.0.pieces[0].bytes = head("application/json").into_bytes();
            stream.end()
        }
        // "complete"; a test walks all names.
        _ => stream.items(&five).marker().end(),
    }
}

fn message(text: &str) -> String {
    format!(r#"{{"message":"{text}"}}"#)
}

fn five() -> Vec<String> {
    (1..=5).map(|n| message(&format!("word {n} "))).collect()
}

/// The body of a complete stream: five items and what ends them.
pub(crate) fn body(format: StreamFormat) -> String {
    let items: String = five().iter().map(|item| format.framed(item)).collect();
    items + &Stream::of(format).end_marker()
}

/// That body up to a byte, with nothing that would tell its end from a broken connection.
pub(crate) fn cut(at: usize, format: StreamFormat) -> Script {
    let content_type = format.content_type();
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nConnection: close\r\n\r\n");
    let body = body(format);
    Script {
        pieces: vec![
            piece(head.into_bytes()),
            piece(body.as_bytes()[..at.min(body.len())].to_vec()),
        ],
        ending: Ending::Close,
        is_http: true,
    }
}

/// A model's answer: the role, then reasoning, then words, several to a chunk.
fn chat() -> Vec<String> {
    [
        r#"{"role":"assistant","message":""}"#,
        r#"{"thinking":"hm","message":""}"#,
        r#"{"message":"several words in one chunk "}"#,
        r#"{"message":"a"}"#,
        r#"{"message":"nd a half"}"#,
    ]
    .map(str::to_owned)
    .to_vec()
}

fn half(format: StreamFormat, item: &str) -> String {
    let framed = format.framed(item);
    framed[..framed.len() / 2].to_owned()
}

/// A script that is being written.
struct Stream(Script, StreamFormat);

impl Stream {
    fn of(format: StreamFormat) -> Self {
        let script = Script {
            pieces: vec![piece(format.head().into_bytes())],
            ending: Ending::KeepOpen,
            is_http: true,
        };
        Self(script, format)
    }

    fn items(self, items: &[String]) -> Self {
        let format = self.1;
        let framed = items.iter().map(|item| format.framed(item).into_bytes());
        self.pieces(framed)
    }

    /// A chunk for each.
    fn pieces(mut self, pieces: impl Iterator<Item = Vec<u8>>) -> Self {
        self.0
            .pieces
            .extend(pieces.map(|bytes| piece(chunk(&bytes))));
        self
    }

    fn text(self, text: &str) -> Self {
        self.pieces(std::iter::once(text.as_bytes().to_vec()))
    }

    /// What ends a stream in this format, if anything does.
    fn end_marker(&self) -> String {
        match self.1 {
            StreamFormat::Sse => self.1.framed("[DONE]"),
            _ => String::new(),
        }
    }

    fn marker(self) -> Self {
        match self.end_marker() {
            none if none.is_empty() => self,
            marker => self.text(&marker),
        }
    }

    fn slowly(mut self) -> Self {
        for piece in &mut self.0.pieces[1..] {
            piece.after = CHAT_PAUSE;
        }
        self
    }

    fn in_one_write(mut self) -> Self {
        let bytes = self.0.pieces.drain(1..).flat_map(|piece| piece.bytes);
        let bytes = bytes.collect();
        self.0.pieces.push(piece(bytes));
        self
    }

    /// A chunk that breaks off, once what came before has been read.
    fn broken(mut self, ending: Ending) -> Script {
        let mut broken = piece(b"40\r\n{\"mess".to_vec());
        broken.after = READ_WITHIN;
        self.0.pieces.push(broken);
        self.ending(ending)
    }

    fn end(mut self) -> Script {
        self.0.pieces.push(piece(LAST_CHUNK.to_vec()));
        self.0
    }

    fn ending(mut self, ending: Ending) -> Script {
        self.0.ending = ending;
        self.0
    }
}

fn piece(bytes: Vec<u8>) -> Piece {
    Piece {
        after: Duration::ZERO,
        bytes,
        times: 1,
        is_interim: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_script_of_its_own() {
        let format = StreamFormat::Sse;
        let mut scripts: Vec<Script> = NAMES.iter().map(|name| script(name, format)).collect();
        let all = scripts.len();
        scripts.sort_by_key(|script| format!("{script:?}"));
        scripts.dedup();
        assert_eq!(scripts.len(), all);
    }

    #[test]
    fn a_chunk_says_its_length() {
        assert_eq!(chunk(b"hello world!!!!!"), b"10\r\nhello world!!!!!\r\n");
    }
}
