//! Response time by percentile, both arms in one chart.
//!
//! The horizontal axis is −log₁₀(1 − q), so that p90, p99 and p99.9 stand at
//! equal distances. A curve ends where fewer than five observations lie beyond:
//! what follows would be a story about single requests.

use plotters::style::text_anchor::{HPos, VPos};

use super::axis::Vertical;
use super::{BOTTOM, Canvas, LEFT, RIGHT, Role, TOP, draw, pixel};
use crate::numbers::as_f64;
use crate::observed::{self, Samples};

/// Percentiles that get a tick where a sample reaches them.
const TICKS: [(f64, &str); 6] = [
    (0.0, "p0"),
    (0.5, "p50"),
    (0.9, "p90"),
    (0.99, "p99"),
    (0.999, "p99.9"),
    (0.9999, "p99.99"),
];
/// Points per curve; enough for a smooth line at this size.
const POINTS: u32 = 72;
/// Points per faint curve of one block.
const POINTS_OF_BLOCK: u32 = 28;

/// One arm of a chart.
pub(crate) struct Curve<'s> {
    /// Name of the arm.
    pub(crate) arm: &'s str,
    /// Its measurements.
    pub(crate) samples: &'s Samples,
}

/// Draws the curves; `None` when no arm has enough measurements.
/// `with_blocks` adds one faint curve per block.
pub(crate) fn render(title: &str, curves: &[Curve<'_>], with_blocks: bool) -> Option<String> {
    let drawn: Vec<(&Curve<'_>, Vec<(f64, f64)>)> = curves
        .iter()
        .filter_map(|curve| {
            let points = points(curve.samples.response.as_ref()?, POINTS)?;
            Some((curve, points))
        })
        .collect();
    let last = |points: &Vec<(f64, f64)>| points.last().copied().unwrap_or_default();
    let x_max = drawn
        .iter()
        .map(|(_, points)| last(points).0)
        .reduce(f64::max)?;
    let y_max = drawn
        .iter()
        .map(|(_, points)| last(points).1)
        .fold(0.0, f64::max);
    let typical_min = drawn
        .iter()
        .filter_map(|(curve, _)| observed::quantile_us(curve.samples.response.as_ref()?, 0.5))
        .map(|us| as_f64(us) / 1_000.0)
        .fold(f64::INFINITY, f64::min);
    let vertical = Vertical::fit(typical_min, y_max);
    let x = |at: f64| pixel(f64::from(LEFT) + at / x_max * f64::from(RIGHT - LEFT));
    Some(draw(title, |canvas| {
        vertical.draw(canvas);
        quantile_ticks(canvas, x_max, &x);
        canvas.axis_names(&vertical.name("ms"), "percentile of requests");
        let pixels = |points: &[(f64, f64)]| -> Vec<(i32, i32)> {
            points
                .iter()
                .map(|(at, ms)| (x(*at), vertical.y(*ms)))
                .collect()
        };
        if with_blocks {
            for (curve, _) in &drawn {
                for block in &curve.samples.per_block {
                    if let Some(points) = points(block, POINTS_OF_BLOCK) {
                        canvas.line(Role::of_arm(curve.arm).1, pixels(&points), 2);
                    }
                }
            }
        }
        for (curve, points) in &drawn {
            canvas.line(Role::of_arm(curve.arm).0, pixels(points), 5);
        }
    }))
}

/// (−log₁₀(1 − q), ms) up to where the sample ends.
fn points(histogram: &hdrhistogram::Histogram<u64>, count: u32) -> Option<Vec<(f64, f64)>> {
    let x_max = -(1.0 - observed::quantile_max(histogram.len())?).log10();
    Some(
        (0..=count)
            .map(|index| {
                let x = x_max * f64::from(index) / f64::from(count);
                let us = histogram.value_at_quantile(1.0 - 10_f64.powf(-x));
                (x, as_f64(us.min(histogram.max())) / 1_000.0)
            })
            .collect(),
    )
}

fn quantile_ticks(canvas: &Canvas<'_>, x_max: f64, x: &dyn Fn(f64) -> i32) {
    for (quantile, label) in TICKS {
        let at = -(1.0 - quantile).log10();
        if at > x_max * 1.001 {
            break;
        }
        let at = x(at.abs());
        canvas.line(Role::Grid, vec![(at, TOP), (at, BOTTOM)], 1);
        canvas.text(
            Role::Label,
            label,
            (at, BOTTOM + 10),
            HPos::Center,
            VPos::Top,
        );
    }
}
