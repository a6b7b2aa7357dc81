//! The frame of gzip (RFC 1952) around what inflate decodes: pure, incremental, and the same
//! however reads have cut it. Members behind one another are one body, as the standard has it.

use flate2::{Crc, Decompress};

use super::coding::{CodingFault, Step};
use super::deflate::inflate;

const NAME: &str = "gzip";
const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
/// More than any service writes into the optional fields of a head.
const IGNORED_BYTES_MAX: u32 = 64 * 1024;

const HAS_HEAD_CRC: u8 = 1 << 1;
const HAS_EXTRA: u8 = 1 << 2;
const HAS_NAME: u8 = 1 << 3;
const HAS_COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

/// One body.
pub(super) struct Gzip {
    place: Place,
    flags: u8,
    ignored_bytes: u32,
    inflate: Decompress,
    crc: Crc,
    trailer: [u8; 8],
    /// A whole member came.
    has_member: bool,
}

/// Where the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the ten bytes that every member begins with; 0: perhaps there is no other member.
    Head(u8),
    ExtraLength(Option<u8>),
    Extra(u16),
    Name,
    Comment,
    HeadCrc(u8),
    Data,
    Trailer(u8),
}

impl Default for Gzip {
    fn default() -> Self {
        Self {
            place: Place::Head(0),
            flags: 0,
            ignored_bytes: 0,
            inflate: Decompress::new(false),
            crc: Crc::new(),
            trailer: [0; 8],
            has_member: false,
        }
    }
}

impl Gzip {
    /// Whether the body may end here.
    pub(super) fn may_end(&self) -> bool {
        self.place == Place::Head(0) && self.has_member
    }

    /// Goes on by the front of `input`.
    ///
    /// # Errors
    /// It isn't gzip, or its data isn't what was packed.
    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, CodingFault> {
        let mut read = 0;
        loop {
            if self.place == Place::Data {
                let (step, has_ended) = inflate(&mut self.inflate, NAME, &input[read..], output)?;
                self.crc.update(&output[..step.written]);
                read += step.read;
                if has_ended {
                    self.place = Place::Trailer(0);
                }
                let written = step.written;
                if !has_ended || written > 0 {
                    return Ok(Step { read, written });
                }
            }
            let Some(byte) = input.get(read) else {
                return Ok(Step { read, written: 0 });
            };
            self.place = self.after(*byte)?;
            read += 1;
        }
    }

    /// The place behind a byte of the frame.
    fn after(&mut self, byte: u8) -> Result<Place, CodingFault> {
        Ok(match self.place {
            Place::Head(at) => return self.after_head(at, byte),
            Place::ExtraLength(None) => Place::ExtraLength(Some(byte)),
            Place::ExtraLength(Some(low)) => match u16::from_le_bytes([low, byte]) {
                0 => self.behind(HAS_EXTRA),
                length => Place::Extra(length),
            },
            Place::Extra(1) => self.behind(HAS_EXTRA),
            Place::Extra(left) => Place::Extra(left - 1),
            Place::Name | Place::Comment if byte != 0 => {
                self.ignored_bytes += 1;
                if self.ignored_bytes > IGNORED_BYTES_MAX {
                    return Err(broken("its head has no end"));
                }
                self.place
            }
            Place::Name => self.behind(HAS_NAME),
            Place::Comment => self.behind(HAS_COMMENT),
            Place::HeadCrc(0) => Place::HeadCrc(1),
            Place::HeadCrc(_) => self.behind(HAS_HEAD_CRC),
            // Data is never looked at byte by byte.
            Place::Data => Place::Data,
            Place::Trailer(at) => {
                self.trailer[usize::from(at)] = byte;
                if at < 7 {
                    Place::Trailer(at + 1)
                } else {
                    self.end_member()?;
                    Place::Head(0)
                }
            }
        })
    }

    fn after_head(&mut self, at: u8, byte: u8) -> Result<Place, CodingFault> {
        match MAGIC.get(usize::from(at)) {
            Some(expected) if *expected == byte => {}
            Some(_) if at == 0 && self.has_member => return Err(CodingFault::More(NAME)),
            Some(_) => return Err(broken("it doesn't begin like one")),
            None => {}
        }
        match at {
            3 if byte & RESERVED != 0 => return Err(broken("its head has unknown flags")),
            3 => self.flags = byte,
            9 => {
                self.ignored_bytes = 0;
                return Ok(self.behind(0));
            }
            _ => {}
        }
        Ok(Place::Head(at + 1))
    }

    /// The first place behind an optional field that this member has; behind none, where it is 0.
    fn behind(&self, field: u8) -> Place {
        let fields = [
            (HAS_EXTRA, Place::ExtraLength(None)),
            (HAS_NAME, Place::Name),
            (HAS_COMMENT, Place::Comment),
            (HAS_HEAD_CRC, Place::HeadCrc(0)),
        ];
        let begin = fields.iter().position(|(flag, _)| *flag == field);
        let begin = begin.map_or(0, |index| index + 1);
        let next = fields[begin..]
            .iter()
            .find(|(flag, _)| self.flags & flag != 0);
        next.map_or(Place::Data, |(_, place)| *place)
    }

    /// Holds the trailer against the data, and gets ready for another member.
    fn end_member(&mut self) -> Result<(), CodingFault> {
        let [a, b, c, d, length @ ..] = self.trailer;
        if u32::from_le_bytes([a, b, c, d]) != self.crc.sum() {
            return Err(broken("its checksum is another one"));
        }
        if u32::from_le_bytes(length) != self.crc.amount() {
            return Err(broken("its length is another one"));
        }
        self.has_member = true;
        self.inflate.reset(false);
        self.crc.reset();
        Ok(())
    }
}

fn broken(what: &str) -> CodingFault {
    CodingFault::Broken(NAME, what.to_owned())
}
