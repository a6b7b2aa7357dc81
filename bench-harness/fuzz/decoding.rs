//! What must hold of every decoder and every body, for the fuzz target and for the tests that
//! replay its corpus: cuts change nothing, and nothing panics.

use unstall_bench_harness::stream::{DecodeError, ItemDecoder, Rest};
use unstall_scenarios::plan::Decoder;

/// The bound of items in these tests: small, so that bodies reach it.
pub(crate) const BYTES_MAX: usize = 64;

/// Everything that a body gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// The items up to the end or the first error.
    pub(crate) items: Vec<Vec<u8>>,
    /// The error, or what is left.
    pub(crate) end: Result<Left, DecodeError>,
}

/// [`Rest`] without its borrow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Left {
    /// As [`Rest::Nothing`].
    Nothing,
    /// As [`Rest::Line`].
    Line(Vec<u8>),
    /// As [`Rest::Partial`].
    Partial,
    /// As [`Rest::Discarded`].
    Discarded,
}

/// Decodes a body that comes in these pieces.
pub(crate) fn decode<'p>(
    decoder: Decoder,
    bytes_max: usize,
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> Decoded {
    let mut decoder = ItemDecoder::new(decoder, bytes_max);
    let mut items = Vec::new();
    for mut piece in pieces {
        loop {
            match decoder.next(&mut piece) {
                Ok(Some(item)) => items.push(item.to_vec()),
                Ok(None) => break,
                Err(error) => {
                    return Decoded {
                        items,
                        end: Err(error),
                    };
                }
            }
        }
        assert!(piece.is_empty(), "what isn't an item is used up");
    }
    let left = match decoder.rest() {
        Rest::Nothing => Left::Nothing,
        Rest::Line(line) => Left::Line(line.to_vec()),
        Rest::Partial => Left::Partial,
        Rest::Discarded => Left::Discarded,
    };
    Decoded {
        items,
        end: Ok(left),
    }
}

/// A body must give the same whole, byte by byte, and in two pieces cut anywhere. Items are
/// within the bound.
pub(crate) fn assert_cuts_change_nothing(decoder: Decoder, bytes_max: usize, body: &[u8]) {
    let whole = decode(decoder, bytes_max, [body]);
    assert!(whole.items.iter().all(|item| item.len() <= bytes_max));
    assert_eq!(whole, decode(decoder, bytes_max, body.chunks(1)));
    for cut in 0..=body.len() {
        let (first, second) = body.split_at(cut);
        assert_eq!(
            whole,
            decode(decoder, bytes_max, [first, second]),
            "{decoder:?}, cut at {cut} of {:?}",
            body.escape_ascii().to_string()
        );
    }
}
