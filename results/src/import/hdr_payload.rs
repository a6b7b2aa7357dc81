//! HdrHistogram's V2 encoding as any library writes it: any number of digits, any lowest value,
//! deflated or not.
//!
//! Bins are walked as they are read, so that a file can't ask for memory: what a header states is
//! used for arithmetic only. Records use the stricter reader of `hdr_wire.rs`.

use std::io::{BufReader, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;

const COOKIE: u32 = 0x1c84_9303;
const COOKIE_DEFLATED: u32 = 0x1c84_9304;
/// The word size, which says nothing in V2.
const WORD_SIZE: u32 = 0xf0;
/// Versions 0 and 1, plain and deflated.
const OLD_COOKIES: [u32; 4] = [0x1c84_9301, 0x1c84_9302, 0x1c84_9308, 0x1c84_9309];

/// All bins of five digits and 63 bits, at nine bytes each: no honest one is longer.
const PAYLOAD_BYTES_MAX: u32 = 9 * (48 << 17);

/// One bin in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bin {
    /// The value in its middle: what was recorded is at most half its width away.
    pub(super) middle: u64,
    /// Values in it.
    pub(super) count: u64,
}

/// Why an encoded histogram can't be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum PayloadError {
    #[error("not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    #[error("cut short or not deflated: {0}")]
    Read(#[from] std::io::Error),
    #[error("of an older encoding than V2")]
    Old,
    #[error("no histogram in HdrHistogram's V2 encoding")]
    Cookie,
    #[error("{0}, which no such histogram has")]
    Header(String),
    #[error("its counts are damaged: {0}")]
    Counts(&'static str),
}

/// The bins in use, ascending.
pub(super) fn decode(text: &str) -> Result<Vec<Bin>, PayloadError> {
    let bytes = STANDARD.decode(text)?;
    let mut outer = bytes.as_slice();
    match be_u32(&mut outer)? & !WORD_SIZE {
        COOKIE => bins(bytes.as_slice()),
        COOKIE_DEFLATED => {
            let length = be_u32(&mut outer)?;
            if length as usize != outer.len() {
                let stated = format!("{length} bytes stated and {} there", outer.len());
                return Err(PayloadError::Header(stated));
            }
            bins(BufReader::new(ZlibDecoder::new(outer)))
        }
        other if OLD_COOKIES.contains(&other) => Err(PayloadError::Old),
        _ => Err(PayloadError::Cookie),
    }
}

/// How values are cut into bins.
struct Layout {
    sub_bucket_half_bits: u32,
    unit_bits: u32,
}

impl Layout {
    fn new(digits: u32, lowest: u64) -> Result<Self, PayloadError> {
        if digits > 5 {
            return Err(PayloadError::Header(format!("{digits} digits")));
        }
        if lowest == 0 || lowest > 1 << 62 {
            return Err(PayloadError::Header(format!("{lowest} as lowest value")));
        }
        let exact_until = 2 * 10u64.pow(digits);
        let sub_bucket_bits = u64::BITS - (exact_until - 1).leading_zeros();
        Ok(Self {
            sub_bucket_half_bits: sub_bucket_bits.max(1) - 1,
            unit_bits: lowest.ilog2(),
        })
    }

    /// The middle of a bin; `None` beyond 63 bits.
    fn middle(&self, index: u64) -> Option<u64> {
        let half = 1u64 << self.sub_bucket_half_bits;
        let bucket = index >> self.sub_bucket_half_bits;
        let (bucket, sub_bucket) = match bucket {
            0 => (0, index),
            _ => (bucket - 1, (index & (half - 1)) + half),
        };
        let shift = u32::try_from(bucket).ok()?.checked_add(self.unit_bits)?;
        let start = sub_bucket.checked_shl(shift)?;
        if start >> shift != sub_bucket || start > i64::MAX as u64 {
            return None;
        }
        Some(start + (1u64.checked_shl(shift)? >> 1))
    }
}

fn bins(mut input: impl Read) -> Result<Vec<Bin>, PayloadError> {
    if be_u32(&mut input)? & !WORD_SIZE != COOKIE {
        return Err(PayloadError::Cookie);
    }
    let length = be_u32(&mut input)?;
    if length > PAYLOAD_BYTES_MAX {
        return Err(PayloadError::Header(format!("{length} bytes of counts")));
    }
    let offset = be_u32(&mut input)?;
    let digits = be_u32(&mut input)?;
    let lowest = be_u64(&mut input)?;
    let _highest = be_u64(&mut input)?;
    let ratio_bits = be_u64(&mut input)?;
    // The JavaScript library writes two whole ones where others write no offset and a ratio of 1.0,
    // and means the same.
    let is_javascript = (offset, ratio_bits) == (1, 1);
    if !is_javascript && (offset, ratio_bits) != (0, 1f64.to_bits()) {
        let ratio = f64::from_bits(ratio_bits);
        let stated = format!("a normalising offset of {offset} and a conversion ratio of {ratio}");
        return Err(PayloadError::Header(stated));
    }
    let layout = Layout::new(digits, lowest)?;
    let mut payload = input.take(u64::from(length));
    let mut found = Vec::new();
    let mut index = 0u64;
    while let Some(number) = zigzag(&mut payload)? {
        // A negative number is a run of empty bins.
        let (skipped, count) = match u64::try_from(number) {
            Ok(count) => (1, count),
            Err(_) => (number.unsigned_abs(), 0),
        };
        if count > 0 {
            let middle = layout.middle(index);
            let middle = middle.ok_or(PayloadError::Counts("a value beyond 63 bits"))?;
            found.push(Bin { middle, count });
        }
        index = index
            .checked_add(skipped)
            .ok_or(PayloadError::Counts("a gap beyond the last bin"))?;
    }
    if payload.limit() > 0 {
        return Err(PayloadError::Counts("fewer than stated"));
    }
    Ok(found)
}

/// LEB128 of at most nine bytes, the last one whole, and zigzag; `None` at the end.
fn zigzag(input: &mut impl Read) -> Result<Option<i64>, PayloadError> {
    let mut value = 0u64;
    for place in 0..9 {
        let mut byte = [0u8];
        if input.read(&mut byte)? == 0 {
            return match place {
                0 => Ok(None),
                _ => Err(PayloadError::Counts("the last number is cut short")),
            };
        }
        let byte = u64::from(byte[0]);
        if place == 8 {
            value |= byte << 56;
            break;
        }
        value |= (byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Ok(Some(
        (value >> 1).cast_signed() ^ -(value & 1).cast_signed(),
    ))
}

fn be_u32(input: &mut impl Read) -> Result<u32, PayloadError> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

fn be_u64(input: &mut impl Read) -> Result<u64, PayloadError> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer, V2Serializer};
    use proptest::prelude::*;

    fn encoded(histogram: &Histogram<u64>, is_deflated: bool) -> String {
        let mut bytes = Vec::new();
        if is_deflated {
            let mut serializer = V2DeflateSerializer::new();
            serializer.serialize(histogram, &mut bytes).unwrap();
        } else {
            V2Serializer::new()
                .serialize(histogram, &mut bytes)
                .unwrap();
        }
        STANDARD.encode(bytes)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Held against the crate that writes it.
        #[test]
        fn bins_are_the_crates(
            digits in 0u8..=5,
            lowest in 1u64..5_000,
            values in prop::collection::vec((0u64..1 << 45, 1u64..1 << 40), 0..30),
            is_deflated: bool,
        ) {
            let mut histogram =
                Histogram::<u64>::new_with_bounds(lowest, 1 << 46, digits).unwrap();
            for (value, count) in &values {
                histogram.record_n(*value, *count).unwrap();
            }
            let bins = decode(&encoded(&histogram, is_deflated)).unwrap();
            let expected: Vec<(u64, u64)> = histogram
                .iter_recorded()
                .map(|bin| (bin.value_iterated_to(), bin.count_at_value()))
                .collect();
            let found: Vec<(u64, u64)> = bins
                .iter()
                .map(|bin| (histogram.highest_equivalent(bin.middle), bin.count))
                .collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn nothing_panics(
            header in prop::collection::vec(any::<u8>(), 0..40),
            payload in prop::collection::vec(any::<u8>(), 0..80),
            cookie in prop::sample::select(vec![0x1c84_9313u32, 0x1c84_9314, 0x1c84_9301, 0]),
        ) {
            let mut bytes = cookie.to_be_bytes().to_vec();
            bytes.extend(header);
            bytes.extend(payload);
            // Whether it is one or not, reading it ends.
            let _ = decode(&STANDARD.encode(bytes));
        }
    }

    #[test]
    fn what_states_much_takes_little() {
        let mut plain = 0x1c84_9313u32.to_be_bytes().to_vec();
        // Nine bytes: a run of 2⁶² empty bins, then one in use.
        let payload = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 2];
        plain.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
        plain.extend([0u8; 4]);
        plain.extend(5u32.to_be_bytes());
        plain.extend(1u64.to_be_bytes());
        plain.extend(u64::MAX.to_be_bytes());
        plain.extend(1f64.to_be_bytes());
        plain.extend(payload);
        let error = decode(&STANDARD.encode(plain)).unwrap_err();
        assert!(matches!(error, PayloadError::Counts(_)), "{error}");
    }
}
