//! Charts as inline SVG, drawn with plotters.
//!
//! Plotters writes fixed colours. A report follows the reader's light or dark
//! scheme, so each [`Role`] is drawn in a sentinel colour that becomes a CSS
//! class afterwards; fonts and sizes are left to the page's style as well.

mod axis;
pub(crate) mod blocks;
pub(crate) mod percentiles;
pub(crate) mod rates;
pub(crate) mod seconds;
pub(crate) mod stalls;

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
}

impl Role {
    const ALL: [Self; 7] = [
        Self::Before,
        Self::After,
        Self::BeforeBlock,
        Self::AfterBlock,
        Self::Grid,
        Self::Label,
        Self::Spoilt,
    ];

    /// The role of an arm's line and of its blocks' lines.
    pub(crate) fn of_arm(arm: &str) -> (Self, Self) {
        match arm {
            "before" => (Self::Before, Self::BeforeBlock),
            _ => (Self::After, Self::AfterBlock),
        }
    }

    fn sentinel(self) -> RGBColor {
        RGBColor(1, 0, self as u8)
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
        }
    }
}

/// A drawing surface in pixels with roles instead of colours.
struct Canvas<'a>(DrawingArea<SVGBackend<'a>, Shift>);

impl Canvas<'_> {
    fn line(&self, role: Role, points: Vec<(i32, i32)>, width: u32) {
        let style = ShapeStyle {
            color: role.sentinel().to_rgba(),
            filled: false,
            stroke_width: width,
        };
        self.0
            .draw(&PathElement::new(points, style))
            .expect("drawing into a String cannot fail");
    }

    fn dot(&self, role: Role, at: (i32, i32), radius: i32, filled: bool) {
        let style = ShapeStyle {
            color: role.sentinel().to_rgba(),
            filled,
            stroke_width: 3,
        };
        self.0
            .draw(&Circle::new(at, radius, style))
            .expect("drawing into a String cannot fail");
    }

    fn text(&self, role: Role, text: &str, at: (i32, i32), horizontal: HPos, vertical: VPos) {
        let style = ("sans-serif", FONT)
            .into_font()
            .color(&role.sentinel())
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
    let mut body = svg[open..].to_owned();
    for role in Role::ALL {
        let RGBColor(r, g, b) = role.sentinel();
        let colour = format!("#{r:02X}{g:02X}{b:02X}");
        let class = format!(" class=\"{}\"", role.class());
        body = body
            .replace(&format!(" stroke=\"{colour}\""), &class)
            .replace(
                &format!(" fill=\"{colour}\""),
                &format!(" class=\"{} fill\"", role.class()),
            );
    }
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
