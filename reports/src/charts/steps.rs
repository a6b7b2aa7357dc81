//! One number of every step of a migration: at its start, before the step and after it.

use plotters::style::text_anchor::{HPos, VPos};
use unstall_results::ledger::Course;

use super::axis::Vertical;
use super::{BOTTOM, Ink, LEFT, RIGHT, Role, draw, pixel};

/// Half the length of the dash that stands for the start.
const DASH: i32 = 13;
/// Names of steps that fit below the plot side by side.
const NAMES_MAX: usize = 24;

/// What is drawn of each step.
pub(crate) struct Subject<'s> {
    /// What a screen reader says instead of the chart.
    pub(crate) title: &'s str,
    /// Name of the vertical axis, with its unit.
    pub(crate) axis: &'s str,
    /// In the order in which they were measured.
    pub(crate) marks: &'s [Mark],
}

/// One measurement.
pub(crate) struct Mark {
    /// Index of its row in the table below.
    pub(crate) row: usize,
    /// What stands below it.
    pub(crate) name: String,
    /// Its number, where it has one.
    pub(crate) course: Option<Course>,
}

/// Draws the steps side by side; `None` when fewer than two have the number.
pub(crate) fn render(subject: &Subject<'_>) -> Option<String> {
    let courses = || subject.marks.iter().filter_map(|mark| mark.course);
    if courses().count() < 2 {
        return None;
    }
    let vertical = fit(courses());
    Some(draw(subject.title, |canvas| {
        vertical.draw(canvas);
        canvas.axis_names(&vertical.name(subject.axis), "step");
        let every = subject.marks.len().div_ceil(NAMES_MAX).max(1);
        for (index, mark) in subject.marks.iter().enumerate() {
            let x = slot(index, subject.marks.len());
            if index % every == 0 {
                let below = (x, BOTTOM + 10);
                canvas.text(Role::Label, &mark.name, below, HPos::Center, VPos::Top);
            }
            let Some(Course {
                start,
                before,
                after,
            }) = mark.course
            else {
                continue;
            };
            let y = |value: f64| vertical.y(value);
            let ink = |role| Ink::of_row(role, mark.row);
            let (from, to) = (y(before.value), y(after.value));
            if let Some(start) = start {
                let y = y(start.value);
                canvas.line(ink(Role::Start), vec![(x - DASH, y), (x + DASH, y)], 5);
            }
            canvas.line(Role::AfterBlock, vec![(x, from), (x, to)], 4);
            canvas.dot(ink(Role::Before), (x, from), 9, false);
            canvas.dot(ink(Role::After), (x, to), 6, true);
        }
    }))
}

/// Zero stands on the floor, whatever the scale; what was there before a step must stay readable.
fn fit(courses: impl Iterator<Item = Course> + Clone) -> Vertical {
    let earlier = |course: Course| [course.start, Some(course.before)].into_iter().flatten();
    let earlier = courses.clone().flat_map(earlier);
    let positive = earlier.map(|of| of.value).filter(|value| *value > 0.0);
    let typical_min = positive.fold(f64::INFINITY, f64::min);
    let all = courses.flat_map(|course| {
        let start = course.start.map_or(0.0, |start| start.value);
        [start, course.before.value, course.after.value]
    });
    let typical_min = if typical_min.is_finite() {
        typical_min
    } else {
        0.0
    };
    Vertical::fit(typical_min, all.fold(0.0, f64::max))
}

/// The middle of one of so many equal parts of the plot.
fn slot(index: usize, count: usize) -> i32 {
    let part = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    let width = f64::from(RIGHT - LEFT) / part(count.max(1));
    pixel(f64::from(LEFT) + (part(index) + 0.5) * width)
}

#[cfg(test)]
mod tests {
    use unstall_results::ledger::Measured;

    use super::*;

    fn mark(row: usize, values: [f64; 3]) -> Mark {
        let [start, before, after] = values.map(|value| Measured {
            value,
            at_least: false,
        });
        Mark {
            row,
            name: format!("2{row}"),
            course: Some(Course {
                start: Some(start),
                before,
                after,
            }),
        }
    }

    fn drawn(marks: &[Mark]) -> Option<String> {
        render(&Subject {
            title: "p95 by step",
            axis: "p95, ms",
            marks,
        })
    }

    #[test]
    fn each_step_has_its_three_marks_with_the_key_of_its_row() {
        let svg = drawn(&[
            mark(0, [412.0, 325.0, 331.0]),
            Mark {
                course: None,
                ..mark(1, [0.0; 3])
            },
            mark(2, [400.0, 118.0, 0.0]),
        ])
        .expect("two steps with numbers");
        for key in [1, 3] {
            let marks = svg.matches(&format!("data-k=\"{key}\"")).count();
            assert_eq!(marks, 3, "{svg}");
        }
        assert!(!svg.contains("data-k=\"2\""), "{svg}");
        assert!(svg.contains(">21</text>"), "{svg}");
        assert_eq!(svg.matches("class=\"start\"").count(), 2, "{svg}");
    }

    #[test]
    fn one_step_has_no_course() {
        assert_eq!(drawn(&[mark(0, [3.0, 2.0, 1.0])]), None);
        assert_eq!(drawn(&[]), None);
    }

    #[test]
    fn names_of_many_steps_do_not_overlap_and_marks_stay_on_the_surface() {
        let marks: Vec<Mark> = (0..100).map(|row| mark(row, [9.0, 5e4, 0.0])).collect();
        let svg = drawn(&marks).expect("a chart");
        assert_eq!(svg.matches("</text>").count() - ticks(&svg), 20 + 2);
        assert!(slot(0, 100) > LEFT && slot(99, 100) < RIGHT);
        assert_eq!(slot(0, 1), (LEFT + RIGHT) / 2);
    }

    /// Labels of the vertical axis stand right.
    fn ticks(svg: &str) -> usize {
        let texts = svg.split("<text").skip(1);
        let labels = texts.filter(|text| text.contains("text-anchor=\"end\""));
        // The name of the horizontal axis does, too.
        labels.count() - 1
    }
}
