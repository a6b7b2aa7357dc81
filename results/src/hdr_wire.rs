//! How a histogram is stored: HdrHistogram's V2 encoding, deflated, base64.
//!
//! Other tools read this form, so it is kept to the letter (a test holds it
//! against the HdrHistogram crate). It is decoded here because a record may
//! come from anywhere: lengths are checked before anything is allocated, and a
//! damaged histogram is an error, never a panic.

use std::cell::RefCell;
use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::histogram::{LatencyHistogram, VALUE_US_MAX, bin_of, highest_in};

const COOKIE: u32 = 0x1c84_9313;
const COOKIE_DEFLATED: u32 = 0x1c84_9314;
const HEADER_BYTES: usize = 40;
const DIGITS: u32 = 3;
/// All bins of a 63-bit histogram at 9 bytes each: no honest payload is longer.
const INFLATED_BYTES_MAX: usize = 9 * 57_344 + HEADER_BYTES;

thread_local! {
    /// A compressor is several hundred KB to set up, and a record holds thousands of histograms.
    static DEFLATE: RefCell<ZlibEncoder<Vec<u8>>> =
        RefCell::new(ZlibEncoder::new(Vec::new(), Compression::fast()));
}

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
    Counts(&'static str),
}

/// The stored form of a histogram.
pub(crate) fn encode(histogram: &LatencyHistogram) -> std::io::Result<String> {
    let bins = histogram.list();
    let mut payload = Vec::with_capacity(bins.len() * 3);
    let mut next = 0;
    for (bin, count) in bins.iter() {
        if *bin > next {
            push_varint(&mut payload, zigzag(-i64::from(*bin - next)));
        }
        // Counts are signed in this encoding.
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        push_varint(&mut payload, zigzag(count));
        next = *bin + 1;
    }
    // HdrHistogram writes at least the first counter.
    if payload.is_empty() {
        payload.push(0);
    }
    let high = bins
        .last()
        .map_or(2, |(bin, _)| highest_in(*bin))
        .clamp(2, VALUE_US_MAX);
    let mut plain = Vec::with_capacity(HEADER_BYTES + payload.len());
    plain.extend(COOKIE.to_be_bytes());
    plain.extend((payload.len() as u32).to_be_bytes());
    plain.extend(0u32.to_be_bytes());
    plain.extend(DIGITS.to_be_bytes());
    plain.extend(1u64.to_be_bytes());
    plain.extend(high.to_be_bytes());
    plain.extend(1f64.to_be_bytes());
    plain.extend(payload);
    let deflated = DEFLATE.with_borrow_mut(|deflate| {
        deflate.write_all(&plain)?;
        deflate.reset(Vec::new())
    })?;
    let mut bytes = Vec::with_capacity(8 + deflated.len());
    bytes.extend(COOKIE_DEFLATED.to_be_bytes());
    bytes.extend((deflated.len() as u32).to_be_bytes());
    bytes.extend(deflated);
    Ok(STANDARD.encode(bytes))
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
    if digits != DIGITS {
        return Err(DecodeError::Digits(digits));
    }
    // With the lowest value at 1 or 2 the bins are those of this crate.
    if header[16..24] != 1u64.to_be_bytes() {
        return Err(DecodeError::Unsupported("another unit magnitude"));
    }
    if header[32..40] != 1f64.to_be_bytes() {
        return Err(DecodeError::Unsupported("a conversion ratio"));
    }
    decode_counts(payload)
}

fn decode_counts(payload: &[u8]) -> Result<LatencyHistogram, DecodeError> {
    let bins_max = u64::from(bin_of(VALUE_US_MAX)) + 1;
    let mut bins = Vec::new();
    let mut total = 0u64;
    let mut bin = 0u64;
    let mut rest = payload;
    while !rest.is_empty() {
        let number = unzigzag(take_varint(&mut rest)?);
        if number > 0 {
            if bin >= bins_max {
                return Err(DecodeError::Counts("more bins than values have"));
            }
            total = total
                .checked_add(number.unsigned_abs())
                .ok_or(DecodeError::Counts("their sum is beyond 64 bits"))?;
            // Fits: just compared with the number of bins.
            bins.push((bin as u32, number.unsigned_abs()));
        }
        let step = if number < 0 { number.unsigned_abs() } else { 1 };
        bin = bin
            .checked_add(step)
            .filter(|next| *next <= bins_max.saturating_mul(2))
            .ok_or(DecodeError::Counts("a gap beyond the last bin"))?;
    }
    Ok(LatencyHistogram::from_bins(bins))
}

fn be_u32(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .take(4)
        .fold(0, |value, byte| value << 8 | u32::from(*byte))
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// LEB128 in at most 9 bytes, the last of which is taken whole.
fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    for _ in 0..8 {
        if number < 0x80 {
            bytes.push(number as u8);
            return;
        }
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_varint(rest: &mut &[u8]) -> Result<u64, DecodeError> {
    let mut number = 0u64;
    for position in 0..9 {
        let (byte, tail) = rest
            .split_first()
            .ok_or(DecodeError::Short("it ends within a number"))?;
        *rest = tail;
        if position == 8 {
            return Ok(number | u64::from(*byte) << 56);
        }
        number |= u64::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Ok(number)
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
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Deserializer as Theirs, Serializer as _};
    use proptest::prelude::*;

    fn ours(values: &[u64]) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::new();
        for value in values {
            histogram.record_us(*value);
        }
        histogram
    }

    proptest! {
        #[test]
        fn other_tools_read_what_is_written(values in prop::collection::vec(0..=VALUE_US_MAX, 0..50)) {
            let bytes = STANDARD.decode(encode(&ours(&values)).unwrap()).unwrap();
            let theirs: Histogram<u64> = Theirs::new().deserialize(&mut bytes.as_slice()).unwrap();
            prop_assert_eq!(theirs.len(), values.len() as u64);
            for q in [0.0, 0.5, 0.95, 1.0] {
                if let Some(value) = ours(&values).quantile_us(q) {
                    prop_assert_eq!(bin_of(theirs.value_at_quantile(q).min(VALUE_US_MAX)), bin_of(value));
                }
            }
        }

        #[test]
        fn what_other_tools_write_is_read(values in prop::collection::vec(0..3_600_000_000u64, 0..50)) {
            let mut theirs = Histogram::<u64>::new(3).unwrap();
            theirs.auto(true);
            for value in &values {
                theirs.record(*value).unwrap();
            }
            let mut bytes = Vec::new();
            hdrhistogram::serialization::V2DeflateSerializer::new()
                .serialize(&theirs, &mut bytes)
                .unwrap();
            prop_assert_eq!(decode(&STANDARD.encode(bytes)).unwrap(), ours(&values));
        }

        #[test]
        fn damaged_histograms_are_errors_or_histograms(
            values in prop::collection::vec(any::<u64>(), 0..30),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        ) {
            let mut bytes = STANDARD.decode(encode(&ours(&values)).unwrap()).unwrap();
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
        fn damaged_counts_are_errors_or_histograms(payload in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(histogram) = decode_counts(&payload) {
                prop_assert_eq!(decode(&encode(&histogram).unwrap()).unwrap(), histogram);
            }
        }
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
    fn a_stated_length_allocates_nothing() {
        let mut plain = COOKIE.to_be_bytes().to_vec();
        plain.extend(u32::MAX.to_be_bytes());
        plain.extend([0; 32]);
        let error = decode_plain(&plain).unwrap_err();
        assert!(matches!(error, DecodeError::Short(_)), "{error}");
    }
}
