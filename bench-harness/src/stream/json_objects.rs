//! JSON objects one after the other, with white space between them or nothing.
//!
//! An object ends with the brace that closes its first one, braces in strings apart. Whether
//! what lies between is JSON is for the item's reader to say.

use super::{Carry, DecodeError, Rest};

#[derive(Debug)]
pub(super) struct JsonObjects {
    object: Carry,
    /// Open braces; 0 between objects.
    depth: u32,
    in_string: bool,
    /// The next byte of the string stands behind a backslash.
    escaped: bool,
}

impl JsonObjects {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            object: Carry::new(bytes_max),
            depth: 0,
            in_string: false,
            escaped: false,
        }
    }

    pub(super) fn next<'d, 'i: 'd>(
        &'d mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<&'d [u8]>, DecodeError> {
        self.object.drop_spent();
        if self.depth == 0 {
            *input = input.trim_ascii_start();
            match input.first() {
                None => return Ok(None),
                Some(b'{') => {}
                Some(&found) => return Err(DecodeError::NoObject { found }),
            }
        }
        let all = *input;
        match self.end_of_object(all) {
            Some(end) => {
                *input = &all[end..];
                self.object.complete(&all[..end]).map(Some)
            }
            None => {
                *input = &[];
                self.object.keep(all)?;
                Ok(None)
            }
        }
    }

    /// Goes on through the object; where it ends, if it does in these bytes.
    fn end_of_object(&mut self, bytes: &[u8]) -> Option<usize> {
        for (index, byte) in bytes.iter().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                // An object of 2^32 braces is longer than any bound.
                b'{' => self.depth += 1,
                b'}' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(index + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }

    pub(super) fn rest(&self) -> Rest<'_> {
        if self.depth > 0 {
            Rest::Partial
        } else {
            Rest::Nothing
        }
    }

    pub(super) fn reset(&mut self) {
        self.object.clear();
        self.depth = 0;
        self.in_string = false;
        self.escaped = false;
    }
}
