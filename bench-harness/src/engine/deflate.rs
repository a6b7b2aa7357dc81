//! The deflated part of a body (RFC 1951), with zlib's head (RFC 1950) or without.

use flate2::{Decompress, FlushDecompress, Status};

use super::coding::{CodingFault, Step};

/// One body.
pub(super) struct Inflate {
    inflate: Decompress,
    has_ended: bool,
}

/// RFC 1950 §2.2: the method is 8, and both bytes together are a multiple of 31.
pub(super) fn has_zlib_head(first: u8, second: u8) -> bool {
    first & 0x0f == 8 && (u16::from(first) << 8 | u16::from(second)).is_multiple_of(31)
}

impl Inflate {
    /// In the form that has a head, or the one without.
    pub(super) fn new(has_head: bool) -> Self {
        Self {
            inflate: Decompress::new(has_head),
            has_ended: false,
        }
    }

    /// Whether all of it came.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Goes on by the front of `input`.
    ///
    /// # Errors
    /// It isn't deflated, or goes on behind its end.
    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, CodingFault> {
        if self.has_ended {
            return Step::behind_the_end(input, "deflate");
        }
        let (step, has_ended) = inflate(&mut self.inflate, "deflate", input, output)?;
        self.has_ended = has_ended;
        Ok(step)
    }
}

/// One step of an inflation, and whether it was the last.
pub(super) fn inflate(
    inflate: &mut Decompress,
    name: &'static str,
    input: &[u8],
    output: &mut [u8],
) -> Result<(Step, bool), CodingFault> {
    let (in_before, out_before) = (inflate.total_in(), inflate.total_out());
    let status = inflate.decompress(input, output, FlushDecompress::None);
    let status = status.map_err(|error| CodingFault::Broken(name, error.to_string()))?;
    // Both differences are bounded by the lengths above.
    let step = Step {
        read: (inflate.total_in() - in_before) as usize,
        written: (inflate.total_out() - out_before) as usize,
    };
    Ok((step, status == Status::StreamEnd))
}
