//! How a histogram is stored: HdrHistogram's V2 encoding, deflated, base64.
//!
//! The hdrhistogram crate writes it, and reads the counts. What is around them is
//! checked here first, since a record may come from anywhere and the crate's
//! deserializer (7.6) believes the header: 41 bytes that state 1 GiB of counts make
//! it take 1 GiB (peak resident memory, measured), those of five digits 48 MiB, and
//! one number panics where arithmetic is checked (tests show the last two). With
//! stated lengths held against the real ones, three digits and 63-bit values, the
//! most that it takes is about 1 MB, and a damaged histogram is an error.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{
    DeserializeError, Deserializer as HdrDeserializer, Serializer as _, V2DeflateSerializeError,
    V2DeflateSerializer,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::histogram::{LatencyHistogram, SIGNIFICANT_DIGITS, VALUE_US_MAX};

const COOKIE: u32 = 0x1c84_9313;
const COOKIE_DEFLATED: u32 = 0x1c84_9314;
const HEADER_BYTES: usize = 40;
/// All bins of a 63-bit histogram at 9 bytes each: no honest payload is longer.
const INFLATED_BYTES_MAX: usize = 9 * 57_344 + HEADER_BYTES;
/// −2⁶³ as it is encoded. The crate negates it, which overflows; no count and no gap
/// comes near it, and no other numbers in a row look like it.
const LOWEST_NUMBER: [u8; 9] = [0xff; 9];

/// Why a stored histogram can't be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    #[error("the data does not inflate: {0}")]
    Inflate(#[from] std::io::Error),
    #[error("not HdrHistogram V2, deflated (it must begin with \"HISTFAAA\")")]
    Cookie,
    #[error("cut short: {0}")]
    Short(&'static str),
    #[error("longer than any histogram of microseconds")]
    Long,
    #[error("{0} significant digits instead of 3")]
    Digits(u32),
    #[error("it uses {0}, which records never do")]
    Unsupported(&'static str),
    #[error("its counts are damaged: {0}")]
    Counts(#[from] DeserializeError),
    #[error("its counts are damaged: their sum is beyond 64 bits")]
    Sum,
    #[error("its counts are damaged: a gap beyond the last bin")]
    Gap,
}

/// The stored form of a histogram.
pub(crate) fn encode(histogram: &LatencyHistogram) -> Result<String, V2DeflateSerializeError> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&histogram.counters(), &mut bytes)?;
    Ok(STANDARD.encode(bytes))
}

/// Why a histogram could not be written in the form of other tools.
#[derive(Debug, thiserror::Error)]
#[error("the histogram could not be encoded: {0}")]
pub struct EncodeError(#[from] V2DeflateSerializeError);

impl LatencyHistogram {
    /// The same counts in nanoseconds, as tools that read HdrHistogram's logs take for granted: V2
    /// encoding, deflated, base64. Values keep their three digits.
    ///
    /// # Errors
    /// Where memory has 32-bit addresses and the counts don't fit.
    pub fn encode_ns(&self) -> Result<String, EncodeError> {
        let mut nanoseconds =
            Histogram::<u64>::new(SIGNIFICANT_DIGITS).expect("the crate takes 0 to 5 digits");
        for (us, count) in self.iter() {
            let ns = us.saturating_mul(1_000).min(VALUE_US_MAX);
            // As in recording: what can't grow counts the largest value that fits.
            if nanoseconds.record_n(ns, count).is_err() {
                nanoseconds.saturating_record_n(ns, count);
            }
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&nanoseconds, &mut bytes)?;
        Ok(STANDARD.encode(bytes))
    }
}

/// Reads the stored form.
pub(crate) fn decode(text: &str) -> Result<LatencyHistogram, DecodeError> {
    let bytes = STANDARD.decode(text)?;
    if bytes.len() < 8 {
        return Err(DecodeError::Short("no header"));
    }
    if be_u32(&bytes[0..4]) != COOKIE_DEFLATED {
        return Err(DecodeError::Cookie);
    }
    if be_u32(&bytes[4..8]) as usize != bytes.len() - 8 {
        return Err(DecodeError::Short("its length is not the stated one"));
    }
    let mut plain = Vec::new();
    ZlibDecoder::new(&bytes[8..])
        .take(INFLATED_BYTES_MAX as u64 + 1)
        .read_to_end(&mut plain)?;
    if plain.len() > INFLATED_BYTES_MAX {
        return Err(DecodeError::Long);
    }
    decode_plain(&plain)
}

fn decode_plain(plain: &[u8]) -> Result<LatencyHistogram, DecodeError> {
    if plain.len() < HEADER_BYTES {
        return Err(DecodeError::Short("no inner header"));
    }
    let (header, payload) = plain.split_at(HEADER_BYTES);
    if be_u32(&header[0..4]) != COOKIE {
        return Err(DecodeError::Cookie);
    }
    if be_u32(&header[4..8]) as usize != payload.len() {
        return Err(DecodeError::Short("its counts are not as long as stated"));
    }
    if header[8..12] != 0u32.to_be_bytes() {
        return Err(DecodeError::Unsupported("a normalising offset"));
    }
    let digits = be_u32(&header[12..16]);
    if digits != u32::from(SIGNIFICANT_DIGITS) {
        return Err(DecodeError::Digits(digits));
    }
    if header[16..24] != 1u64.to_be_bytes() {
        return Err(DecodeError::Unsupported("another unit magnitude"));
    }
    // Big-endian: ordered as the numbers are.
    if header[24..32] > VALUE_US_MAX.to_be_bytes()[..] {
        return Err(DecodeError::Unsupported("values beyond 63 bits"));
    }
    if header[32..40] != 1f64.to_be_bytes() {
        return Err(DecodeError::Unsupported("a conversion ratio"));
    }
    if payload.windows(9).any(|bytes| bytes == LOWEST_NUMBER) {
        return Err(DecodeError::Gap);
    }
    let mut bytes = plain;
    let histogram: Histogram<u64> = HdrDeserializer::new().deserialize(&mut bytes)?;
    let counts = || histogram.iter_recorded().map(|bin| bin.count_at_value());
    counts()
        .try_fold(0u64, u64::checked_add)
        .ok_or(DecodeError::Sum)?;
    Ok(LatencyHistogram::from_counters(&histogram))
}

fn be_u32(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .take(4)
        .fold(0, |value, byte| value << 8 | u32::from(*byte))
}

impl Serialize for LatencyHistogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::Error;
        let text = encode(self).map_err(|error| S::Error::custom(format!("histogram: {error}")))?;
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for LatencyHistogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        decode(&text).map_err(|error| D::Error::custom(format!("bad histogram: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::histogram_of as of;
    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use proptest::prelude::*;
    use std::io::Write;

    /// The inner form, with a header that is right but for what is given.
    fn plain(stated_bytes: u32, digits: u32, high: u64, payload: &[u8]) -> Vec<u8> {
        let mut plain = COOKIE.to_be_bytes().to_vec();
        plain.extend(stated_bytes.to_be_bytes());
        plain.extend(0u32.to_be_bytes());
        plain.extend(digits.to_be_bytes());
        plain.extend(1u64.to_be_bytes());
        plain.extend(high.to_be_bytes());
        plain.extend(1f64.to_be_bytes());
        plain.extend(payload);
        plain
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            values in prop::collection::vec(any::<u64>(), 0..50),
            is_compact in any::<bool>(),
        ) {
            let mut histogram = of(&values);
            if is_compact {
                histogram.compact();
            }
            prop_assert_eq!(decode(&encode(&histogram).unwrap()).unwrap(), histogram);
        }

        #[test]
        fn damaged_histograms_are_errors_or_histograms(
            values in prop::collection::vec(any::<u64>(), 0..30),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        ) {
            let mut bytes = STANDARD.decode(encode(&of(&values)).unwrap()).unwrap();
            for (index, byte) in damage {
                let index = index.index(bytes.len());
                bytes[index] = byte;
            }
            // Whatever comes out: no panic, and nothing inconsistent.
            if let Ok(histogram) = decode(&STANDARD.encode(&bytes)) {
                prop_assert_eq!(histogram.iter().map(|(_, count)| count).sum::<u64>(), histogram.count());
            }
        }

        #[test]
        fn damaged_counts_are_errors_or_histograms(
            payload in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xff)], 0..64),
            high in any::<u64>(),
        ) {
            if let Ok(histogram) = decode_plain(&plain(payload.len() as u32, 3, high, &payload)) {
                prop_assert!(histogram.max_us() <= Some(VALUE_US_MAX));
                prop_assert_eq!(decode(&encode(&histogram).unwrap()).unwrap(), histogram);
            }
        }
    }

    #[test]
    fn nanoseconds_are_what_other_readers_expect() {
        let histogram = crate::histogram::histogram_of(&[1_500, 1_500, 70_000, 3_600_000_000]);
        let text = histogram.encode_ns().unwrap();
        let bytes = STANDARD.decode(text).unwrap();
        let theirs: Histogram<u64> = HdrDeserializer::new()
            .deserialize(&mut bytes.as_slice())
            .unwrap();
        assert_eq!((theirs.len(), theirs.count_at(1_500_000)), (4, 2));
        let hour_ns = 3_600_000_000_000u64;
        assert!(theirs.max().abs_diff(hour_ns) <= 2 * hour_ns / 1_000);
    }

    #[test]
    fn a_bomb_is_refused_before_it_is_inflated() {
        let mut deflate = ZlibEncoder::new(Vec::new(), Compression::best());
        for _ in 0..64 {
            deflate.write_all(&[0u8; 1 << 20]).unwrap();
        }
        let deflated = deflate.finish().unwrap();
        let mut bytes = COOKIE_DEFLATED.to_be_bytes().to_vec();
        bytes.extend((deflated.len() as u32).to_be_bytes());
        bytes.extend(deflated);
        let error = decode(&STANDARD.encode(bytes)).unwrap_err();
        assert!(matches!(error, DecodeError::Long), "{error}");
    }

    #[test]
    fn a_header_allocates_no_more_than_a_histogram_takes() {
        let error = decode_plain(&plain(u32::MAX, 3, 2, &[2])).unwrap_err();
        assert!(matches!(error, DecodeError::Short(_)), "{error}");

        let error = decode_plain(&plain(1, 3, u64::MAX, &[2])).unwrap_err();
        assert!(matches!(error, DecodeError::Unsupported(_)), "{error}");

        // 6.3 million counters for these 41 bytes, if they were left to the crate.
        let five_digits = plain(1, 5, u64::MAX, &[2]);
        let theirs: Histogram<u64> = HdrDeserializer::new()
            .deserialize(&mut five_digits.as_slice())
            .unwrap();
        assert!(theirs.distinct_values() * size_of::<u64>() >= 48 << 20);
        let error = decode_plain(&five_digits).unwrap_err();
        assert!(matches!(error, DecodeError::Digits(5)), "{error}");
    }

    #[test]
    fn the_lowest_number_is_refused_before_it_is_negated() {
        let damaged = plain(10, 3, 2, &[&LOWEST_NUMBER[..], &[2]].concat());
        let error = decode_plain(&damaged).unwrap_err();
        assert!(matches!(error, DecodeError::Gap), "{error}");
        if cfg!(debug_assertions) {
            let theirs = std::panic::catch_unwind(|| {
                HdrDeserializer::new().deserialize::<u64, _>(&mut damaged.as_slice())
            });
            assert!(theirs.is_err(), "the crate does without this check now");
        }
    }
}
