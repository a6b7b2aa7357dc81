//! The HTTP/2 torture server by its bytes: what a client that writes its frames by hand gets, and
//! what the server counts of it.

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use unstall_testbed::{Http2Server, RIGHT_HTTP2, WRONG_HTTP2};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const END: u8 = 1;

/// Kind, flags and payload.
type Frame = (u8, u8, Vec<u8>);

struct Client(TcpStream);

impl Client {
    fn of(server: &Http2Server) -> Outcome<Self> {
        let mut stream = TcpStream::connect(server.addr())?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.write_all(PREFACE)?;
        let mut client = Self(stream);
        client.send(SETTINGS, 0, 0, &[])?;
        Ok(client)
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Outcome {
        let length = u32::try_from(payload.len())?.to_be_bytes();
        let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        Ok(self.0.write_all(&[&head, payload].concat())?)
    }

    /// A request whose head the server doesn't look into.
    fn ask(&mut self, stream: u32) -> Outcome {
        const END_HEADERS: u8 = 4;
        self.send(HEADERS, END | END_HEADERS, stream, &[])
    }

    fn next(&mut self) -> Outcome<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload)?;
        Ok((head[3], head[4], payload))
    }

    /// The next frame of that kind.
    fn next_of(&mut self, wanted: u8) -> Outcome<Frame> {
        loop {
            let frame = self.next()?;
            if frame.0 == wanted {
                return Ok(frame);
            }
        }
    }
}

#[test]
fn an_answer_is_a_head_and_a_body_on_its_own_stream() -> Outcome {
    let server = Http2Server::start("h2-plain")?;
    let mut client = Client::of(&server)?;
    for turn in 1..=3 {
        client.ask(2 * turn - 1)?;
        client.next_of(HEADERS)?;
        let (_, flags, body) = client.next_of(DATA)?;
        assert_eq!(flags & END, END);
        assert_eq!(body, br#"{"status":"ok"}"#);
        assert_eq!(server.requests(), u64::from(turn));
    }
    assert_eq!(server.connections(), 1);
    assert!(server.bytes_sent() > 3 * 15);
    Ok(())
}

#[test]
fn streams_are_reset_for_the_reason_that_was_asked_for() -> Outcome {
    let server = Http2Server::resetting(7)?;
    let mut client = Client::of(&server)?;
    client.ask(1)?;
    let (_, _, reason) = client.next_of(RST_STREAM)?;
    assert_eq!(reason, [0, 0, 0, 7]);
    Ok(())
}

#[test]
fn only_known_ways_are_served() {
    for name in RIGHT_HTTP2.iter().chain(WRONG_HTTP2) {
        assert!(Http2Server::start(name).is_ok(), "{name}");
    }
    let error = Http2Server::start("h2-sideways").expect_err("no such way");
    assert!(error.to_string().contains("h2-sideways"), "{error}");
}
