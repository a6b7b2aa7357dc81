//! Second by second within a block: what the load model wanted, what was answered and what failed.
//! A loop that stalls shows as a dip and the crowd that comes after it.

use unstall_results::level::Level;
use unstall_results::record::{Load, RunRecord};

use super::axis::{Horizontal, Vertical};
use super::{Ink, Role, draw};
use crate::observed::{self, Rates, SecondOfArm};

/// Shorter blocks have no course worth a chart.
const SECONDS_MIN: u32 = 3;
/// More lines of single blocks than this are a grey wall.
const BLOCKS_MAX: usize = 64;

/// Draws the rates of one level, by `seconds` (one per row of the table, in its order); `None`
/// when the blocks are too short.
pub(crate) fn render(
    title: &str,
    record: &RunRecord,
    level: Level,
    seconds: &[SecondOfArm<'_>],
) -> Option<String> {
    let x_max = seconds.iter().map(|second| second.second).max()?;
    if x_max + observed::seconds_per_point(record, level) < SECONDS_MIN {
        return None;
    }
    let blocks = observed::points_by_block(record, level, BLOCKS_MAX, observed::completed);
    let highest = |rates: &Rates| rates.completed.max(rates.failed).max(rates.offered);
    let means = seconds.iter().map(|second| highest(&second.rates));
    let singles = blocks
        .iter()
        .flat_map(|(_, rates)| rates.iter().map(|(_, rate)| *rate));
    let y_max = means.chain(singles).fold(0.0, f64::max);
    let horizontal = Horizontal::fit(f64::from(x_max));
    let vertical = Vertical::with_scale(0.0, y_max, false);
    Some(draw(title, |canvas| {
        vertical.draw(canvas);
        horizontal.draw(canvas);
        canvas.axis_names("per second", "seconds since the block began");
        for (arm, rates) in &blocks {
            let points = rates
                .iter()
                .map(|(second, rate)| (horizontal.x(f64::from(*second)), vertical.y(*rate)))
                .collect();
            canvas.line(Role::of_arm(arm).1, points, 2);
        }
        for arm in observed::arms(record) {
            let line = |role: Role, of: fn(&Rates) -> f64, width: u32| {
                let of_arm = seconds.iter().filter(|second| second.arm == arm);
                let points: Vec<(i32, i32)> = of_arm
                    .map(|second| {
                        let x = horizontal.x(f64::from(second.second));
                        (x, vertical.y(of(&second.rates)))
                    })
                    .collect();
                canvas.line(role, points, width);
            };
            if is_offered(&record.load) {
                line(Role::Offered, |rates| rates.offered, 3);
            }
            line(Role::of_arm(arm).0, |rates| rates.completed, 5);
        }
        for (index, second) in seconds.iter().enumerate() {
            let x = horizontal.x(f64::from(second.second));
            let at = (x, vertical.y(second.rates.completed));
            let role = Role::of_arm(second.arm).0;
            canvas.dot(Ink::of_row(role, index), at, 6, second.arm != "before");
            if second.rates.failed > 0.0 {
                let at = (x, vertical.y(second.rates.failed));
                canvas.dot(Ink::of_row(Role::Spoilt, index), at, 6, true);
            }
        }
    }))
}

/// Whether a rate was offered at all: users who wait for their answer ask when they can.
pub(crate) fn is_offered(load: &Load) -> bool {
    load.model == unstall_results::level::OPEN
}
