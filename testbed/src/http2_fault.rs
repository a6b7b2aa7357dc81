//! What the HTTP/2 torture server does: its greeting, and its answer to a request, as frames.
//! Pure, so that the tables of [`crate::Http2Server`] can be read off here.

use std::time::Duration;

use crate::http2_frame::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, PADDED,
    PING, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, block, frame, setting,
};

/// Answers that are right, in unusual frames or on connections that end in good order.
pub(crate) const RIGHT: [&str; 23] = [
    "h2-plain",
    "h2-trailers",
    "h2-interims",
    "h2-continuation",
    "h2-padded",
    "h2-bytes",
    "h2-empty-end",
    "h2-burst",
    "h2-unknown-frames",
    "h2-late-words",
    "h2-204",
    "h2-304-length",
    "h2-settings-late",
    "h2-settings-again",
    "h2-ping",
    "h2-ping-flood",
    "h2-goaway-behind",
    "h2-goaway-refused",
    "h2-close-behind",
    "h2-window-small",
    "h2-early",
    "h2-settings-never",
    "h2-data-after-end",
];
/// Answers that are none, or that break off.
pub(crate) const WRONG: [&str; 27] = [
    "h2-push",
    "h2-length-short",
    "h2-length-long",
    "h2-no-status",
    "h2-upper-case",
    "h2-connection-header",
    "h2-data-first",
    "h2-other-stream",
    "h2-frame-too-large",
    "h2-bad-index",
    "h2-bad-padding",
    "h2-window-zero",
    "h2-window-overflow",
    "h2-ping-short",
    "h2-settings-on-stream",
    "h2-header-list",
    "h2-endless-continuation",
    "h2-not-http2",
    "h2-goaway-error",
    "h2-close",
    "h2-reset",
    "h2-cut-in-frame",
    "h2-cut-in-body",
    "h2-reset-in-body",
    "h2-hang",
    "h2-hang-in-body",
    "h2-window-stalled",
];

const BODY: &[u8] = br#"{"status":"ok"}"#;
const LENGTH: &str = "15";
const LATE: Duration = Duration::from_millis(150);
const FLOOD: usize = 2_000;
const BURST: usize = 5_000;
/// More than clients take, which is 256 KiB at most, in no more frames than they bear.
const HEADERS_MANY: usize = 280;
const HEADER_BYTES: usize = 1_000;
const SMALL_WINDOW: u32 = 1_000;
/// The largest frame that may be sent to who has said nothing about it.
const FRAME_BYTES_MAX: usize = 16_384;

/// What is done, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Send(Vec<u8>),
    Pause(Duration),
    /// Until so many PINGs and SETTINGS of this connection are acknowledged.
    AwaitAcks(u64),
    End(End),
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Close,
    Reset,
    /// Nothing more comes; the client has to go.
    Hang,
    /// This frame again and again, as fast as it is taken.
    Endless(&'static [u8]),
}

/// What the server reads of a request before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Whole,
    /// Its head only.
    Head,
}

/// One way to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A name of [`RIGHT`] or [`WRONG`].
    Named(&'static str),
    /// Each stream is reset for this reason, instead of an answer.
    ResetFor(u32),
}

impl Fault {
    /// What is sent before the first request.
    pub(crate) fn greeting(self) -> Vec<Step> {
        let settings = |payload: &[u8]| Step::Send(frame(SETTINGS, 0, 0, payload));
        match self {
            Self::Named("h2-settings-late") => vec![Step::Pause(LATE), settings(&[])],
            Self::Named("h2-settings-never") => vec![],
            Self::Named("h2-window-small") => {
                vec![settings(&setting(INITIAL_WINDOW_SIZE, SMALL_WINDOW))]
            }
            Self::Named("h2-window-stalled" | "h2-early") => {
                vec![settings(&setting(INITIAL_WINDOW_SIZE, 0))]
            }
            Self::Named("h2-unknown-frames") => vec![
                settings(&setting(0x7fff, 1)),
                Step::Send(frame(0xfa, 0xff, 0, b"of tomorrow")),
            ],
            Self::Named("h2-not-http2") => vec![
                Step::Send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec()),
                Step::End(End::Close),
            ],
            _ => vec![settings(&[])],
        }
    }

    /// How much of a request it reads first.
    pub(crate) fn reading(self) -> Reading {
        match self {
            Self::Named("h2-early" | "h2-window-stalled") => Reading::Head,
            _ => Reading::Whole,
        }
    }

    /// Whether a client may send on what it has sent.
    pub(crate) fn opens_its_window(self) -> bool {
        self.reading() == Reading::Whole
    }

    /// The answer on `stream` to the `turn`-th request of a connection (from 1).
    pub(crate) fn answer(self, stream: u32, turn: u64) -> Vec<Step> {
        let on = On(stream);
        let name = match self {
            Self::Named(name) => name,
            Self::ResetFor(reason) => return send([on.reset(reason)]),
        };
        if RIGHT.contains(&name) {
            on.right(name, turn)
        } else {
            on.wrong(name)
        }
    }
}

fn send<const N: usize>(frames: [Vec<u8>; N]) -> Vec<Step> {
    vec![Step::Send(frames.concat())]
}

fn send_and(frames: &[Vec<u8>], end: End) -> Vec<Step> {
    vec![Step::Send(frames.concat()), Step::End(end)]
}

fn goaway(last_stream: u32, reason: u32) -> Vec<u8> {
    let payload = [last_stream.to_be_bytes(), reason.to_be_bytes()].concat();
    frame(GOAWAY, 0, 0, &payload)
}

/// The usual fields of an answer with a body of that length.
fn fields<'a>(status: &'a str, length: &'a str) -> [(&'a str, &'a str); 3] {
    [
        (":status", status),
        ("content-type", "application/json"),
        ("content-length", length),
    ]
}

/// Frames of one stream.
#[derive(Debug, Clone, Copy)]
struct On(u32);

impl On {
    fn headers(self, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
        frame(HEADERS, flags, self.0, &block(fields))
    }

    fn head(self) -> Vec<u8> {
        self.headers(END_HEADERS, &fields("200", LENGTH))
    }

    fn data(self, flags: u8, bytes: &[u8]) -> Vec<u8> {
        frame(DATA, flags, self.0, bytes)
    }

    fn body(self) -> Vec<u8> {
        self.data(END_STREAM, BODY)
    }

    fn reset(self, reason: u32) -> Vec<u8> {
        frame(RST_STREAM, 0, self.0, &reason.to_be_bytes())
    }

    fn window(self, bytes: u32) -> Vec<u8> {
        frame(WINDOW_UPDATE, 0, self.0, &bytes.to_be_bytes())
    }

    fn right(self, name: &str, turn: u64) -> Vec<Step> {
        let (head, body) = (self.head(), self.body());
        let bare = |fields: &[(&str, &str)]| send([self.headers(END_HEADERS | END_STREAM, fields)]);
        match name {
            "h2-trailers" => {
                let trailers = self.headers(END_HEADERS | END_STREAM, &[("checked", "yes")]);
                send([head, self.data(0, BODY), trailers])
            }
            "h2-interims" => {
                let interim = |status| self.headers(END_HEADERS, &[(":status", status)]);
                send([interim("100"), interim("103"), interim("103"), head, body])
            }
            "h2-continuation" => send([self.in_pieces(), body]),
            "h2-padded" => self.padded(),
            "h2-bytes" => {
                let bytes = BODY.iter().map(|byte| Step::Send(self.data(0, &[*byte])));
                let end = [Step::Send(self.data(END_STREAM, &[]))];
                [Step::Send(head)]
                    .into_iter()
                    .chain(bytes)
                    .chain(end)
                    .collect()
            }
            "h2-empty-end" => send([
                head,
                self.data(0, &[]),
                self.data(0, BODY),
                self.data(END_STREAM, &[]),
            ]),
            "h2-data-after-end" => send([head, body, self.data(END_STREAM, BODY)]),
            "h2-burst" => {
                let head = self.headers(END_HEADERS, &fields("200", "5000"));
                send([
                    head,
                    self.data(0, b"x").repeat(BURST),
                    self.data(END_STREAM, &[]),
                ])
            }
            "h2-unknown-frames" => {
                let unknown = |stream| frame(0xfb, 0x7e, stream, b"of tomorrow");
                send([unknown(self.0), head, unknown(0), body, unknown(self.0)])
            }
            // They may cross the answer's end on their way, and mean nothing any more.
            "h2-late-words" => send([head, body, self.window(1_000), self.reset(0)]),
            "h2-204" => bare(&[(":status", "204")]),
            "h2-304-length" => bare(&fields("304", LENGTH)),
            "h2-early" => {
                let head = self.headers(END_HEADERS, &fields("413", LENGTH));
                send([head, body, self.reset(0)])
            }
            _ => self.on_its_connection(name, turn),
        }
    }

    /// The usual answer, with what is said of the connection beside it.
    fn on_its_connection(self, name: &str, turn: u64) -> Vec<Step> {
        let (head, body) = (self.head(), self.body());
        let ping = || frame(PING, 0, 0, b"are you?");
        match name {
            "h2-settings-again" => {
                let settings = setting(INITIAL_WINDOW_SIZE, 70_000);
                vec![
                    Step::Send(frame(SETTINGS, 0, 0, &settings)),
                    Step::AwaitAcks(1 + turn),
                    Step::Send([head, body].concat()),
                ]
            }
            "h2-ping" => vec![
                Step::Send(ping()),
                Step::AwaitAcks(1 + turn),
                Step::Send([head, body].concat()),
            ],
            "h2-ping-flood" => vec![
                Step::Send(ping().repeat(FLOOD)),
                Step::Send([head, body].concat()),
                // All of them, and that of the greeting.
                Step::AwaitAcks(1 + turn * FLOOD as u64),
            ],
            "h2-goaway-behind" => send_and(&[head, body, goaway(self.0, 0)], End::Hang),
            "h2-goaway-refused" if turn > 1 => send_and(&[goaway(self.0 - 2, 0)], End::Close),
            "h2-close-behind" => send_and(&[head, body], End::Close),
            _ => send([head, body]),
        }
    }

    /// The head, its block a byte in each frame, one of them empty.
    fn in_pieces(self) -> Vec<u8> {
        let block = block(&fields("200", LENGTH));
        let (first, rest) = block.split_at(1);
        let mut frames = frame(HEADERS, 0, self.0, first);
        frames.extend(frame(CONTINUATION, 0, self.0, &[]));
        // Few: a client gives up after a number of them.
        let (ones, last) = rest.split_at(3);
        for byte in ones {
            frames.extend(frame(CONTINUATION, 0, self.0, &[*byte]));
        }
        frames.extend(frame(CONTINUATION, END_HEADERS, self.0, last));
        frames
    }

    fn padded(self) -> Vec<Step> {
        let padding = [0; 200];
        let length = padding.len() as u8;
        // It depends on stream 0, and has weight 16.
        let priority = [0, 0, 0, 0, 15];
        let head = [
            &[length][..],
            &priority,
            &block(&fields("200", LENGTH)),
            &padding,
        ]
        .concat();
        let body = [&[length][..], BODY, &padding].concat();
        send([
            frame(HEADERS, END_HEADERS | PADDED | PRIORITY, self.0, &head),
            self.data(END_STREAM | PADDED, &body),
        ])
    }

    fn wrong(self, name: &str) -> Vec<Step> {
        let head = self.head();
        match name {
            "h2-hang" | "h2-window-stalled" => vec![Step::End(End::Hang)],
            "h2-hang-in-body" => send_and(&[head, self.data(0, &BODY[..5])], End::Hang),
            "h2-close" => vec![Step::End(End::Close)],
            "h2-reset" => vec![Step::End(End::Reset)],
            "h2-cut-in-frame" => send_and(&[head[..12].to_vec()], End::Close),
            "h2-cut-in-body" => send_and(&[head, self.data(0, &BODY[..5])], End::Close),
            "h2-reset-in-body" => send([head, self.data(0, &BODY[..5]), self.reset(2)]),
            "h2-goaway-error" => send_and(&[goaway(self.0, 11)], End::Close),
            "h2-endless-continuation" => {
                const MORE: &[u8] = &[0, 0, 1, CONTINUATION, 0, 0, 0, 0, 1, 0];
                send_and(&[frame(HEADERS, 0, self.0, &[])], End::Endless(MORE))
            }
            _ => send([self.malformed(name)]),
        }
    }

    /// Frames that the standard forbids, or that forbid each other.
    fn malformed(self, name: &str) -> Vec<u8> {
        let (head, body) = (self.head(), self.body());
        let whole =
            |fields: &[(&str, &str)]| [self.headers(END_HEADERS, fields), self.body()].concat();
        match name {
            "h2-push" => {
                let request = block(&[
                    (":method", "GET"),
                    (":scheme", "http"),
                    (":authority", "localhost"),
                    (":path", "/pushed"),
                ]);
                let promised = [&2_u32.to_be_bytes()[..], &request].concat();
                let promise = frame(PUSH_PROMISE, END_HEADERS, self.0, &promised);
                [promise, head, body].concat()
            }
            "h2-length-short" => whole(&fields("200", "14")),
            "h2-length-long" => whole(&fields("200", "16")),
            "h2-no-status" => whole(&[("content-type", "application/json")]),
            "h2-upper-case" => whole(&[(":status", "200"), ("X-Upper", "case")]),
            "h2-connection-header" => whole(&[(":status", "200"), ("connection", "close")]),
            "h2-data-first" => [body, head].concat(),
            "h2-other-stream" => [On(self.0 + 1).head(), On(self.0 + 1).body()].concat(),
            "h2-frame-too-large" => {
                [head, self.data(END_STREAM, &[b'x'; FRAME_BYTES_MAX + 1])].concat()
            }
            // The table's index 0 is none (RFC 7541 §6.1).
            "h2-bad-index" => [frame(HEADERS, END_HEADERS, self.0, &[0x80]), body].concat(),
            "h2-bad-padding" => {
                let bad = self.data(END_STREAM | PADDED, &[200, b'x']);
                [head, bad].concat()
            }
            "h2-window-zero" => [self.window(0), head, body].concat(),
            "h2-window-overflow" => {
                let window = On(0).window(u32::MAX >> 1);
                [window.clone(), window, head, body].concat()
            }
            "h2-ping-short" => [frame(PING, 0, 0, b"ping"), head, body].concat(),
            "h2-settings-on-stream" => [frame(SETTINGS, 0, self.0, &[]), head, body].concat(),
            // "h2-header-list"
            _ => self.large_head(),
        }
    }

    /// A head that is larger than anybody takes, in as many frames as it needs.
    fn large_head(self) -> Vec<u8> {
        let value = "x".repeat(HEADER_BYTES);
        let mut fields = vec![(":status", "200")];
        fields.extend((0..HEADERS_MANY).map(|_| ("x-large", value.as_str())));
        let block = block(&fields);
        let pieces: Vec<&[u8]> = block.chunks(FRAME_BYTES_MAX).collect();
        let mut frames = vec![];
        for (index, piece) in pieces.iter().enumerate() {
            let kind = if index == 0 { HEADERS } else { CONTINUATION };
            let is_last = index + 1 == pieces.len();
            let flags = if is_last { END_HEADERS } else { 0 };
            frames.extend(frame(kind, flags, self.0, piece));
        }
        frames.extend(self.body());
        frames
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_serves_in_a_way_of_its_own() {
        let mut seen = BTreeSet::new();
        for name in RIGHT.into_iter().chain(WRONG) {
            let fault = Fault::Named(name);
            let way = format!(
                "{:?} {:?} {:?} {:?}",
                fault.greeting(),
                fault.reading(),
                fault.answer(1, 1),
                fault.answer(3, 2)
            );
            assert!(seen.insert(way), "{name} is as another one");
        }
    }
}
