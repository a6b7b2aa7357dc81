//! A file line by line, with numbers for messages and a bound on what one line may take: points of
//! k6 and logs of histograms may be larger than memory.

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use super::{ImportError, malformed};

/// A histogram of five digits and 63 bits takes less.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Of a file that is read as a whole.
const WHOLE_BYTES_MAX: u64 = 256 << 20;
/// How a file begins that gzip made.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads lines.
pub(super) struct Lines<R> {
    input: R,
    origin: PathBuf,
    /// Of the line in `line`, from 1.
    number: usize,
    line: Vec<u8>,
    /// `line` was looked at and not taken.
    is_peeked: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R, origin: &Path) -> Self {
        Self {
            input,
            origin: origin.to_owned(),
            number: 0,
            line: Vec::new(),
            is_peeked: false,
        }
    }

    /// The next line without its end; `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<&str>, ImportError> {
        if self.is_peeked {
            self.is_peeked = false;
        } else if !self.read()? {
            return Ok(None);
        }
        self.text().map(Some)
    }

    /// The first line, which [`Self::next`] will return; empty for an empty file.
    pub(super) fn peek(&mut self) -> Result<&str, ImportError> {
        if !self.is_peeked {
            self.is_peeked = self.read()?;
        }
        self.text()
    }

    /// Everything that wasn't taken.
    pub(super) fn rest(&mut self) -> Result<String, ImportError> {
        let mut bytes = std::mem::take(&mut self.line);
        if self.is_peeked {
            self.is_peeked = false;
        } else {
            bytes.clear();
        }
        let mut input = (&mut self.input).take(WHOLE_BYTES_MAX + 1);
        input
            .read_to_end(&mut bytes)
            .map_err(|source| ImportError::Read {
                path: self.origin.clone(),
                source,
            })?;
        if bytes.len() as u64 > WHOLE_BYTES_MAX {
            return Err(self.wrong("larger than any summary is", "give the tool's own output"));
        }
        let text = String::from_utf8(bytes);
        text.map_err(|_| self.wrong("not UTF-8 text", "give the file as the tool wrote it"))
    }

    /// An error at the current line.
    pub(super) fn wrong(&self, message: impl Into<String>, fix: &str) -> ImportError {
        malformed(&self.origin, self.number.max(1), message, fix)
    }

    fn read(&mut self) -> Result<bool, ImportError> {
        self.line.clear();
        let mut input = (&mut self.input).take(LINE_BYTES_MAX + 1);
        let read = input
            .read_until(b'\n', &mut self.line)
            .map_err(|source| ImportError::Read {
                path: self.origin.clone(),
                source,
            })?;
        if read == 0 {
            return Ok(false);
        }
        self.number += 1;
        if self.line.len() as u64 > LINE_BYTES_MAX {
            return Err(self.wrong(
                "a line of more than 64 MiB",
                "give the file as the tool wrote it",
            ));
        }
        Ok(true)
    }

    fn text(&self) -> Result<&str, ImportError> {
        if self.line.starts_with(&GZIP) {
            return Err(self.wrong("it is compressed by gzip", "unpack it first: gzip -d FILE"));
        }
        let text = std::str::from_utf8(&self.line)
            .map_err(|_| self.wrong("not UTF-8 text", "give the file as the tool wrote it"))?;
        Ok(text.trim_end_matches(['\n', '\r']))
    }
}
