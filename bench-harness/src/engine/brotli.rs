//! A body by Brotli (RFC 7932), decoded as it comes.

use brotli_decompressor::writer::StandardAlloc;
use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState};

use super::coding::{CodingFault, Step};

/// One body.
pub(super) struct Brotli {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    has_ended: bool,
}

impl Default for Brotli {
    fn default() -> Self {
        Self {
            // Strict: a window of the standard's size at most, 16 MiB.
            state: BrotliState::new_strict(
                StandardAlloc::default(),
                StandardAlloc::default(),
                StandardAlloc::default(),
            ),
            has_ended: false,
        }
    }
}

impl Brotli {
    /// Whether all of it came.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Goes on by the front of `input`.
    ///
    /// # Errors
    /// It isn't Brotli, or goes on behind its end.
    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, CodingFault> {
        if self.has_ended {
            return Step::behind_the_end(input, "br");
        }
        let (mut left, mut read) = (input.len(), 0);
        let (mut room, mut written, mut total) = (output.len(), 0, 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut read,
            input,
            &mut room,
            &mut written,
            output,
            &mut total,
            &mut self.state,
        );
        match result {
            BrotliResult::ResultSuccess => self.has_ended = true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultFailure => {
                let what = format!("{:?}", self.state.error_code);
                return Err(CodingFault::Broken("br", what));
            }
        }
        Ok(Step { read, written })
    }
}
