//! One JSON document per line. Lines end with LF or CRLF; blank ones are passed over, and
//! white space around a document with them. Whether a line is JSON is for its reader to say,
//! since a final marker need not be.

use super::{Carry, DecodeError, Rest};

#[derive(Debug)]
pub(super) struct Ndjson {
    line: Carry,
}

impl Ndjson {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            line: Carry::new(bytes_max),
        }
    }

    pub(super) fn next<'d, 'i: 'd>(
        &'d mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<&'d [u8]>, DecodeError> {
        self.line.drop_spent();
        while let Some(end) = input.iter().position(|byte| *byte == b'\n') {
            let part = self.without_margin(&input[..end]);
            *input = &input[end + 1..];
            if self.line.bytes.is_empty() && part.is_empty() {
                continue;
            }
            return Ok(Some(self.line.complete(part)?.trim_ascii_end()));
        }
        let part = self.without_margin(input);
        *input = &[];
        self.line.keep(part)?;
        Ok(None)
    }

    /// A line's part without white space at the line's beginning, so that what is kept is
    /// never blank.
    fn without_margin<'i>(&self, part: &'i [u8]) -> &'i [u8] {
        if self.line.bytes.is_empty() {
            part.trim_ascii_start()
        } else {
            part
        }
    }

    pub(super) fn rest(&self) -> Rest<'_> {
        if self.line.spent || self.line.bytes.is_empty() {
            Rest::Nothing
        } else {
            Rest::Line(self.line.bytes.trim_ascii_end())
        }
    }

    pub(super) fn reset(&mut self) {
        self.line.clear();
    }
}
