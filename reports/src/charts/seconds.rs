//! p95 of each second of each block: what happens inside a block, which a
//! percentile over the whole of it hides.

use unstall_results::level::Level;
use unstall_results::record::RunRecord;

use super::axis::{Horizontal, Vertical};
use super::{Role, draw};
use crate::observed;

/// Shorter blocks have no course worth a chart.
const SECONDS_MIN: usize = 5;
/// More lines than this are a grey wall.
const BLOCKS_MAX: usize = 64;

/// Draws one line per good block at one level; `None` when the blocks are too short.
pub(crate) fn render(title: &str, record: &RunRecord, level: Level) -> Option<String> {
    let lines: Vec<(&str, Vec<(u32, f64)>)> =
        observed::points_by_block(record, level, BLOCKS_MAX, observed::highest_p95_ms)
            .into_iter()
            .filter(|(_, points)| points.len() >= SECONDS_MIN)
            .collect();
    let all = || lines.iter().flat_map(|(_, points)| points.iter());
    if lines.is_empty() {
        return None;
    }
    let y_max = all().map(|point| point.1).fold(0.0, f64::max);
    let y_min = all().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let x_max = all().map(|point| f64::from(point.0)).fold(0.0, f64::max);
    let (vertical, horizontal) = (Vertical::fit(y_min, y_max), Horizontal::fit(x_max));
    let single = lines.len() == 1;
    Some(draw(title, |canvas| {
        vertical.draw(canvas);
        horizontal.draw(canvas);
        canvas.axis_names(&vertical.name("p95, ms"), "seconds since the block began");
        for (arm, points) in &lines {
            let (line, block_line) = Role::of_arm(arm);
            let pixels = points
                .iter()
                .map(|(second, ms)| (horizontal.x(f64::from(*second)), vertical.y(*ms)))
                .collect();
            canvas.line(if single { line } else { block_line }, pixels, 3);
        }
    }))
}
