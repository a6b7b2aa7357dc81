//! The clock by which leases end, read in one place: the keeper of a lock and the supervisor of a
//! command that runs under it go by the same moments.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since this machine was started, by Linux' `CLOCK_BOOTTIME` (clock_gettime(2)), which all of its
/// processes share.
pub(crate) fn boot_time() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    // Both are never negative, and the second is below a billion.
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanoseconds)
}
