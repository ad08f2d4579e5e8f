//! A small SVG writer: lines, bars and text.

use std::fmt::Write as _;

use super::axis::{Axis, time_label};
use super::{LEFT, RIGHT, WIDTH};

const FONT: &str = "system-ui, sans-serif";
const BACKGROUND: &str = "#ffffff";
const GRID: &str = "#dddddd";
const TEXT: &str = "#222222";
const FAINT: &str = "#666666";

#[derive(Debug, Clone, Copy)]
pub(super) struct TextStyle {
    size: u32,
    colour: &'static str,
    /// A `text-anchor`.
    anchor: &'static str,
}

const TITLE: TextStyle = TextStyle { size: 16, colour: TEXT, anchor: "start" };
pub(super) const NAME: TextStyle = TextStyle { size: 12, ..TITLE };
/// Below a horizontal axis, and beside a vertical one.
const LABEL: TextStyle = TextStyle { size: 12, colour: FAINT, anchor: "middle" };
const SIDE_LABEL: TextStyle = TextStyle { anchor: "end", ..LABEL };

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stroke {
    pub(super) colour: &'static str,
    pub(super) width: f64,
    /// A `stroke-dasharray`; empty for a solid line.
    pub(super) dash: &'static str,
}

const GRID_LINE: Stroke = Stroke { colour: GRID, width: 1.0, dash: "" };

pub(super) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

impl Svg {
    /// An image with a background and a title at the top.
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        let mut svg = Self { width, height, body: String::new() };
        svg.rect((0.0, 0.0), (width, height), BACKGROUND);
        svg.text((24.0, 32.0), TITLE, title);
        svg
    }

    pub(super) fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        self.write(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>\n"
        ));
    }

    pub(super) fn line(&mut self, points: &[(f64, f64)], stroke: Stroke) {
        let Stroke { colour, width, dash } = stroke;
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dash = if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
        self.write(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{dash}/>\n",
            points.join(" ")
        ));
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), style: TextStyle, text: &str) {
        self.styled_text(&format!("x=\"{x:.1}\" y=\"{y:.1}\""), style, text);
    }

    /// The grid, ticks and label of a time axis below a plot, and the label of its vertical axis, which reads upwards.
    pub(super) fn frame(&mut self, time: &Axis, (top, bottom): (f64, f64), [below, beside]: [&str; 2]) {
        for tick in time.ticks() {
            let x = time.position(tick);
            self.line(&[(x, top), (x, bottom)], GRID_LINE);
            self.text((x, bottom + 18.0), LABEL, &time_label(tick));
        }
        self.text((f64::midpoint(LEFT, WIDTH - RIGHT), bottom + 38.0), LABEL, below);
        let y = f64::midpoint(top, bottom);
        self.styled_text(&format!("transform=\"translate(20 {y:.1}) rotate(-90)\""), LABEL, beside);
    }

    /// A horizontal grid line with its label.
    pub(super) fn level(&mut self, y: f64, label: &str) {
        self.line(&[(LEFT, y), (WIDTH - RIGHT, y)], GRID_LINE);
        self.text((LEFT - 8.0, y + 4.0), SIDE_LABEL, label);
    }

    fn styled_text(&mut self, position: &str, style: TextStyle, text: &str) {
        let TextStyle { size, colour, anchor } = style;
        self.write(format_args!(
            "<text {position} font-size=\"{size}\" fill=\"{colour}\" text-anchor=\"{anchor}\">{}</text>\n",
            escaped(text)
        ));
    }

    pub(super) fn finish(self) -> String {
        let Self { width, height, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"{FONT}\" role=\"img\">\n{body}</svg>\n"
        )
    }

    fn write(&mut self, element: std::fmt::Arguments<'_>) {
        self.body.write_fmt(element).expect("writing to a string cannot fail");
    }
}

/// Escapes text for SVG and HTML.
pub(in crate::contention) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
