//! Scales and ticks of the charts' axes.

use plotters::style::text_anchor::{HPos, VPos};

use super::{BOTTOM, Canvas, FONT, LEFT, RIGHT, Role, TOP, pixel};
use crate::numbers;

/// Beyond this ratio a linear axis would press the smaller arm onto its floor.
const LINEAR_RATIO_MAX: f64 = 40.0;

/// The vertical axis: milliseconds, linear from zero or logarithmic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Vertical {
    low: f64,
    high: f64,
    /// Between two ticks of a linear axis.
    step: f64,
    logarithmic: bool,
}

impl Vertical {
    /// Fits values; logarithmic only when they lie too far apart for one linear axis.
    /// `typical_min` is the smallest value that must stay readable.
    pub(super) fn fit(typical_min: f64, max: f64) -> Self {
        Self::with_scale(typical_min, max, needs_logarithm(typical_min, max))
    }

    /// The same with the scale given, for charts that are read beside each other.
    pub(super) fn with_scale(typical_min: f64, max: f64, logarithmic: bool) -> Self {
        let max = if max > 0.0 { max } else { 1.0 };
        if logarithmic && typical_min > 0.0 {
            return Self {
                low: typical_min.min(max) * 0.5,
                high: max * 1.2,
                step: 0.0,
                logarithmic: true,
            };
        }
        let step = nice_step(max / 5.0);
        Self {
            low: 0.0,
            high: (max * 1.02 / step).ceil() * step,
            step,
            logarithmic: false,
        }
    }

    /// Name of the axis for a unit.
    pub(super) fn name(self, unit: &str) -> String {
        if self.logarithmic {
            format!("{unit}, logarithmic")
        } else {
            unit.to_owned()
        }
    }

    pub(super) fn y(self, value: f64) -> i32 {
        let share = if self.logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            value / self.high
        };
        pixel(f64::from(BOTTOM) - share.clamp(0.0, 1.0) * f64::from(BOTTOM - TOP))
    }

    fn ticks(self) -> Vec<f64> {
        if !self.logarithmic {
            return (0_u32..12)
                .map(|index| f64::from(index) * self.step)
                .take_while(|tick| *tick <= self.high * 1.001)
                .collect();
        }
        let decades = (self.high / self.low).log10();
        let steps: &[f64] = if decades > 2.5 {
            &[1.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        (-4_i32..8)
            .flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)))
            .filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }

    /// Draws grid lines and their labels.
    pub(super) fn draw(self, canvas: &Canvas<'_>) {
        for tick in self.ticks() {
            let y = self.y(tick);
            canvas.line(Role::Grid, vec![(LEFT, y), (RIGHT, y)], 1);
            canvas.text(
                Role::Label,
                &numbers::tick(tick),
                (LEFT - 12, y),
                HPos::Right,
                VPos::Center,
            );
        }
    }
}

/// Whether one linear axis would press the smaller values onto its floor.
pub(super) fn needs_logarithm(typical_min: f64, max: f64) -> bool {
    typical_min > 0.0 && max / typical_min > LINEAR_RATIO_MAX
}

/// The horizontal axis in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Horizontal {
    high: f64,
}

impl Horizontal {
    /// From zero to at least one.
    pub(super) fn fit(max: f64) -> Self {
        Self { high: max.max(1.0) }
    }

    pub(super) fn x(self, value: f64) -> i32 {
        let room = f64::from(RIGHT - LEFT - 24);
        pixel(f64::from(LEFT + 12) + (value / self.high).clamp(0.0, 1.0) * room)
    }

    /// Draws labelled ticks below the plot.
    pub(super) fn draw(self, canvas: &Canvas<'_>) {
        let step = nice_step(self.high / 5.0).max(1.0);
        for index in 0_u32..12 {
            let tick = f64::from(index) * step;
            if tick > self.high * 1.001 {
                break;
            }
            let at = (self.x(tick), BOTTOM + 10);
            canvas.text(
                Role::Label,
                &numbers::tick(tick),
                at,
                HPos::Center,
                VPos::Top,
            );
        }
    }
}

/// A horizontal, logarithmic axis of rates per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rates {
    low: f64,
    high: f64,
}

impl Rates {
    /// Fits rates above 0.
    pub(super) fn fit(min: f64, max: f64) -> Self {
        Self {
            low: min * 0.8,
            high: max * 1.25,
        }
    }

    pub(super) fn x(self, rate: f64) -> i32 {
        let share = (rate.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        pixel(f64::from(LEFT) + share.clamp(0.0, 1.0) * f64::from(RIGHT - LEFT))
    }

    fn ticks(self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let steps: &[f64] = if decades > 2.5 {
            &[1.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        (-4_i32..8)
            .flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)))
            .filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }

    /// Draws grid lines and their labels.
    pub(super) fn draw(self, canvas: &Canvas<'_>) {
        for tick in self.ticks() {
            let x = self.x(tick);
            canvas.line(Role::Grid, vec![(x, TOP), (x, BOTTOM)], 1);
            // A label at the very edge would be cut.
            if x > RIGHT - 20 {
                continue;
            }
            let at = (x, BOTTOM + 10);
            canvas.text(
                Role::Label,
                &numbers::tick(tick),
                at,
                HPos::Center,
                VPos::Top,
            );
        }
    }
}

/// A vertical, logarithmic axis of ratios, with 1 on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ratios {
    low: f64,
    high: f64,
}

/// Ratios that may get a tick.
const RATIO_TICKS: [f64; 19] = [
    0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 5.0, 10.0, 20.0,
    100.0, 1_000.0,
];

impl Ratios {
    /// Fits ratios above 0 on both sides of 1, and a little more on both ends.
    pub(super) fn fit(min: f64, max: f64) -> Self {
        Self {
            low: min.min(0.9) * 0.94,
            high: max.max(1.0 / 0.9) / 0.94,
        }
    }

    pub(super) fn y(self, ratio: f64) -> i32 {
        let share = (ratio.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        pixel(f64::from(BOTTOM) - share.clamp(0.0, 1.0) * f64::from(BOTTOM - TOP))
    }

    /// Those in range; where that is many, without the ones that would stand too close.
    fn ticks(self) -> Vec<f64> {
        let mut ticks: Vec<f64> = Vec::new();
        let inside = |tick: &&f64| (self.low..=self.high).contains(*tick);
        for tick in RATIO_TICKS.iter().filter(inside) {
            let is_one = (*tick - 1.0).abs() < 1e-9;
            let is_close = |last: &f64| self.y(*last) - self.y(*tick) < FONT + 6;
            while is_one && ticks.last().is_some_and(is_close) {
                ticks.pop();
            }
            if !ticks.last().is_some_and(is_close) {
                ticks.push(*tick);
            }
        }
        ticks
    }

    /// Draws grid lines and their labels; that of 1 is drawn as an axis.
    pub(super) fn draw(self, canvas: &Canvas<'_>) {
        for tick in self.ticks() {
            let y = self.y(tick);
            let is_one = (tick - 1.0).abs() < 1e-9;
            let (role, width) = if is_one {
                (Role::Label, 2)
            } else {
                (Role::Grid, 1)
            };
            canvas.line(role, vec![(LEFT, y), (RIGHT, y)], width);
            let label = format!("×{}", numbers::tick(tick));
            let at = (LEFT - 12, y);
            canvas.text(Role::Label, &label, at, HPos::Right, VPos::Center);
        }
    }
}

/// The next of 1, 2, 5 × 10ᵏ at or above a raw step.
fn nice_step(raw: f64) -> f64 {
    let power = 10_f64.powf(raw.max(1e-6).log10().floor());
    let mantissa = raw.max(1e-6) / power;
    let nice = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|nice| mantissa <= nice * 1.000_001)
        .unwrap_or(10.0);
    nice * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let linear = Vertical::fit(6.0, 41.0);
        assert_eq!(linear.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        let logarithmic = Vertical::fit(0.5, 400.0);
        assert!(logarithmic.logarithmic);
        assert_eq!(logarithmic.ticks(), [1.0, 10.0, 100.0]);
    }

    #[test]
    fn rates_have_round_ticks() {
        assert_eq!(
            Rates::fit(10.0, 400.0).ticks(),
            [10.0, 20.0, 50.0, 100.0, 200.0, 500.0]
        );
        assert_eq!(
            Rates::fit(10.0, 10_000.0).ticks(),
            [10.0, 100.0, 1_000.0, 10_000.0]
        );
        let one = Rates::fit(3.0, 3.0);
        assert!(one.x(3.0) > LEFT && one.x(3.0) < RIGHT);
    }

    #[test]
    fn ratios_always_show_1_and_no_labels_that_overlap() {
        for (min, max) in [
            (1.0, 1.0),
            (0.97, 1.04),
            (0.5, 1.0),
            (0.001, 300.0),
            (1.0, 4.0),
        ] {
            let axis = Ratios::fit(min, max);
            let ticks = axis.ticks();
            assert!(ticks.contains(&1.0), "{min} … {max}: {ticks:?}");
            for pair in ticks.windows(2) {
                assert!(axis.y(pair[0]) - axis.y(pair[1]) > FONT, "{ticks:?}");
            }
            assert!((TOP..=BOTTOM).contains(&axis.y(min)) && (TOP..=BOTTOM).contains(&axis.y(max)));
        }
    }

    #[test]
    fn values_stay_on_the_surface() {
        let axis = Vertical::fit(1.0, 10.0);
        assert_eq!(axis.y(0.0), BOTTOM);
        assert_eq!(axis.y(1e9), TOP);
        assert_eq!(Vertical::fit(0.0, 0.0).y(0.0), BOTTOM);
    }
}
