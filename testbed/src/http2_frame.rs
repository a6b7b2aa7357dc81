//! The frames of HTTP/2 (RFC 9113 §4.1) and header blocks that need no table (RFC 7541 §6.2.2):
//! just enough to send what no library would, and to see what comes back.

use std::io::{self, Read};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;
pub(crate) const PRIORITY: u8 = 0x20;

pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;

/// What a client says first (RFC 9113 §3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD_BYTES: usize = 9;

/// A frame that came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The next one, or `None` when the other side has closed.
    ///
    /// # Errors
    /// When the connection breaks.
    pub(crate) fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut head = [0; HEAD_BYTES];
        if from.read(&mut head[..1])? == 0 {
            return Ok(None);
        }
        from.read_exact(&mut head[1..])?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        from.read_exact(&mut payload)?;
        Ok(Some(Self {
            kind,
            flags,
            // The highest bit is reserved.
            stream: u32::from_be_bytes(stream) & (u32::MAX >> 1),
            payload,
        }))
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A frame to send.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len())
        .unwrap_or(u32::MAX)
        .to_be_bytes();
    let mut bytes = Vec::with_capacity(HEAD_BYTES + payload.len());
    bytes.extend_from_slice(&length[1..]);
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// One setting.
pub(crate) fn setting(name: u16, value: u32) -> Vec<u8> {
    [&name.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

/// A header block: names and values as they are, pseudo-headers too.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        // A literal that nobody indexes, with a new name.
        bytes.push(0);
        for text in [name, value] {
            length(&mut bytes, text.len());
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    bytes
}

/// A string's length, 7 bits at first and without Huffman's code (RFC 7541 §5.1).
fn length(bytes: &mut Vec<u8>, length: usize) {
    const IN_PREFIX_MAX: usize = 0x7f;
    if length < IN_PREFIX_MAX {
        bytes.push(length as u8);
        return;
    }
    bytes.push(IN_PREFIX_MAX as u8);
    let mut left = length - IN_PREFIX_MAX;
    while left >= 0x80 {
        bytes.push((left % 0x80) as u8 | 0x80);
        left /= 0x80;
    }
    bytes.push(left as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() -> io::Result<()> {
        let bytes = [
            frame(PING, ACK, 0, &[1, 2, 3, 4, 5, 6, 7, 8]),
            frame(DATA, END_STREAM, 7, &vec![b'x'; 70_000]),
        ]
        .concat();
        let mut from = bytes.as_slice();
        let ping = Frame::read(&mut from)?.expect("a frame");
        assert_eq!(
            (ping.kind, ping.has(ACK), ping.payload.len()),
            (PING, true, 8)
        );
        let data = Frame::read(&mut from)?.expect("a frame");
        assert_eq!(
            (data.kind, data.stream, data.payload.len()),
            (DATA, 7, 70_000)
        );
        assert_eq!(Frame::read(&mut from)?, None);
        assert!(Frame::read(&mut &bytes[..4]).is_err(), "it breaks off");
        Ok(())
    }

    /// RFC 7541 C.1.2 and C.1.3, with the prefix of 7 bits that strings have.
    #[test]
    fn lengths_are_as_the_standard_has_them() {
        let of = |number| {
            let mut bytes = vec![];
            length(&mut bytes, number);
            bytes
        };
        assert_eq!(of(10), [10]);
        assert_eq!(of(126), [126]);
        assert_eq!(of(127), [127, 0]);
        assert_eq!(of(1337), [127, 0xba, 0x09]);
        assert_eq!(block(&[("a", "bc")]), [0, 1, b'a', 2, b'b', b'c']);
    }
}
