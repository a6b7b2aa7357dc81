//! What the torture server does to the frame of an answer: right answers in unusual frames, which a
//! client has to understand, and wrong frames, which it has to refuse. Each name stands for a fault
//! that somebody's client once had.

use std::time::Duration;

use crate::fault::{Ending, Piece, Script, piece, whole};
use crate::faulty::right_answer;

/// Between two writes that the other side should read apart.
const APART: Duration = Duration::from_millis(2);
const BODY: &str = r#"{"status":"ok"}"#;
/// What a client must never take for an answer to its next request.
const GHOST: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"ghost\":\"yes!\"}";

/// Frames around the right body: whoever follows RFC 9112 reads it.
pub(crate) const RIGHT: [&str; 25] = [
    "interims",
    "bytes",
    "chunk-bytes",
    "chunk-extensions",
    "chunk-case",
    "trailers",
    "obs-fold",
    "bare-lf",
    "no-reason",
    "spaces",
    "many-headers",
    "long-header",
    "same-lengths",
    "length-and-chunked",
    "empty-chunked",
    "empty",
    "nul-in-body",
    "close-said",
    "old",
    "old-kept",
    "old-until-close",
    "half-close",
    "then-newline",
    "then-rubbish",
    "then-answer",
];

/// Frames that are none.
pub(crate) const WRONG: [&str; 27] = [
    "two-lengths",
    "length-list",
    "negative-length",
    "signed-length",
    "hex-length",
    "huge-length",
    "chunk-rubbish",
    "chunk-overflow",
    "chunk-too-long",
    "nul-in-head",
    "nul-in-name",
    "no-colon",
    "no-head",
    "version-2",
    "status-99",
    "status-2000",
    "status-999",
    "switching",
    "endless-line",
    "endless-head",
    "endless-extension",
    "endless-trailers",
    "endless-interims",
    "endless-chunks",
    "reset-in-head",
    "cut-in-chunk",
    "half-close-early",
];

/// The script of a name from [`RIGHT`] or [`WRONG`].
pub(crate) fn script(name: &str) -> Script {
    right(name)
        .or_else(|| wrong_head(name))
        .unwrap_or_else(|| wrong_body(name))
}

fn right(name: &str) -> Option<Script> {
    kept(name).or_else(|| ended(name))
}

/// Right answers, after which the connection stays.
fn kept(name: &str) -> Option<Script> {
    let script = match name {
        "interims" => interims(),
        "bytes" => in_bytes(&right_answer()),
        "chunk-bytes" => in_bytes(&chunked(
            "",
            &BODY.chars().map(one_chunk).collect::<String>(),
            "",
        )),
        "chunk-extensions" => whole(&chunked(
            "",
            "8;plain\r\n{\"status\r\n7 ; name=value;quoted=\"a; b\"\r\n\":\"ok\"}\r\n",
            "",
        )),
        "chunk-case" => whole(&chunked("", &format!("00F\r\n{BODY}\r\n"), "").replacen(
            "Transfer-Encoding: chunked",
            "TRANSFER-ENCODING: Chunked",
            1,
        )),
        "trailers" => whole(&chunked(
            "Trailer: Sum, Note\r\n",
            &format!("f\r\n{BODY}\r\n"),
            "Sum: 1\r\nNote: Content-Length: 7\r\n",
        )),
        "obs-fold" => with_header("X-Folded: first\r\n  second\r\n\tthird"),
        "bare-lf" => whole(&right_answer().replace("\r\n", "\n")),
        "no-reason" => whole(&right_answer().replacen("200 OK", "200", 1)),
        "spaces" => whole(&right_answer().replacen("Length: 15", "Length: \t 15 \t", 1)),
        "many-headers" => {
            let lines: Vec<String> = (0..80).map(|n| format!("X-Header-{n}: {n}")).collect();
            with_header(&lines.join("\r\n"))
        }
        "long-header" => with_header(&format!("X-Long: {}", "x".repeat(12 << 10))),
        "same-lengths" => with_header("Content-Length: 15"),
        "length-and-chunked" => whole(&chunked(
            "Content-Length: 3\r\n",
            &format!("f\r\n{BODY}\r\n"),
            "",
        )),
        "empty-chunked" => whole(&chunked("", "", "")),
        "empty" => whole("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        "nul-in-body" => whole(&right_answer().replace(BODY, "a\0b\0c\0d\0e\0f\0g\0h")),
        _ => return None,
    };
    Some(script)
}

/// Right answers, after which it may not be used again, or only by those who know it.
fn ended(name: &str) -> Option<Script> {
    let script = match name {
        "close-said" => Script {
            ending: Ending::Close,
            ..with_header("Connection: close")
        },
        "old" => Script {
            ending: Ending::Close,
            ..whole(&right_answer().replacen("1.1", "1.0", 1))
        },
        "old-kept" => {
            let kept = with_header("Connection: keep-alive");
            let text = String::from_utf8_lossy(&kept.pieces[0].bytes).replacen("1.1", "1.0", 1);
            whole(&text)
        }
        "old-until-close" => Script {
            ending: Ending::Close,
            ..whole(&format!("HTTP/1.0 200 OK\r\n\r\n{BODY}"))
        },
        "half-close" => Script {
            ending: Ending::HalfClose,
            ..whole(&format!(
                "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{BODY}"
            ))
        },
        // Nothing of what follows belongs to an answer.
        "then-newline" => whole(&(right_answer() + "\n")),
        "then-rubbish" => whole(&(right_answer() + "\u{1}\u{2} this is not HTTP\r\n\r\n")),
        "then-answer" => whole(&(right_answer() + GHOST)),
        _ => return None,
    };
    Some(script)
}

/// Wrong already in the head. The server stays, so that a client that is still waiting is told
/// from one that has understood.
fn wrong_head(name: &str) -> Option<Script> {
    let script = match name {
        "two-lengths" => with_header("Content-Length: 7"),
        "length-list" => length("15, 16"),
        "negative-length" => length("-15"),
        "signed-length" => length("+15"),
        "hex-length" => length("0xf"),
        "huge-length" => length("18446744073709551616"),
        "nul-in-head" => with_header("X-Nul: a\0b"),
        "nul-in-name" => with_header("X-N\0l: ab"),
        "no-colon" => with_header("this header has no colon"),
        "no-head" => whole("<html>hello</html>\n"),
        "version-2" => whole(&right_answer().replacen("HTTP/1.1", "HTTP/2.0", 1)),
        "status-99" => status("99"),
        "status-2000" => status("2000"),
        "status-999" => return Some(status("999")),
        "switching" => {
            whole("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
        }
        "endless-line" => {
            let ending = Ending::Endless("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
            return Some(begun("HTTP/1.1 200 OK\r\nX-Endless: ", ending));
        }
        "endless-head" => {
            let ending = Ending::Endless("X-Endless: and another one\r\n");
            return Some(begun("HTTP/1.1 200 OK\r\n", ending));
        }
        "endless-interims" => {
            return Some(begun("", Ending::Endless("HTTP/1.1 100 Continue\r\n\r\n")));
        }
        "reset-in-head" => return Some(begun("HTTP/1.1 200 OK\r\nContent-Ty", Ending::Reset)),
        "half-close-early" => return Some(begun("", Ending::HalfClose)),
        _ => return None,
    };
    Some(Script {
        ending: Ending::Hang,
        ..script
    })
}

/// The head is right and the body isn't. "cut-in-chunk" is the last; a test walks all names.
fn wrong_body(name: &str) -> Script {
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    match name {
        "chunk-rubbish" => begun(&format!("{chunks}ok\r\n{BODY}\r\n"), Ending::Hang),
        "chunk-overflow" => begun(
            &format!("{chunks}fffffffffffffffff\r\n{BODY}\r\n"),
            Ending::Hang,
        ),
        "chunk-too-long" => begun(&format!("{chunks}3\r\n{BODY}\r\n0\r\n\r\n"), Ending::Hang),
        "endless-extension" => begun(&format!("{chunks}f;"), Ending::Endless("extension;")),
        "endless-trailers" => begun(
            &format!("{chunks}f\r\n{BODY}\r\n0\r\n"),
            Ending::Endless("X-Endless: and another one\r\n"),
        ),
        "endless-chunks" => begun(chunks, Ending::Endless("2\r\n{}\r\n")),
        _ => begun(&format!("{chunks}f\r\n{{\"status"), Ending::Close),
    }
}

/// The right answer byte by byte, each after a pause: never silent for long, and long under way.
pub(crate) fn slowly(pause: Duration) -> Script {
    let mut script = in_bytes(&right_answer());
    for piece in &mut script.pieces {
        piece.after = pause;
    }
    script
}

fn interims() -> Script {
    let mut script = whole(&right_answer());
    let before = [
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 102 Processing\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nContent-Length: 7\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </b.css>; rel=preload\r\n\r\n",
    ];
    let before = before.map(|text| Piece {
        is_interim: true,
        ..late(text)
    });
    script.pieces.splice(0..0, before);
    script
}

fn late(text: &str) -> Piece {
    Piece {
        after: APART,
        ..piece(text)
    }
}

fn in_bytes(text: &str) -> Script {
    let bytes = text.bytes().map(|byte| Piece {
        bytes: vec![byte],
        ..piece("")
    });
    Script {
        pieces: bytes.collect(),
        is_http: false,
        ..whole("")
    }
}

/// The right answer, in two writes.
pub(crate) fn split(at: usize) -> Script {
    let fine = right_answer();
    let (first, second) = fine.split_at(at.min(fine.len()));
    Script {
        pieces: vec![piece(first), late(second)],
        is_http: false,
        ..whole("")
    }
}

/// The beginning of the right answer.
pub(crate) fn cut(at: usize, ending: Ending) -> Script {
    let fine = right_answer();
    begun(&fine[..at.min(fine.len())], ending)
}

fn begun(text: &str, ending: Ending) -> Script {
    Script {
        ending,
        is_http: false,
        ..whole(text)
    }
}

fn with_header(line: &str) -> Script {
    whole(&right_answer().replacen("\r\n\r\n", &format!("\r\n{line}\r\n\r\n"), 1))
}

fn length(value: &str) -> Script {
    whole(&right_answer().replacen("Length: 15", &format!("Length: {value}"), 1))
}

fn status(code: &str) -> Script {
    whole(&right_answer().replacen("200 OK", &format!("{code} Odd"), 1))
}

fn one_chunk(letter: char) -> String {
    format!("1\r\n{letter}\r\n")
}

fn chunked(headers: &str, chunks: &str, trailers: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{headers}Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n{trailers}\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_script_of_its_own() {
        let mut scripts: Vec<String> = RIGHT
            .iter()
            .chain(&WRONG)
            .map(|name| format!("{:?}", script(name)))
            .collect();
        let all = scripts.len();
        scripts.sort();
        scripts.dedup();
        assert_eq!(scripts.len(), all);
    }

    #[test]
    fn an_answer_is_split_and_cut_at_any_byte() {
        let whole = right_answer();
        for at in [0, 1, whole.len() - 1, whole.len(), whole.len() + 1] {
            let bytes: Vec<u8> = split(at)
                .pieces
                .iter()
                .flat_map(|piece| piece.bytes.clone())
                .collect();
            assert_eq!(bytes, whole.as_bytes(), "{at}");
            let begun = &cut(at, Ending::Close).pieces;
            let bytes: usize = begun.iter().map(|piece| piece.bytes.len()).sum();
            assert_eq!(bytes, at.min(whole.len()));
        }
    }
}
