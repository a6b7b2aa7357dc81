//! Times by percentile, both arms in one chart.
//!
//! The horizontal axis is −log₁₀(1 − q), so that p90, p99 and p99.9 stand at
//! equal distances. A curve ends where fewer than five observations lie beyond:
//! what follows would be a story about single requests.

use plotters::style::text_anchor::{HPos, VPos};

use unstall_results::histogram::LatencyHistogram;

use super::axis::{self, Ratios, Vertical};
use super::{BOTTOM, Canvas, Ink, LEFT, RIGHT, Role, TOP, draw, pixel};
use crate::numbers::as_f64;
use crate::observed::{self, Times};

/// Percentiles that get a tick where a sample reaches them.
const TICKS: [(f64, &str); 5] = [
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

/// (−log₁₀(1 − q), value).
type Points = Vec<(f64, f64)>;

/// One arm of a chart.
pub(crate) struct Curve<'s> {
    /// Name of the arm.
    pub(crate) arm: &'s str,
    /// Its measurements.
    pub(crate) times: &'s Times<'s>,
}

/// How a chart is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// One faint curve per block.
    pub(crate) with_blocks: bool,
    /// Logarithmic milliseconds.
    pub(crate) logarithmic: bool,
}

/// Smallest median and largest drawn value in ms; `None` without enough measurements.
fn range(curves: &[Curve<'_>]) -> Option<(f64, f64)> {
    curves
        .iter()
        .filter_map(|curve| {
            let all = &curve.times.all;
            let end = all.quantile_us(observed::quantile_max(all.count())?)?;
            Some((
                as_f64(all.quantile_us(0.5)?) / 1_000.0,
                as_f64(end) / 1_000.0,
            ))
        })
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// Whether these curves lie too far apart for a linear axis.
pub(crate) fn needs_logarithm(curves: &[Curve<'_>]) -> bool {
    range(curves).is_some_and(|(median_min, max)| axis::needs_logarithm(median_min, max))
}

/// Draws the curves; `None` when no arm has enough measurements. `of` names what is counted.
pub(crate) fn render(title: &str, of: &str, curves: &[Curve<'_>], look: Look) -> Option<String> {
    let (median_min, y_max) = range(curves)?;
    let drawn: Vec<(usize, &Curve<'_>, Points)> = curves
        .iter()
        .enumerate()
        .filter_map(|(row, curve)| Some((row, curve, points(&curve.times.all, POINTS)?)))
        .collect();
    let x_max = drawn
        .iter()
        .filter_map(|(_, _, points)| points.last().map(|last| last.0))
        .reduce(f64::max)?;
    let vertical = Vertical::with_scale(median_min, y_max, look.logarithmic);
    let x = |at: f64| pixel(f64::from(LEFT) + at / x_max * f64::from(RIGHT - LEFT));
    Some(draw(title, |canvas| {
        vertical.draw(canvas);
        quantile_ticks(canvas, x_max, &x);
        canvas.axis_names(&vertical.name("ms"), &format!("percentile of {of}"));
        let pixels = |points: &[(f64, f64)]| -> Vec<(i32, i32)> {
            points
                .iter()
                .map(|(at, ms)| (x(*at), vertical.y(*ms)))
                .collect()
        };
        if look.with_blocks {
            for (_, curve, _) in &drawn {
                for block in &curve.times.per_block {
                    if let Some(points) = points(block, POINTS_OF_BLOCK) {
                        canvas.line(Role::of_arm(curve.arm).1, pixels(&points), 2);
                    }
                }
            }
        }
        for (row, curve, points) in &drawn {
            let ink = Ink::of_row(Role::of_arm(curve.arm).0, *row);
            canvas.line(ink, pixels(points), 5);
        }
    }))
}

/// Draws the second arm's times divided by the first one's, percentile by percentile, as far as
/// both samples reach; `None` when one has too few.
pub(crate) fn render_ratio(
    title: &str,
    of: &str,
    before: &LatencyHistogram,
    after: &LatencyHistogram,
) -> Option<String> {
    let ratios = ratios(before, after)?;
    let x_max = ratios.last()?.0;
    let values = || ratios.iter().map(|point| point.1);
    let vertical = Ratios::fit(values().fold(1.0, f64::min), values().fold(1.0, f64::max));
    let x = |at: f64| pixel(f64::from(LEFT) + at / x_max * f64::from(RIGHT - LEFT));
    Some(draw(title, |canvas| {
        vertical.draw(canvas);
        quantile_ticks(canvas, x_max, &x);
        canvas.axis_names("after ÷ before", &format!("percentile of {of}"));
        let points = ratios
            .iter()
            .map(|(at, ratio)| (x(*at), vertical.y(*ratio)))
            .collect();
        canvas.line(Role::Ratio, points, 5);
    }))
}

/// (−log₁₀(1 − q), after ÷ before); none where a time is 0, which no ratio can be taken of.
fn ratios(before: &LatencyHistogram, after: &LatencyHistogram) -> Option<Points> {
    let end = observed::quantile_max(before.count().min(after.count()))?;
    let x_max = -(1.0 - end).log10();
    let (before, after) = (
        points_to(before, x_max, POINTS)?,
        points_to(after, x_max, POINTS)?,
    );
    let ratios: Points = before
        .iter()
        .zip(&after)
        .filter(|((_, before_ms), (_, after_ms))| *before_ms > 0.0 && *after_ms > 0.0)
        .map(|((x, before_ms), (_, after_ms))| (*x, after_ms / before_ms))
        .collect();
    (ratios.len() > 1).then_some(ratios)
}

/// (−log₁₀(1 − q), ms) up to where the sample ends.
fn points(histogram: &LatencyHistogram, count: u32) -> Option<Points> {
    let x_max = -(1.0 - observed::quantile_max(histogram.count())?).log10();
    points_to(histogram, x_max, count)
}

/// The same up to `x_max`, which the sample must reach.
fn points_to(histogram: &LatencyHistogram, x_max: f64, count: u32) -> Option<Points> {
    let mut curve = histogram.curve();
    let (mut share, mut us) = curve.next()?;
    let mut points = Vec::with_capacity(count as usize + 1);
    for index in 0..=count {
        let x = x_max * f64::from(index) / f64::from(count);
        let quantile = 1.0 - 10_f64.powf(-x);
        while share < quantile {
            (share, us) = curve.next()?;
        }
        points.push((x, as_f64(us) / 1_000.0));
    }
    Some(points)
}

fn quantile_ticks(canvas: &Canvas<'_>, x_max: f64, x: &dyn Fn(f64) -> i32) {
    for (quantile, label) in TICKS {
        let at = -(1.0 - quantile).log10();
        // But for rounding, no tick stands where the sample doesn't reach.
        if at > x_max + 1e-9 {
            break;
        }
        let at = x(at);
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
