//! The small interval bar in each row of the cells table.
//!
//! Ratios share one scale: logarithmic, and stretched around "no change" so that
//! 5 % is visible beside a factor of ten. Differences are drawn against the
//! largest of their metric.

use std::fmt::Write as _;

use unstall_results::comparison::{Change, Comparison, Metric, Scale};

/// Half of the drawing's width, in its own units.
const HALF: f64 = 60.0;
/// Ratios beyond this factor stand at the edge.
const FACTOR_MAX: f64 = 12.0;
/// Where the stretching turns from linear to logarithmic.
const KNEE: f64 = 0.05;
/// Ratios that get a labelled tick in the heading.
const TICKS: [(f64, &str); 3] = [(0.1, "÷10"), (1.0, "="), (10.0, "×10")];

/// The largest difference per metric, which sets that metric's scale.
pub(super) fn extents(comparison: &Comparison) -> Vec<(Metric, f64)> {
    let mut extents: Vec<(Metric, f64)> = Vec::new();
    for cell in &comparison.cells {
        let Some(change) = cell
            .change
            .as_ref()
            .filter(|c| c.scale == Scale::Difference)
        else {
            continue;
        };
        let size = change
            .low
            .abs()
            .max(change.high.abs())
            .max(change.estimate.abs());
        match extents
            .iter_mut()
            .find(|(metric, _)| *metric == cell.metric)
        {
            Some((_, extent)) => *extent = extent.max(size),
            None => extents.push((cell.metric, size)),
        }
    }
    extents
}

/// One bar: interval, estimate, and the zero line as background of its cell.
pub(super) fn bar(metric: Metric, change: &Change, extents: &[(Metric, f64)]) -> String {
    let extent = extents
        .iter()
        .find(|(other, _)| *other == metric)
        .map_or(1.0, |(_, extent)| *extent);
    let x = |number: f64| HALF + HALF * 0.96 * position(change.scale, number, extent);
    let (low, high, estimate) = (x(change.low), x(change.high), x(change.estimate));
    format!(
        "<svg class=\"fp\" viewBox=\"0 0 120 12\" aria-hidden=\"true\">\
         <path d=\"M{low:.1} 6H{high:.1}\"/><circle cx=\"{estimate:.1}\" cy=\"6\" r=\"3\"/></svg>"
    )
}

/// The heading: a scale for the ratios.
pub(super) fn heading() -> String {
    let mut out = String::from(
        "<svg class=\"fp axis\" viewBox=\"0 0 120 12\" role=\"img\" aria-label=\"lower on the left, higher on the right\">",
    );
    for (ratio, label) in TICKS {
        let x = HALF + HALF * 0.96 * position(Scale::Ratio, ratio, 1.0);
        write!(out, "<text x=\"{x:.0}\" y=\"9\">{label}</text>")
            .expect("writing to a String cannot fail");
    }
    out.push_str("</svg>");
    out
}

/// −1 … 1.
fn position(scale: Scale, number: f64, extent: f64) -> f64 {
    let share = match scale {
        Scale::Ratio if number > 0.0 => {
            (number.ln() / KNEE).asinh() / (FACTOR_MAX.ln() / KNEE).asinh()
        }
        Scale::Ratio => -1.0,
        Scale::Difference if extent > 0.0 => number / extent,
        Scale::Difference => 0.0,
    };
    if share.is_nan() {
        0.0
    } else {
        share.clamp(-1.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_change_is_the_middle_and_the_scale_is_symmetric() {
        assert!(position(Scale::Ratio, 1.0, 1.0).abs() < 1e-12);
        let up = position(Scale::Ratio, 2.0, 1.0);
        let down = position(Scale::Ratio, 0.5, 1.0);
        assert!((up + down).abs() < 1e-12);
        // 5 % is a visible step: more than a tenth of the half.
        assert!(position(Scale::Ratio, 1.05, 1.0) > 0.1);
        assert!((position(Scale::Ratio, 1e9, 1.0) - 1.0).abs() < 1e-12);
        assert!((position(Scale::Ratio, 0.0, 1.0) + 1.0).abs() < 1e-12);
        assert!(position(Scale::Difference, 3.0, 0.0).abs() < 1e-12);
        assert!(position(Scale::Ratio, f64::NAN, 1.0) >= -1.0);
    }
}
