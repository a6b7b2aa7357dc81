//! Blocks of a search for capacity: the objective that was nearest to its limit, by rate, and the
//! interval in which the capacity lies.

use plotters::style::text_anchor::{HPos, VPos};

use unstall_results::capacity::{ArmFinding, Capacity, Finding, TrialEnd};

use super::axis::{Rates, Vertical};
use super::{BOTTOM, Canvas, LEFT, RIGHT, Role, TOP, draw};
use crate::capacity;

/// Beyond this multiple of a limit a block is at the upper edge: how far it got depends on its
/// length only.
const SHARE_MAX: f64 = 20.0;
/// Below this share of a limit, at the lower edge.
const SHARE_MIN: f64 = 0.01;

/// Draws the blocks; `None` without any.
pub(crate) fn render(title: &str, finding: &Finding) -> Option<String> {
    let points: Vec<(&str, f64, f64, TrialEnd)> = finding
        .arms
        .iter()
        .flat_map(|arm| {
            arm.trials.iter().map(|trial| {
                // What was not answered at all is as far beyond as can be.
                let share = capacity::tightest(trial).map_or(SHARE_MAX, capacity::share);
                let share = share.clamp(SHARE_MIN, SHARE_MAX);
                (arm.arm.as_str(), trial.rate, share, trial.end)
            })
        })
        .collect();
    let rates = points.iter().map(|point| point.1);
    let (low, high) = (rates.clone().reduce(f64::min)?, rates.reduce(f64::max)?);
    let horizontal = Rates::fit(low, high);
    let smallest = points.iter().map(|point| point.2).fold(1.0, f64::min);
    let largest = points.iter().map(|point| point.2).fold(2.0, f64::max);
    let vertical = Vertical::with_scale(smallest, largest, true);
    Some(draw(title, |canvas| {
        vertical.draw(canvas);
        horizontal.draw(canvas);
        canvas.axis_names(
            "tightest objective ÷ its limit, logarithmic",
            "arrivals per second, logarithmic",
        );
        limit(canvas, vertical.y(1.0));
        for arm in &finding.arms {
            interval(canvas, arm, horizontal);
        }
        for (arm, rate, share, end) in points {
            let at = (horizontal.x(rate), vertical.y(share));
            let (role, _) = Role::of_arm(arm);
            match end {
                TrialEnd::Held => canvas.dot(role, at, 8, true),
                TrialEnd::Failed => canvas.dot(role, at, 8, false),
                TrialEnd::Spoilt | TrialEnd::Idle => {
                    canvas.text(Role::Spoilt, "✕", at, HPos::Center, VPos::Center);
                }
            }
        }
    }))
}

fn limit(canvas: &Canvas<'_>, y: i32) {
    canvas.line(Role::Spoilt, vec![(LEFT, y), (RIGHT, y)], 3);
    canvas.text(
        Role::Label,
        "limit",
        (RIGHT, y - 6),
        HPos::Right,
        VPos::Bottom,
    );
}

/// Its ends, and the estimate between them.
fn interval(canvas: &Canvas<'_>, arm: &ArmFinding, horizontal: Rates) {
    let (role, faint) = Role::of_arm(&arm.arm);
    let line = |role, rate: f64, width| {
        let x = horizontal.x(rate);
        canvas.line(role, vec![(x, TOP), (x, BOTTOM)], width);
    };
    match arm.capacity {
        Capacity::Found {
            rate, low, high, ..
        } => {
            line(faint, low, 3);
            line(faint, high, 3);
            line(role, rate, 3);
        }
        Capacity::AtLeast { rate, .. } | Capacity::Below { rate } => line(faint, rate, 3),
        Capacity::Unknown => {}
    }
}
