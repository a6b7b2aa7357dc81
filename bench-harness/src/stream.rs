//! From the bytes of a streamed body to its items, whatever the reads cut them into.
//!
//! Pure and incremental: what a read brought is given to [`ItemDecoder::next`] until it is
//! used up, and an item comes out as soon as its last byte has come in. An item that lies
//! within one read isn't copied (SSE apart, whose fields have to be joined); one that spans
//! several is put together in a buffer that is used again for the next. The buffer is
//! bounded, since a service may send an item that never ends.

mod json_objects;
mod ndjson;
mod sse;

use unstall_scenarios::plan::Decoder;

use json_objects::JsonObjects;
use ndjson::Ndjson;
use sse::Sse;

/// The longest item that is put together. A model's chunk is a few hundred bytes, and a last
/// item with all citations and tool calls some hundred thousand.
pub const ITEM_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Why a body can't be cut into items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// An item, or a line of one, has no end in sight.
    #[error(
        "an item is longer than {bytes_max} bytes and still has no end; does the scenario name \
         the right decoder?"
    )]
    TooLong {
        /// The bound.
        bytes_max: usize,
    },
    /// Something else between JSON objects.
    #[error(
        "expected an object's `{{` or white space between objects, found `{}`; does the scenario \
         name the right decoder?", .found.escape_ascii()
    )]
    NoObject {
        /// The byte in question.
        found: u8,
    },
}

/// What is left when a body has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest<'d> {
    /// Nothing: the body ended behind an item.
    Nothing,
    /// A last line without its line feed: whole, or cut short, as its reader can tell.
    Line(&'d [u8]),
    /// The beginning of an item.
    Partial,
    /// An event without the blank line behind it, which the standard has a client discard.
    Discarded,
}

/// Cuts one body into items.
#[derive(Debug)]
pub struct ItemDecoder(Format);

#[derive(Debug)]
enum Format {
    Sse(Sse),
    Ndjson(Ndjson),
    JsonObjects(JsonObjects),
    Chunks,
}

impl ItemDecoder {
    /// A decoder at the beginning of a body, for items of at most `bytes_max`.
    pub fn new(decoder: Decoder, bytes_max: usize) -> Self {
        Self(match decoder {
            Decoder::Sse => Format::Sse(Sse::new(bytes_max)),
            Decoder::Ndjson => Format::Ndjson(Ndjson::new(bytes_max)),
            Decoder::JsonObjects => Format::JsonObjects(JsonObjects::new(bytes_max)),
            Decoder::Chunks => Format::Chunks,
        })
    }

    /// Takes bytes from the front of `input` up to the end of the next item, and returns that;
    /// `None` when `input` is used up.
    ///
    /// # Errors
    /// The body isn't what this decoder reads. There is no going on after that.
    pub fn next<'d, 'i: 'd>(
        &'d mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<&'d [u8]>, DecodeError> {
        match &mut self.0 {
            Format::Sse(decoder) => decoder.next(input),
            Format::Ndjson(decoder) => decoder.next(input),
            Format::JsonObjects(decoder) => decoder.next(input),
            Format::Chunks => {
                let chunk = std::mem::take(input);
                Ok((!chunk.is_empty()).then_some(chunk))
            }
        }
    }

    /// What the end of the body leaves behind.
    pub fn rest(&self) -> Rest<'_> {
        match &self.0 {
            Format::Sse(decoder) => decoder.rest(),
            Format::Ndjson(decoder) => decoder.rest(),
            Format::JsonObjects(decoder) => decoder.rest(),
            Format::Chunks => Rest::Nothing,
        }
    }

    /// Begins another body; buffers are kept.
    pub fn reset(&mut self) {
        match &mut self.0 {
            Format::Sse(decoder) => decoder.reset(),
            Format::Ndjson(decoder) => decoder.reset(),
            Format::JsonObjects(decoder) => decoder.reset(),
            Format::Chunks => {}
        }
    }
}

/// The beginning of an item or a line, from earlier reads; bounded.
#[derive(Debug)]
struct Carry {
    bytes: Vec<u8>,
    bytes_max: usize,
    /// The bytes were given out and go with the next call.
    spent: bool,
}

impl Carry {
    fn new(bytes_max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            bytes_max,
            spent: false,
        }
    }

    /// Drops what the call before has given out.
    fn drop_spent(&mut self) {
        if self.spent {
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.spent = false;
    }

    /// Keeps a part whose end hasn't come yet.
    fn keep(&mut self, part: &[u8]) -> Result<(), DecodeError> {
        let bytes_max = self.bytes_max;
        if self.bytes.len() + part.len() > bytes_max {
            return Err(DecodeError::TooLong { bytes_max });
        }
        self.bytes.extend_from_slice(part);
        Ok(())
    }

    /// The whole, now that its last part has come: that part alone where there was none before.
    fn complete<'d>(&'d mut self, part: &'d [u8]) -> Result<&'d [u8], DecodeError> {
        let bytes_max = self.bytes_max;
        if self.bytes.is_empty() && part.len() <= bytes_max {
            return Ok(part);
        }
        self.keep(part)?;
        self.spent = true;
        Ok(&self.bytes)
    }
}
