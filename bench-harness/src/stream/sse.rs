//! Server-sent events, by the rules of the WHATWG's HTML standard, section "Parsing an event
//! stream": lines end with CR, LF or CRLF; a byte order mark at the very beginning, comments
//! and unknown fields are passed over; the values of several `data` fields are joined by line
//! feeds; a blank line ends an event, and without `data` there is none. An event without its
//! blank line at the end of the body is discarded, as the standard has it.
//!
//! An item is an event's data. Its name and id change nothing in what is measured, and `retry`
//! is for clients that connect again. Where the standard decodes UTF-8, replacing what isn't,
//! the bytes are kept: a text that isn't UTF-8 is no JSON either.

use super::{Carry, DecodeError, Rest};

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

#[derive(Debug)]
pub(super) struct Sse {
    line: Carry,
    /// Nothing but the first line may begin with a byte order mark.
    is_first_line: bool,
    /// The last byte was a CR: an LF behind it belongs to it.
    after_cr: bool,
    event: Event,
}

/// The event that is being read.
#[derive(Debug)]
struct Event {
    data: Carry,
    /// An empty `data` field makes an event, too.
    has_data: bool,
}

impl Sse {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            line: Carry::new(bytes_max),
            is_first_line: true,
            after_cr: false,
            event: Event {
                data: Carry::new(bytes_max),
                has_data: false,
            },
        }
    }

    pub(super) fn next<'d, 'i: 'd>(
        &'d mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<&'d [u8]>, DecodeError> {
        self.event.data.drop_spent();
        loop {
            if let Some(first) = input.first() {
                if self.after_cr && *first == b'\n' {
                    *input = &input[1..];
                }
                self.after_cr = false;
            }
            let end = input.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let Some(end) = end else {
                self.line.keep(input)?;
                *input = &[];
                return Ok(None);
            };
            let part = &input[..end];
            self.after_cr = input[end] == b'\r';
            *input = &input[end + 1..];
            if self.end_line(part)? {
                self.event.data.spent = true;
                return Ok(Some(&self.event.data.bytes));
            }
        }
    }

    /// Reads a line whose last part has come; true if it ends an event.
    fn end_line(&mut self, part: &[u8]) -> Result<bool, DecodeError> {
        let mut line = self.line.complete(part)?;
        if std::mem::take(&mut self.is_first_line) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        let ends = if line.is_empty() {
            std::mem::take(&mut self.event.has_data)
        } else {
            self.event.field(line)?;
            false
        };
        self.line.drop_spent();
        Ok(ends)
    }

    pub(super) fn rest(&self) -> Rest<'_> {
        let unread = &self.line.bytes;
        if self.event.has_data || !(unread.is_empty() || unread.starts_with(b":")) {
            Rest::Discarded
        } else {
            Rest::Nothing
        }
    }

    pub(super) fn reset(&mut self) {
        self.line.clear();
        self.is_first_line = true;
        self.after_cr = false;
        self.event.data.clear();
        self.event.has_data = false;
    }
}

impl Event {
    fn field(&mut self, line: &[u8]) -> Result<(), DecodeError> {
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        if name != b"data" {
            return Ok(());
        }
        if self.has_data {
            self.data.keep(b"\n")?;
        }
        self.has_data = true;
        self.data.keep(value.strip_prefix(b" ").unwrap_or(value))
    }
}
