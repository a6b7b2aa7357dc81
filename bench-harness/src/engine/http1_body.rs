//! Where the body of an HTTP/1.1 answer ends (RFC 9112 §6 and §7): pure, incremental, and the
//! same however reads have cut it.

/// Extensions and trailers are of no use here; more of them than this is an attack or a fault.
const IGNORED_BYTES_MAX: u32 = 16 * 1024;

/// What is wrong with a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyFault {
    #[error("a chunk's size begins with `{}`, expected a hexadecimal digit", .0.escape_ascii())]
    Size(u8),
    #[error("a chunk's size is larger than any body")]
    SizeOverflow,
    #[error("`{}` in the line of a chunk's size", .0.escape_ascii())]
    SizeLine(u8),
    #[error("a chunk is longer than its size: `{}` where its line should end", .0.escape_ascii())]
    ChunkEnd(u8),
    #[error("`{}` in the trailers of the chunks", .0.escape_ascii())]
    Trailer(u8),
    #[error("more than {IGNORED_BYTES_MAX} bytes of chunk extensions or trailers")]
    TooMuchIgnored,
}

/// How much of a body is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// So many bytes; 0: it has ended.
    Length(u64),
    /// In chunks.
    Chunked(Chunked),
    /// Until the connection ends.
    UntilClose,
}

/// Where in the chunks the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunked {
    place: Place,
    /// Bytes of extensions and trailers so far.
    ignored_bytes: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the first digit of a size.
    Size,
    /// Behind a digit of a size.
    Digits(u64),
    /// In the rest of a size's line: white space, extensions.
    Extension(u64),
    /// At the line feed of a size's line.
    SizeLineFeed(u64),
    /// In a chunk, of which so much is to come.
    Data(u64),
    DataReturn,
    DataLineFeed,
    /// At the beginning of a line of trailers, or of the empty line behind them.
    Trailer,
    TrailerText,
    TrailerLineFeed,
    LastLineFeed,
    End,
}

/// What the front of the input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// Bytes that frame the body.
    pub(super) skipped: usize,
    /// Bytes of the body behind them; 0 if the input holds none, or the body has ended.
    pub(super) data: usize,
}

impl Body {
    /// A body without a byte.
    pub(super) const EMPTY: Self = Self::Length(0);

    /// A body in chunks, at its beginning.
    pub(super) const CHUNKED: Self = Self::Chunked(Chunked {
        place: Place::Size,
        ignored_bytes: 0,
    });

    /// Whether all of it has come.
    pub(super) fn has_ended(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunked) => chunked.place == Place::End,
            Self::UntilClose => false,
        }
    }

    /// Goes on by the front of `input`: at most one part of the body, which lies in one chunk.
    ///
    /// # Errors
    /// The input is no body of this kind.
    pub(super) fn step(&mut self, input: &[u8]) -> Result<Step, BodyFault> {
        match self {
            Self::Length(left) => Ok(Step {
                skipped: 0,
                data: take(left, input.len()),
            }),
            Self::Chunked(chunked) => chunked.step(input),
            Self::UntilClose => Ok(Step {
                skipped: 0,
                data: input.len(),
            }),
        }
    }
}

/// As much of what is left as is there.
fn take(left: &mut u64, there: usize) -> usize {
    // The smaller of the two is no larger than `there`.
    let taken = (*left).min(there as u64);
    *left -= taken;
    taken as usize
}

impl Chunked {
    fn step(&mut self, input: &[u8]) -> Result<Step, BodyFault> {
        for (skipped, byte) in input.iter().enumerate() {
            if let Place::Data(left) = &mut self.place {
                let data = take(left, input.len() - skipped);
                if *left == 0 {
                    self.place = Place::DataReturn;
                }
                return Ok(Step { skipped, data });
            }
            if self.place == Place::End {
                return Ok(Step { skipped, data: 0 });
            }
            self.place = self.after(*byte)?;
        }
        Ok(Step {
            skipped: input.len(),
            data: 0,
        })
    }

    /// The place behind a byte that frames the chunks.
    fn after(&mut self, byte: u8) -> Result<Place, BodyFault> {
        let place = match (self.place, byte) {
            (Place::Size, _) => match digit(byte) {
                Some(digit) => Place::Digits(digit),
                None => return Err(BodyFault::Size(byte)),
            },
            (Place::Digits(size), b'\r') | (Place::Extension(size), b'\r') => {
                Place::SizeLineFeed(size)
            }
            (Place::Digits(size), b';' | b' ' | b'\t') => Place::Extension(size),
            (Place::Digits(size), _) => match digit(byte) {
                Some(digit) => Place::Digits(longer(size, digit)?),
                None => return Err(BodyFault::SizeLine(byte)),
            },
            (Place::Extension(_), b'\n') => return Err(BodyFault::SizeLine(byte)),
            (Place::Extension(size), _) => self.ignore(Place::Extension(size))?,
            (Place::SizeLineFeed(0), b'\n') => Place::Trailer,
            (Place::SizeLineFeed(size), b'\n') => Place::Data(size),
            (Place::SizeLineFeed(_), _) => return Err(BodyFault::SizeLine(byte)),
            (Place::DataReturn, b'\r') => Place::DataLineFeed,
            (Place::DataLineFeed, b'\n') => Place::Size,
            (Place::DataReturn | Place::DataLineFeed, _) => return Err(BodyFault::ChunkEnd(byte)),
            (Place::Trailer, b'\r') => Place::LastLineFeed,
            (Place::TrailerText, b'\r') => Place::TrailerLineFeed,
            (Place::TrailerLineFeed, b'\n') => Place::Trailer,
            (Place::LastLineFeed, b'\n') => Place::End,
            (Place::Trailer | Place::TrailerText, b'\n' | 0)
            | (Place::TrailerLineFeed | Place::LastLineFeed, _) => {
                return Err(BodyFault::Trailer(byte));
            }
            (Place::Trailer | Place::TrailerText, _) => self.ignore(Place::TrailerText)?,
            // `step` never asks there.
            (Place::Data(_) | Place::End, _) => self.place,
        };
        Ok(place)
    }

    fn ignore(&mut self, place: Place) -> Result<Place, BodyFault> {
        self.ignored_bytes += 1;
        if self.ignored_bytes > IGNORED_BYTES_MAX {
            return Err(BodyFault::TooMuchIgnored);
        }
        Ok(place)
    }
}

fn digit(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

fn longer(size: u64, digit: u64) -> Result<u64, BodyFault> {
    let longer = size
        .checked_mul(16)
        .and_then(|size| size.checked_add(digit));
    longer.ok_or(BodyFault::SizeOverflow)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The parts of a body that comes in these reads, whether it has ended, and what is behind it.
    fn parts(mut body: Body, reads: &[&[u8]]) -> Result<(Vec<u8>, bool, Vec<u8>), BodyFault> {
        let (mut data, mut behind) = (Vec::new(), Vec::new());
        for read in reads {
            let mut rest = *read;
            while !rest.is_empty() {
                if body.has_ended() {
                    behind.extend_from_slice(rest);
                    break;
                }
                let step = body.step(rest)?;
                assert!(step.skipped + step.data > 0, "it goes on");
                data.extend_from_slice(&rest[step.skipped..][..step.data]);
                rest = &rest[step.skipped + step.data..];
            }
        }
        Ok((data, body.has_ended(), behind))
    }

    fn whole(body: Body, text: &str) -> Result<(Vec<u8>, bool, Vec<u8>), BodyFault> {
        parts(body, &[text.as_bytes()])
    }

    #[test]
    fn bodies_end_where_they_end() {
        for (body, text, data, has_ended, behind) in [
            (Body::EMPTY, "more", "", true, "more"),
            (Body::Length(3), "abcd", "abc", true, "d"),
            (Body::Length(3), "ab", "ab", false, ""),
            (Body::UntilClose, "abc", "abc", false, ""),
            (Body::CHUNKED, "3\r\nabc\r\n0\r\n\r\nx", "abc", true, "x"),
            (
                Body::CHUNKED,
                "003 \t\r\nabc\r\n00\r\n\r\n",
                "abc",
                true,
                "",
            ),
            (
                Body::CHUNKED,
                "A\r\n0123456789\r\na;b=\"c\"\r\n0123456789\r\n0;d\r\n\r\n",
                "01234567890123456789",
                true,
                "",
            ),
            (
                Body::CHUNKED,
                "1\r\na\r\n0\r\nx: y\r\nz:\r\n\r\n",
                "a",
                true,
                "",
            ),
            (Body::CHUNKED, "1\r\na\r\n0\r\n", "a", false, ""),
            (Body::CHUNKED, "5\r\nab", "ab", false, ""),
        ] {
            let expected = (
                data.as_bytes().to_vec(),
                has_ended,
                behind.as_bytes().to_vec(),
            );
            assert_eq!(whole(body, text), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn each_part_lies_in_one_chunk() {
        let mut body = Body::CHUNKED;
        let text = b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n";
        assert_eq!(
            body.step(text),
            Ok(Step {
                skipped: 3,
                data: 1
            })
        );
        assert_eq!(
            body.step(&text[4..]),
            Ok(Step {
                skipped: 5,
                data: 2
            })
        );
        assert_eq!(
            body.step(&text[11..]),
            Ok(Step {
                skipped: 7,
                data: 0
            })
        );
        assert!(body.has_ended());
    }

    #[test]
    fn rubbish_is_called_by_its_name() {
        for (text, fault) in [
            ("x", BodyFault::Size(b'x')),
            ("\r\n", BodyFault::Size(b'\r')),
            ("-1\r\n", BodyFault::Size(b'-')),
            ("1\n", BodyFault::SizeLine(b'\n')),
            ("1;a\nb", BodyFault::SizeLine(b'\n')),
            ("1\rx", BodyFault::SizeLine(b'x')),
            ("1g", BodyFault::SizeLine(b'g')),
            ("1\r\nab", BodyFault::ChunkEnd(b'b')),
            ("1\r\na\n", BodyFault::ChunkEnd(b'\n')),
            ("1\r\na\rx", BodyFault::ChunkEnd(b'x')),
            ("0\r\na\nb", BodyFault::Trailer(b'\n')),
            ("0\r\na\0", BodyFault::Trailer(0)),
            ("0\r\n\rx", BodyFault::Trailer(b'x')),
            ("10000000000000000", BodyFault::SizeOverflow),
        ] {
            assert_eq!(whole(Body::CHUNKED, text), Err(fault), "{text:?}");
        }
        let endless = "x".repeat(IGNORED_BYTES_MAX as usize + 1);
        for text in [format!("1;{endless}"), format!("0\r\n{endless}")] {
            assert_eq!(whole(Body::CHUNKED, &text), Err(BodyFault::TooMuchIgnored));
        }
    }

    /// Chunks with extensions, and trailers.
    fn chunks() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let chunk = (prop::collection::vec(any::<u8>(), 1..40), "(;[a-z]{0,5})?");
        let chunks = prop::collection::vec(chunk, 0..8);
        (chunks, "([a-z]{1,5}: [a-z]{0,5}\r\n){0,2}").prop_map(|(chunks, trailers)| {
            let (mut text, mut data) = (Vec::new(), Vec::new());
            for (bytes, extension) in chunks {
                text.extend_from_slice(format!("{:x}{extension}\r\n", bytes.len()).as_bytes());
                text.extend_from_slice(&bytes);
                text.extend_from_slice(b"\r\n");
                data.extend_from_slice(&bytes);
            }
            text.extend_from_slice(format!("0\r\n{trailers}\r\nbehind").as_bytes());
            (text, data)
        })
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(
            (text, data) in chunks(),
            cuts in prop::collection::vec(1..20usize, 0..200),
        ) {
            let mut reads = Vec::new();
            let mut rest = text.as_slice();
            for cut in cuts {
                let (read, later) = rest.split_at(cut.min(rest.len()));
                reads.push(read);
                rest = later;
            }
            reads.push(rest);
            prop_assert_eq!(parts(Body::CHUNKED, &reads), Ok((data, true, b"behind".to_vec())));
        }

        #[test]
        fn any_bytes_end_or_are_called_by_their_name(
            bytes in prop::collection::vec(prop_oneof![
                any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b'0'), Just(b'1'), Just(b';'),
            ], 0..300),
            cut in 0..300usize,
        ) {
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let cut = parts(Body::CHUNKED, &[first, second]);
            prop_assert_eq!(cut, parts(Body::CHUNKED, &[&bytes]));
        }
    }
}
