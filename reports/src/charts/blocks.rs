//! A number of every block at the moment it ran: a drift of the machine, a slow first
//! block or an unlucky order would be visible here.

use plotters::style::text_anchor::{HPos, VPos};
use unstall_results::record::RunRecord;

use super::axis::{Horizontal, Vertical};
use super::{Ink, Role, draw};
use crate::numbers::as_f64;

/// What is drawn of each block.
pub(crate) struct Subject<'s> {
    /// What a screen reader says instead of the chart.
    pub(crate) title: &'s str,
    /// Name of the vertical axis, with its unit.
    pub(crate) axis: &'s str,
    /// One per block, in run order.
    pub(crate) values: &'s [Option<f64>],
}

/// One mark.
struct Mark<'r> {
    index: usize,
    arm: &'r str,
    is_valid: bool,
    at_s: f64,
    value: f64,
}

/// Draws the blocks over the time of the measurement; `None` when fewer than two have a value.
pub(crate) fn render(record: &RunRecord, subject: &Subject<'_>) -> Option<String> {
    let blocks = &record.blocks;
    let start = blocks.iter().map(|block| block.started_mono_ns).min()?;
    let marks: Vec<Mark<'_>> = blocks
        .iter()
        .zip(subject.values)
        .enumerate()
        .filter_map(|(index, (block, value))| {
            Some(Mark {
                index,
                arm: &block.arm,
                is_valid: block.validity.ok,
                at_s: as_f64(block.started_mono_ns - start) / 1e9,
                value: (*value)?,
            })
        })
        .collect();
    if marks.len() < 2 {
        return None;
    }
    let values = || marks.iter().map(|mark| mark.value);
    let (y_min, y_max) = (
        values().fold(f64::INFINITY, f64::min),
        values().fold(0.0, f64::max),
    );
    let x_max = marks.iter().map(|mark| mark.at_s).fold(0.0, f64::max);
    let (vertical, horizontal) = (Vertical::fit(y_min, y_max), Horizontal::fit(x_max));
    Some(draw(subject.title, |canvas| {
        vertical.draw(canvas);
        horizontal.draw(canvas);
        canvas.axis_names(
            &vertical.name(subject.axis),
            "seconds since the first block",
        );
        for mark in &marks {
            let at = (horizontal.x(mark.at_s), vertical.y(mark.value));
            if mark.is_valid {
                let ink = Ink::of_row(Role::of_arm(mark.arm).0, mark.index);
                canvas.dot(ink, at, 8, mark.arm != "before");
            } else {
                let ink = Ink::of_row(Role::Spoilt, mark.index);
                canvas.text(ink, "✕", at, HPos::Center, VPos::Center);
            }
        }
    }))
}
