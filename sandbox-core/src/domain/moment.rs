//! How finely stores keep time, so that what is read back is what was written.

use jiff::Timestamp;

/// The moment without what is finer than a microsecond, which PostgreSQL doesn't keep.
#[must_use]
pub fn to_the_microsecond(moment: Timestamp) -> Timestamp {
    // What was a moment is one without its last digits, too.
    Timestamp::from_microsecond(moment.as_microsecond()).unwrap_or(moment)
}
