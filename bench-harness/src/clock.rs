//! Time of day, for names and labels only: durations come from the monotonic clock.

use jiff::Timestamp;

/// Now, RFC 3339, UTC, whole seconds.
pub(crate) fn utc_now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// An id that sorts by time and is not given twice, also not to two runs of one second.
pub(crate) fn new_id() -> String {
    let stamp = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    format!("{stamp}-{:08x}", rand::random::<u32>())
}
