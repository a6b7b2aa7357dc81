//! The course of a block in two charts with the same seconds below: how long a loop was held in each,
//! and what was offered and completed meanwhile.

use super::axis::{Horizontal, Vertical};
use super::{Role, draw};
use crate::blame::Moment;

/// Shorter blocks have no course worth a chart.
const SECONDS_MIN: usize = 3;

const SECONDS: &str = "seconds since the block began";

/// Draws for how long a loop was held in each second, one line per arm; `None` when the blocks are
/// too short.
pub(crate) fn held(title: &str, courses: &[(&str, Vec<Moment>)]) -> Option<String> {
    let horizontal = horizontal(courses)?;
    let all = courses.iter().flat_map(|(_, course)| course);
    let most = all.map(|moment| moment.held_ms).fold(0.0, f64::max);
    let vertical = Vertical::with_scale(0.0, most, false);
    Some(draw(title, |canvas| {
        vertical.draw(canvas);
        horizontal.draw(canvas);
        canvas.axis_names("held, ms per second", SECONDS);
        for (arm, course) in courses {
            let (line, _) = Role::of_arm(arm);
            let points = points(course, horizontal, vertical, |moment| moment.held_ms);
            canvas.line(line, points, 3);
        }
    }))
}

/// Draws what was offered, faint, and what completed in each second.
pub(crate) fn rates(title: &str, courses: &[(&str, Vec<Moment>)]) -> Option<String> {
    let horizontal = horizontal(courses)?;
    let all = courses.iter().flat_map(|(_, course)| course);
    let rates = all.flat_map(|moment| [moment.offered, moment.completed]);
    let vertical = Vertical::with_scale(0.0, rates.fold(0.0, f64::max), false);
    Some(draw(title, |canvas| {
        vertical.draw(canvas);
        horizontal.draw(canvas);
        canvas.axis_names("requests per second, faint: offered", SECONDS);
        for (arm, course) in courses {
            let (line, faint) = Role::of_arm(arm);
            for (role, of) in [
                (faint, (|moment| moment.offered) as fn(&Moment) -> f64),
                (line, |moment| moment.completed),
            ] {
                canvas.line(role, points(course, horizontal, vertical, of), 3);
            }
        }
    }))
}

fn horizontal(courses: &[(&str, Vec<Moment>)]) -> Option<Horizontal> {
    let longest = courses.iter().map(|(_, course)| course.len()).max()?;
    let last = courses.iter().flat_map(|(_, course)| course.last());
    let high = last
        .map(|moment| f64::from(moment.second))
        .fold(0.0, f64::max);
    (longest >= SECONDS_MIN).then(|| Horizontal::fit(high))
}

fn points(
    course: &[Moment],
    horizontal: Horizontal,
    vertical: Vertical,
    of: impl Fn(&Moment) -> f64,
) -> Vec<(i32, i32)> {
    let point = |moment: &Moment| {
        let x = horizontal.x(f64::from(moment.second));
        (x, vertical.y(of(moment)))
    };
    course.iter().map(point).collect()
}
