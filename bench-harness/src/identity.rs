//! What tells one session from another: its time of day, its id, its seed. Durations come
//! from the monotonic clock instead.

use std::hash::{BuildHasher, Hasher, RandomState};

use jiff::Timestamp;

/// Now, RFC 3339, UTC, whole seconds.
pub(crate) fn utc_now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// An id that sorts by time and is not given twice, also not to two runs of one second.
pub(crate) fn new_id() -> String {
    let stamp = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    format!("{stamp}-{:08x}", arbitrary())
}

/// The seed given, or an arbitrary one that a JSON reader of any language keeps exact.
pub(crate) fn seed(given: Option<u64>) -> u64 {
    given.unwrap_or_else(|| arbitrary().into())
}

/// The standard library seeds its hash maps from the system's randomness: enough to differ.
fn arbitrary() -> u32 {
    let [a, b, c, d, ..] = RandomState::new().build_hasher().finish().to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_within_a_second() {
        assert_ne!(new_id(), new_id());
        assert_eq!(seed(Some(7)), 7);
    }
}
