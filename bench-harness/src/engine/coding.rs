//! Content codings (RFC 9110 §8.4): undoes gzip, deflate and Brotli piece by piece, in pieces of a
//! bounded size, so that a stream's items show when they come and a bomb fills no memory.
//!
//! A body is whole when its coding says so: one that ends before that, or goes on behind it, is
//! no right answer, even where all that was decoded looks right.

use super::answer::Head;
use super::brotli::Brotli;
use super::deflate::{Inflate, has_zlib_head};
use super::gzip::Gzip;

/// What is asked for, where the scenario wants compressed answers.
pub(super) const OFFER: &str = "gzip, deflate, br";

/// Longest part that is decoded at once.
const PART_BYTES_MAX: usize = 16 * 1024;

/// How a body is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    /// RFC 1952.
    Gzip,
    /// RFC 1950, or RFC 1951 as some services have it.
    Deflate,
    /// RFC 7932.
    Brotli,
}

/// What is wrong with a coded body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CodingFault {
    #[error("the body is no {0}: {1}")]
    Broken(&'static str, String),
    #[error("the body ends in the middle of its {0}")]
    Cut(&'static str),
    #[error("more comes behind the end of the body's {0}")]
    More(&'static str),
    #[error(
        "the body has the content-encoding `{0}`, which isn't understood here: ask for gzip, \
         deflate or br"
    )]
    Unknown(String),
}

impl Coding {
    /// The coding that a head tells; `None` where the body is sent as it is.
    ///
    /// # Errors
    /// One that can't be undone here.
    pub(super) fn of(head: &Head) -> Result<Option<Self>, CodingFault> {
        let mut coding = None;
        for (name, value) in head.fields() {
            if !name.eq_ignore_ascii_case("content-encoding") {
                continue;
            }
            let value = value.trim_ascii();
            let named = [
                (&b"gzip"[..], Self::Gzip),
                (b"x-gzip", Self::Gzip),
                (b"deflate", Self::Deflate),
                (b"br", Self::Brotli),
            ];
            let known = named
                .into_iter()
                .find(|(name, _)| value.eq_ignore_ascii_case(name));
            match known {
                Some((_, known)) if coding.is_none() => coding = Some(known),
                None if value.is_empty() || value.eq_ignore_ascii_case(b"identity") => {}
                _ => return Err(CodingFault::Unknown(value.escape_ascii().to_string())),
            }
        }
        Ok(coding)
    }
}

/// One body on its way back.
pub(super) struct Decoder {
    form: Form,
    /// What came and isn't decoded yet begins at `at`.
    input: Vec<u8>,
    at: usize,
    output: Vec<u8>,
    /// Anything came at all: an answer without a body has no coding, whatever its head says.
    has_begun: bool,
}

enum Form {
    Gzip(Box<Gzip>),
    /// Its first two bytes tell which of the two forms it has.
    Deflate,
    Inflate(Inflate),
    Brotli(Box<Brotli>),
}

/// What became of some input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) read: usize,
    pub(super) written: usize,
}

impl Step {
    /// What may follow a body of the coding of this name: nothing.
    ///
    /// # Errors
    /// There is more.
    pub(super) fn behind_the_end(input: &[u8], name: &'static str) -> Result<Self, CodingFault> {
        if !input.is_empty() {
            return Err(CodingFault::More(name));
        }
        Ok(Self {
            read: 0,
            written: 0,
        })
    }
}

impl Decoder {
    pub(super) fn new(coding: Coding) -> Self {
        let form = match coding {
            Coding::Gzip => Form::Gzip(Box::default()),
            Coding::Deflate => Form::Deflate,
            Coding::Brotli => Form::Brotli(Box::default()),
        };
        Self {
            form,
            input: Vec::new(),
            at: 0,
            output: vec![0; PART_BYTES_MAX],
            has_begun: false,
        }
    }

    /// Takes the next bytes of the body. To be called when [`Decoder::decode`] gives nothing.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.input.drain(..self.at);
        self.at = 0;
        self.input.extend_from_slice(bytes);
        self.has_begun |= !bytes.is_empty();
    }

    /// Decodes the next part, whose length it gives; 0: that needs more input.
    ///
    /// # Errors
    /// The body isn't what it is said to be.
    pub(super) fn decode(&mut self) -> Result<usize, CodingFault> {
        loop {
            let input = &self.input[self.at..];
            if let (Form::Deflate, [first, second, ..]) = (&self.form, input) {
                self.form = Form::Inflate(Inflate::new(has_zlib_head(*first, *second)));
            }
            let step = match &mut self.form {
                Form::Gzip(gzip) => gzip.step(input, &mut self.output)?,
                Form::Deflate => return Ok(0),
                Form::Inflate(inflate) => inflate.step(input, &mut self.output)?,
                Form::Brotli(brotli) => brotli.step(input, &mut self.output)?,
            };
            self.at += step.read;
            if step.written > 0 || step.read == 0 {
                return Ok(step.written);
            }
        }
    }

    /// The part that was decoded last.
    pub(super) fn decoded(&self, length: usize) -> &[u8] {
        &self.output[..length]
    }

    /// The body has ended, and all of it was decoded.
    ///
    /// # Errors
    /// It should not have ended yet.
    pub(super) fn finish(&self) -> Result<(), CodingFault> {
        let (has_ended, name) = match &self.form {
            Form::Gzip(gzip) => (gzip.may_end(), "gzip"),
            Form::Deflate => (false, "deflate"),
            Form::Inflate(inflate) => (inflate.has_ended(), "deflate"),
            Form::Brotli(brotli) => (brotli.has_ended(), "br"),
        };
        if has_ended || !self.has_begun {
            Ok(())
        } else {
            Err(CodingFault::Cut(name))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use flate2::{Compression, GzBuilder};

    use super::*;

    /// `{"status":"ok"}` by another implementation of Brotli, compressed, window of 4 MiB.
    const BROTLI: &[u8] =
        b"\x0b\x07\x80\x7b\x22\x73\x74\x61\x74\x75\x73\x22\x3a\x22\x6f\x6b\x22\x7d\x03";

    fn packed(coding: Coding, is_raw: bool, text: &[u8]) -> Vec<u8> {
        let level = Compression::default();
        match coding {
            Coding::Gzip => {
                let mut packer = GzEncoder::new(Vec::new(), level);
                packer.write_all(text).expect("memory takes it");
                packer.finish()
            }
            Coding::Deflate if is_raw => {
                let mut packer = DeflateEncoder::new(Vec::new(), level);
                packer.write_all(text).expect("memory takes it");
                packer.finish()
            }
            Coding::Deflate => {
                let mut packer = ZlibEncoder::new(Vec::new(), level);
                packer.write_all(text).expect("memory takes it");
                packer.finish()
            }
            Coding::Brotli => Ok(BROTLI.to_vec()),
        }
        .expect("memory takes it")
    }

    fn unpacked<'p>(
        coding: Coding,
        parts: impl IntoIterator<Item = &'p [u8]>,
    ) -> Result<Vec<u8>, CodingFault> {
        let mut decoder = Decoder::new(coding);
        let mut text = Vec::new();
        for part in parts {
            decoder.feed(part);
            loop {
                let length = decoder.decode()?;
                if length == 0 {
                    break;
                }
                text.extend_from_slice(decoder.decoded(length));
            }
        }
        decoder.finish().map(|()| text)
    }

    const TEXT: &[u8] = b"{\"status\":\"ok\"}";
    const FORMS: [(Coding, bool); 4] = [
        (Coding::Gzip, false),
        (Coding::Deflate, false),
        (Coding::Deflate, true),
        (Coding::Brotli, false),
    ];

    #[test]
    fn each_coding_is_undone_in_one_part_or_byte_by_byte() {
        for (coding, is_raw) in FORMS {
            let body = packed(coding, is_raw, TEXT);
            assert_eq!(unpacked(coding, [&body[..]]).as_deref(), Ok(TEXT));
            assert_eq!(unpacked(coding, body.chunks(1)).as_deref(), Ok(TEXT));
        }
    }

    #[test]
    fn a_body_that_ends_too_early_or_too_late_is_none() {
        for (coding, is_raw) in FORMS {
            let body = packed(coding, is_raw, TEXT);
            for length in 1..body.len() {
                let cut = unpacked(coding, [&body[..length]]);
                assert!(
                    matches!(cut, Err(CodingFault::Cut(_))),
                    "{coding:?} {length} {cut:?}"
                );
            }
            for parts in [
                vec![[&body[..], b"and more"].concat()],
                vec![body, b"a".to_vec()],
            ] {
                let more = unpacked(coding, parts.iter().map(Vec::as_slice));
                assert!(
                    matches!(more, Err(CodingFault::More(_))),
                    "{coding:?} {more:?}"
                );
            }
            assert_eq!(unpacked(coding, []), Ok(Vec::new()), "no body");
        }
    }

    #[test]
    fn what_is_flushed_shows_at_once() {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        let mut decoder = Decoder::new(Coding::Gzip);
        for item in [&b"data: 1\n\n"[..], b"data: 2\n\n"] {
            packer.write_all(item).expect("memory takes it");
            packer.flush().expect("memory takes it");
            decoder.feed(&std::mem::take(packer.get_mut()));
            let length = decoder.decode().expect("it is gzip");
            assert_eq!(decoder.decoded(length), item);
            assert_eq!(decoder.decode(), Ok(0));
        }
    }

    #[test]
    fn another_implementations_brotli_is_undone_and_shows_what_it_flushed() {
        let body =
            b"\x5b\xf7\x24\x81\xdf\x48\x2d\xd6\x9c\xe1\x4e\x2d\xb2\xf6\xb6\xb7\x74\xfa\x8a\x92\xdb\
            \x4a\x80\x0a\xdc\x47\x39\x02\xb0\x04";
        let text = TEXT.repeat(5_000);
        for size in [1, 3, body.len()] {
            let decoded = unpacked(Coding::Brotli, body.chunks(size)).expect("it is Brotli");
            assert!(decoded == text, "{} bytes", decoded.len());
        }
        let mut decoder = Decoder::new(Coding::Brotli);
        for (flushed, item) in [
            (
                &b"\x0b\x04\x80\x64\x61\x74\x61\x3a\x20\x31\x0a\x0a"[..],
                &b"data: 1\n\n"[..],
            ),
            (
                b"\x40\x00\x80\x5f\x4a\x41\xa6\x08\xd1\x24\x18\x30",
                b"data: 2\n\n",
            ),
        ] {
            decoder.feed(flushed);
            let length = decoder.decode().expect("it is Brotli");
            assert_eq!(decoder.decoded(length), item);
            assert_eq!(decoder.decode(), Ok(0));
        }
        decoder.feed(b"\x03");
        assert_eq!((decoder.decode(), decoder.finish()), (Ok(0), Ok(())));
    }

    #[test]
    fn gzip_may_have_fields_in_its_head_and_members() {
        let mut packer = GzBuilder::new()
            .extra(vec![7; 300])
            .filename("a")
            .comment("b")
            .write(Vec::new(), Compression::default());
        packer.write_all(b"one ").expect("memory takes it");
        let mut body = packer.finish().expect("memory takes it");
        body.extend(packed(Coding::Gzip, false, b""));
        body.extend(packed(Coding::Gzip, false, b"two"));
        for size in [1, 7, body.len()] {
            let text = unpacked(Coding::Gzip, body.chunks(size));
            assert_eq!(text.as_deref(), Ok(&b"one two"[..]));
        }
    }

    #[test]
    fn a_bomb_comes_in_small_parts() {
        let body = packed(Coding::Gzip, false, &vec![0; 8 << 20]);
        let mut decoder = Decoder::new(Coding::Gzip);
        decoder.feed(&body);
        let mut bytes = 0;
        loop {
            let length = decoder.decode().expect("it is gzip");
            assert!(length <= PART_BYTES_MAX && decoder.output.len() == PART_BYTES_MAX);
            if length == 0 {
                break;
            }
            bytes += length;
        }
        assert_eq!((bytes, decoder.finish()), (8 << 20, Ok(())));
    }

    #[test]
    fn a_head_tells_the_coding() {
        let of = |values: &[&str]| {
            let mut head = Head::default();
            head.begin(200);
            for value in values {
                head.push("Content-Encoding", value.as_bytes());
            }
            Coding::of(&head)
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&["identity"]), Ok(None));
        assert_eq!(of(&["GZIP"]), Ok(Some(Coding::Gzip)));
        assert_eq!(of(&["x-gzip"]), Ok(Some(Coding::Gzip)));
        assert_eq!(of(&["deflate"]), Ok(Some(Coding::Deflate)));
        assert_eq!(of(&["br"]), Ok(Some(Coding::Brotli)));
        for unknown in [&["zstd"][..], &["gzip, br"], &["gzip", "br"]] {
            assert!(
                matches!(of(unknown), Err(CodingFault::Unknown(_))),
                "{unknown:?}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn cuts_change_nothing(
            text in proptest::collection::vec(0_u8..4, 0..60_000),
            size in 1_usize..5_000,
            form in 0_usize..3,
        ) {
            let (coding, is_raw) = FORMS[form];
            let body = packed(coding, is_raw, &text);
            let decoded = unpacked(coding, body.chunks(size));
            proptest::prop_assert_eq!(decoded, Ok(text));
        }

        #[test]
        fn a_spoilt_body_is_never_taken_for_another_one(at in 0_usize..35, bit in 0_u32..8) {
            // A raw deflate has no checksum; neither has Brotli.
            for coding in [Coding::Gzip, Coding::Deflate] {
                let mut body = packed(coding, false, TEXT);
                let at = at % body.len();
                body[at] ^= 1 << bit;
                if let Ok(text) = unpacked(coding, [&body[..]]) {
                    proptest::prop_assert_eq!(text, TEXT, "{:?} {} {}", coding, at, bit);
                }
            }
        }

        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(0_u8..=255, 0..400),
            size in 1_usize..40,
        ) {
            for (coding, _) in FORMS {
                // Right or wrong, it has to come to an end.
                let _ = unpacked(coding, bytes.chunks(size));
            }
        }
    }
}
