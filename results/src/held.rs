//! Whether both versions were measured beside as many held streams.
//!
//! Where a scenario holds streams open beside its load, they are what a version has to bear. One
//! that loses them has less to do and looks faster, so what was measured then may show harm, and not
//! that there is none.

use crate::record::Block;
use crate::validate::saturating_sum;
use crate::wording;

/// Streams that may be missing, as a share: so few explain no percentile.
const MISSING_MAX: f64 = 0.01;

/// That the second version held fewer streams than the first, if it did.
pub(crate) fn fewer_after(before: &[&Block], after: &[&Block]) -> Option<String> {
    let (before, _) = per_block(before)?;
    let (after, users) = per_block(after)?;
    (after < before * (1.0 - MISSING_MAX)).then(|| {
        let [after, before, users] =
            [after, before, users].map(|streams| wording::count(streams.round() as u64));
        format!(
            "The after version held {after} of {users} streams open, the before version {before}: it \
             was measured beside less."
        )
    })
}

/// Streams that were open all the time, and those that were to be, on average of a version's
/// blocks; `None` where no block was to hold any.
fn per_block(blocks: &[&Block]) -> Option<(f64, f64)> {
    let background = || blocks.iter().filter_map(|block| block.background.as_ref());
    let count = background().count() as f64;
    let held = background().map(|of| u64::from(of.open_at_begin.min(of.open_at_end)));
    let users = background().map(|of| u64::from(of.users));
    let mean = |sum: u64| sum as f64 / count;
    (count > 0.0).then(|| (mean(saturating_sum(held)), mean(saturating_sum(users))))
}
