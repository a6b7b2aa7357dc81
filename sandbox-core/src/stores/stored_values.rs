//! How numbers and moments are kept: as signed integers of 64 bits, moments in microseconds since 1970.

use jiff::Timestamp;

use crate::domain::{FencingToken, Invalid};
use crate::ports::store::Precondition;

/// A number as a store keeps it.
///
/// # Errors
/// When it is above 2⁶³−1.
pub(super) fn stored_number(kind: &'static str, number: u64) -> Result<i64, Invalid> {
    i64::try_from(number).map_err(|_too_large| {
        Invalid::new(
            kind,
            &number.to_string(),
            "stores keep numbers up to 2^63-1; give a smaller one",
        )
    })
}

/// A token as a store keeps it, if there is one.
///
/// # Errors
/// When its number is too large.
pub(super) fn stored_token(token: Option<FencingToken>) -> Result<Option<i64>, Invalid> {
    let number = token.map(|token| stored_number("fencing token", token.get()));
    number.transpose()
}

/// A kept number that can't be negative.
pub(super) fn read_number(kind: &'static str, stored: i64) -> Result<u64, Invalid> {
    u64::try_from(stored)
        .map_err(|_negative| Invalid::new(kind, &stored.to_string(), "it must not be negative"))
}

/// A moment as a store keeps it: without what is finer than a microsecond.
pub(super) fn stored_moment(moment: Timestamp) -> i64 {
    moment.as_microsecond()
}

/// A kept moment.
pub(super) fn read_moment(stored_us: i64) -> Result<Timestamp, Invalid> {
    Timestamp::from_microsecond(stored_us).map_err(|_beyond| {
        Invalid::new(
            "moment",
            &stored_us.to_string(),
            "it must be in the years -9999 to 9999, in microseconds since 1970",
        )
    })
}

/// A [`Precondition`] in numbers that a store compares with its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredPrecondition {
    pub(super) version: i64,
    pub(super) token: i64,
    pub(super) unused_since_us: Option<i64>,
}

impl TryFrom<&Precondition> for StoredPrecondition {
    type Error = Invalid;

    fn try_from(when: &Precondition) -> Result<Self, Invalid> {
        Ok(Self {
            version: stored_number("version", when.version)?,
            token: stored_number("fencing token", when.token.get())?,
            unused_since_us: when.unused_since.map(stored_moment),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_moments_are_read_back_or_refused() {
        for number in [0, 1, i64::MAX.unsigned_abs()] {
            let stored = stored_number("version", number).expect("it fits");
            assert_eq!(read_number("version", stored), Ok(number));
        }
        assert!(stored_number("version", i64::MAX.unsigned_abs() + 1).is_err());
        assert!(read_number("version", -1).is_err());
        for moment in [Timestamp::MIN, Timestamp::UNIX_EPOCH] {
            assert_eq!(read_moment(stored_moment(moment)), Ok(moment));
        }
        assert!(read_moment(i64::MAX).is_err());
    }
}
