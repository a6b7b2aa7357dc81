//! Charts as inline SVG, drawn with plotters.
//!
//! Plotters writes fixed colours. A report follows the reader's light or dark
//! scheme, so each [`Ink`] is drawn in a sentinel colour that becomes a CSS
//! class afterwards; fonts and sizes are left to the page's style as well. A mark that
//! has its row in a table carries the row's key, so that the page can show both together.

mod axis;
pub(crate) mod blocks;
pub(crate) mod percentiles;
pub(crate) mod rates;
pub(crate) mod seconds;
pub(crate) mod stalls;
pub(crate) mod steps;
pub(crate) mod timeline;

use plotters::coord::Shift;
use plotters::element::{Circle, PathElement, Text};
use plotters::prelude::{Color, DrawingArea, IntoDrawingArea, RGBColor, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{IntoFont, ShapeStyle};

/// Drawing units: twice the size in which a chart is usually shown, since
/// plotters has whole coordinates only.
const WIDTH: u32 = 960;
const HEIGHT: u32 = 480;
/// Room for tick labels and axis names around the plot.
const LEFT: i32 = 92;
const RIGHT: i32 = 940;
const TOP: i32 = 44;
const BOTTOM: i32 = 408;
/// Wide enough for measures of text, which the page's style sets anyway.
const FONT: i32 = 24;

/// What a mark stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// First arm.
    Before,
    /// Second arm.
    After,
    /// One block of the first arm.
    BeforeBlock,
    /// One block of the second arm.
    AfterBlock,
    /// Lines of the grid.
    Grid,
    /// Labels.
    Label,
    /// A block that must not be judged.
    Spoilt,
    /// What the load model wanted.
    Offered,
    /// One number divided by another.
    Ratio,
    /// The start of a migration.
    Start,
}

impl Role {
    const ALL: [Self; 10] = [
        Self::Before,
        Self::After,
        Self::BeforeBlock,
        Self::AfterBlock,
        Self::Grid,
        Self::Label,
        Self::Spoilt,
        Self::Offered,
        Self::Ratio,
        Self::Start,
    ];

    /// The role of an arm's line and of its blocks' lines.
    pub(crate) fn of_arm(arm: &str) -> (Self, Self) {
        match arm {
            "before" => (Self::Before, Self::BeforeBlock),
            _ => (Self::After, Self::AfterBlock),
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
            Self::BeforeBlock => "before-block",
            Self::AfterBlock => "after-block",
            Self::Grid => "grid",
            Self::Label => "label",
            Self::Spoilt => "spoilt",
            Self::Offered => "offered",
            Self::Ratio => "ratio",
            Self::Start => "start",
        }
    }
}

/// A role, and the key of the table's row that says the same in numbers; 0 is no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ink {
    role: Role,
    key: u16,
}

impl Ink {
    /// The mark of the row with this index. Beyond what a sentinel can hold a mark has no row.
    fn of_row(role: Role, index: usize) -> Self {
        let key = u16::try_from(index + 1).unwrap_or(0);
        Self {
            role,
            key: if key < KEYS { key } else { 0 },
        }
    }

    /// Red is never 0, which plotters itself uses for black.
    fn sentinel(self) -> RGBColor {
        let [high, low] = self.key.to_be_bytes();
        RGBColor(high + 1, low, self.role as u8)
    }

    fn of_sentinel(hex: &str) -> Option<Self> {
        let number = u32::from_str_radix(hex, 16).ok()?;
        let [_, red, low, role] = number.to_be_bytes();
        Some(Self {
            role: *Role::ALL.get(usize::from(role))?,
            key: u16::from_be_bytes([red.checked_sub(1)?, low]),
        })
    }
}

impl From<Role> for Ink {
    fn from(role: Role) -> Self {
        Self { role, key: 0 }
    }
}

/// Keys that fit into a sentinel: one more than its red and green can tell apart.
const KEYS: u16 = 255 * 256;

/// The key of a row that marks of a chart refer to, as the page's attribute.
pub(crate) fn row_key(index: usize) -> String {
    match Ink::of_row(Role::Label, index).key {
        0 => String::new(),
        key => format!(" data-k=\"{key}\""),
    }
}

/// A drawing surface in pixels with roles instead of colours.
struct Canvas<'a>(DrawingArea<SVGBackend<'a>, Shift>);

impl Canvas<'_> {
    fn line(&self, ink: impl Into<Ink>, points: Vec<(i32, i32)>, width: u32) {
        let style = ShapeStyle {
            color: ink.into().sentinel().to_rgba(),
            filled: false,
            stroke_width: width,
        };
        self.0
            .draw(&PathElement::new(points, style))
            .expect("drawing into a String cannot fail");
    }

    fn dot(&self, ink: impl Into<Ink>, at: (i32, i32), radius: i32, filled: bool) {
        let style = ShapeStyle {
            color: ink.into().sentinel().to_rgba(),
            filled,
            stroke_width: 3,
        };
        self.0
            .draw(&Circle::new(at, radius, style))
            .expect("drawing into a String cannot fail");
    }

    fn text(
        &self,
        ink: impl Into<Ink>,
        text: &str,
        at: (i32, i32),
        horizontal: HPos,
        vertical: VPos,
    ) {
        let style = ("sans-serif", FONT)
            .into_font()
            .color(&ink.into().sentinel())
            .pos(Pos::new(horizontal, vertical));
        self.0
            .draw(&Text::new(text, at, style))
            .expect("drawing into a String cannot fail");
    }

    /// Names of the axes: the vertical one above the plot, the other below it.
    fn axis_names(&self, vertical: &str, horizontal: &str) {
        self.text(Role::Label, vertical, (0, 2), HPos::Left, VPos::Top);
        let bottom = i32::try_from(HEIGHT).expect("a small constant") - 4;
        self.text(
            Role::Label,
            horizontal,
            (RIGHT, bottom),
            HPos::Right,
            VPos::Bottom,
        );
    }
}

/// Draws one chart. `title` is what a screen reader says instead of it.
fn draw(title: &str, paint: impl FnOnce(&Canvas<'_>)) -> String {
    let mut svg = String::new();
    {
        let canvas = Canvas(SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area());
        paint(&canvas);
        canvas
            .0
            .present()
            .expect("drawing into a String cannot fail");
    }
    themed(&svg, title)
}

/// Turns sentinel colours into classes and leaves sizes and fonts to the page.
fn themed(svg: &str, title: &str) -> String {
    let open = svg.find('>').map_or(0, |end| end + 1);
    let mut body = inked(&svg[open..]);
    for default in [
        " opacity=\"1\"",
        " stroke=\"none\"",
        " fill=\"none\"",
        " font-family=\"sans-serif\"",
        " stroke-width=\"1\"",
    ] {
        body = body.replace(default, "");
    }
    let size = format!(" font-size=\"{}\"", f64::from(FONT) / 1.24);
    body = body
        .replace(&size, "")
        .replace(" \"", "\"")
        .replace('\n', "");
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">{body}",
        crate::escape::markup(title)
    )
}

/// Replaces each sentinel colour by the class and the key that it stands for.
fn inked(svg: &str) -> String {
    let mut out = String::with_capacity(svg.len());
    let mut rest = svg;
    while let Some(at) = rest.find("=\"#") {
        let (head, tail) = rest.split_at(at);
        let filled = head.strip_suffix(" fill");
        let ink = tail.get(3..9).and_then(Ink::of_sentinel);
        match (filled.or_else(|| head.strip_suffix(" stroke")), ink) {
            (Some(before), Some(Ink { role, key })) if tail[9..].starts_with('"') => {
                let fill = if filled.is_some() { " fill" } else { "" };
                out.push_str(before);
                out.push_str(&format!(" class=\"{}{fill}\"", role.class()));
                if key > 0 {
                    out.push_str(&format!(" data-k=\"{key}\""));
                }
                rest = &tail[10..];
            }
            _ => {
                out.push_str(head);
                out.push_str(&tail[..3]);
                rest = &tail[3..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// A float on the pixel grid; charts clamp far outside values to the surface.
#[expect(
    clippy::cast_possible_truncation,
    reason = "clamped to the drawing surface"
)]
fn pixel(value: f64) -> i32 {
    value.round().clamp(-100.0, 2_000.0) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_keeps_the_key_of_its_row() {
        for index in [0, 1, 254, 255, 256, 65_278] {
            let svg = draw("keys", |canvas| {
                canvas.dot(Ink::of_row(Role::Ratio, index), (5, 5), 4, false);
            });
            let expected = format!("class=\"ratio\" data-k=\"{}\"", index + 1);
            assert!(svg.contains(&expected), "{index}: {svg}");
            assert_eq!(row_key(index), format!(" data-k=\"{}\"", index + 1));
        }
        assert_eq!(row_key(65_279), "");
        assert_eq!(row_key(1_000_000), "");
    }

    #[test]
    fn no_fixed_colour_or_font_is_left() {
        let svg = draw("a <title>", |canvas| {
            canvas.line(Role::Before, vec![(0, 0), (10, 10)], 3);
            canvas.dot(Role::After, (5, 5), 4, true);
            canvas.text(Role::Label, "<script>", (1, 1), HPos::Left, VPos::Top);
        });
        assert!(!svg.contains('#'), "{svg}");
        assert!(!svg.contains("font"), "{svg}");
        assert!(!svg.contains("<script>"), "{svg}");
        insta::assert_snapshot!(svg);
    }
}
