//! Every block at the moment it ran: a drift of the machine, a slow first
//! block or an unlucky order would be visible here.

use plotters::style::text_anchor::{HPos, VPos};
use unstall_results::record::RunRecord;

use super::axis::{Horizontal, Vertical};
use super::{Role, draw};
use crate::numbers::as_f64;

/// Draws each block's median response time (`medians_us`, in run order) over the
/// time of the measurement;
/// `None` when fewer than two blocks have any.
pub(crate) fn render(
    title: &str,
    record: &RunRecord,
    medians_us: &[Option<u64>],
) -> Option<String> {
    let start = record
        .blocks
        .iter()
        .map(|block| block.started_mono_ns)
        .min()?;
    let points: Vec<(&str, bool, f64, f64)> = record
        .blocks
        .iter()
        .zip(medians_us)
        .filter_map(|(block, median_us)| {
            let at_s = as_f64(block.started_mono_ns - start) / 1e9;
            let median_ms = as_f64((*median_us)?) / 1_000.0;
            Some((block.arm.as_str(), block.validity.ok, at_s, median_ms))
        })
        .collect();
    if points.len() < 2 {
        return None;
    }
    let y_max = points.iter().map(|point| point.3).fold(0.0, f64::max);
    let y_min = points
        .iter()
        .map(|point| point.3)
        .fold(f64::INFINITY, f64::min);
    let x_max = points.iter().map(|point| point.2).fold(0.0, f64::max);
    let (vertical, horizontal) = (Vertical::fit(y_min, y_max), Horizontal::fit(x_max));
    Some(draw(title, |canvas| {
        vertical.draw(canvas);
        horizontal.draw(canvas);
        canvas.axis_names(
            &vertical.name("median, ms"),
            "seconds since the first block",
        );
        for (arm, valid, at_s, median_ms) in &points {
            let at = (horizontal.x(*at_s), vertical.y(*median_ms));
            if *valid {
                canvas.dot(Role::of_arm(arm).0, at, 8, *arm != "before");
            } else {
                canvas.text(Role::Spoilt, "✕", at, HPos::Center, VPos::Center);
            }
        }
    }))
}
