//! The right body in each content coding (RFC 9110 §8.4.1), and what a coding can be spoilt with.
//! The coded bytes are written down, so that no coder is on both sides of a test.

use crate::fault::{Piece, Script, piece, whole};
use crate::stream_format::{LAST_CHUNK, chunk};

/// `{"status":"ok"}` by gzip (RFC 1952).
const GZIP: &[u8] = &[
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xab, 0x56, 0x2a, 0x2e, 0x49, 0x2c,
    0x29, 0x2d, 0x56, 0xb2, 0x52, 0xca, 0xcf, 0x56, 0xaa, 0x05, 0x00, 0xdd, 0xed, 0x13, 0x1d, 0x0f,
    0x00, 0x00, 0x00,
];
/// The same by zlib (RFC 1950), which is what `deflate` means.
const DEFLATE: &[u8] = &[
    0x78, 0xda, 0xab, 0x56, 0x2a, 0x2e, 0x49, 0x2c, 0x29, 0x2d, 0x56, 0xb2, 0x52, 0xca, 0xcf, 0x56,
    0xaa, 0x05, 0x00, 0x2b, 0x81, 0x05, 0x39,
];
/// The same without zlib's head and checksum (RFC 1951), which some services call `deflate`.
const RAW_DEFLATE_FROM: usize = 2;
const CHECKSUM_BYTES: usize = 4;
/// The same by Brotli (RFC 7932): one uncompressed block.
const BROTLI: &[u8] = b"\x0b\x07\x80{\"status\":\"ok\"}\x03";

/// Codings, as the path names them.
pub(crate) const CODINGS: [&str; 4] = ["gzip", "deflate", "raw-deflate", "br"];
/// What becomes of the coded body.
pub(crate) const STATES: [&str; 5] = ["whole", "bytes", "cut", "spoilt", "more"];

/// The script of a coding from [`CODINGS`] and a state from [`STATES`]:
/// - `whole`: as it is;
/// - `bytes`: each byte is a chunk;
/// - `cut`: ends in its middle, and the frame says that this is all;
/// - `spoilt`: a byte of it is another one;
/// - `more`: bytes that aren't coded come behind it.
pub(crate) fn script(coding: &str, state: &str) -> Script {
    let (name, mut body) = match coding {
        "gzip" => ("gzip", GZIP.to_vec()),
        "deflate" => ("deflate", DEFLATE.to_vec()),
        "raw-deflate" => {
            let raw = RAW_DEFLATE_FROM..DEFLATE.len() - CHECKSUM_BYTES;
            ("deflate", DEFLATE[raw].to_vec())
        }
        _ => ("br", BROTLI.to_vec()),
    };
    let middle = body.len() / 2;
    match state {
        "cut" => body.truncate(middle),
        // In Brotli's block any byte would do.
        "spoilt" if coding == "br" => body[0] ^= 0xff,
        "spoilt" => body[middle] ^= 0xff,
        "more" => body.extend(b"and more"),
        _ => {}
    }
    let pieces: Vec<&[u8]> = match state {
        "bytes" => body.chunks(1).collect(),
        _ => vec![&body],
    };
    let mut script = whole(&format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: {name}\r\n\
         Transfer-Encoding: chunked\r\n\r\n"
    ));
    let chunks = pieces.into_iter().map(chunk).chain([LAST_CHUNK.to_vec()]);
    script
        .pieces
        .extend(chunks.map(|bytes| Piece { bytes, ..piece("") }));
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_coding_and_state_is_a_script_of_its_own() {
        let all = CODINGS.iter().flat_map(|coding| {
            let of = move |state: &&str| format!("{:?}", script(coding, state));
            STATES.iter().map(of)
        });
        let mut scripts: Vec<String> = all.collect();
        let count = scripts.len();
        scripts.sort();
        scripts.dedup();
        assert_eq!(scripts.len(), count);
    }
}
