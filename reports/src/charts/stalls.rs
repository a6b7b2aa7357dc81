//! For how long a loop was held in each second of a block, with the same seconds below as the rates.

use unstall_results::record::RunRecord;

use super::axis::{Horizontal, Vertical};
use super::{Ink, Role, draw};
use crate::observed::{self, SecondOfArm};

/// Draws one line per arm, by `seconds` (one per row of the table, in its order); `None` where no
/// monitor told holds.
pub(crate) fn render(
    title: &str,
    record: &RunRecord,
    seconds: &[SecondOfArm<'_>],
) -> Option<String> {
    let held = || seconds.iter().filter_map(|second| second.held_ms);
    let y_max = held().reduce(f64::max)?;
    let x_max = seconds.iter().map(|second| second.second).max()?;
    let horizontal = Horizontal::fit(f64::from(x_max));
    let vertical = Vertical::with_scale(0.0, y_max, false);
    Some(draw(title, |canvas| {
        vertical.draw(canvas);
        horizontal.draw(canvas);
        canvas.axis_names("held, ms per second", "seconds since the block began");
        for arm in observed::arms(record) {
            let of_arm = seconds.iter().enumerate();
            let marks: Vec<(usize, (i32, i32))> = of_arm
                .filter(|(_, second)| second.arm == arm)
                .filter_map(|(index, second)| {
                    let x = horizontal.x(f64::from(second.second));
                    Some((index, (x, vertical.y(second.held_ms?))))
                })
                .collect();
            let (role, _) = Role::of_arm(arm);
            canvas.line(role, marks.iter().map(|(_, at)| *at).collect(), 5);
            for (index, at) in marks {
                canvas.dot(Ink::of_row(role, index), at, 6, arm != "before");
            }
        }
    }))
}
