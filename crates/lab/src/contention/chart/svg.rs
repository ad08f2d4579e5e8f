//! Lines, bars and words.

use std::fmt::Write as _;

const FONT: &str = "DejaVu Sans, Verdana, sans-serif";
const BACKGROUND: &str = "#ffffff";
pub(super) const TEXT: &str = "#222222";
pub(super) const FAINT: &str = "#666666";
pub(super) const GRID: &str = "#dddddd";

/// Where a text stands about its point.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How words are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hand {
    pub(super) size: u32,
    pub(super) colour: &'static str,
    pub(super) anchor: Anchor,
}

pub(super) const LABEL: Hand = Hand { size: 12, colour: FAINT, anchor: Anchor::Middle };

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stroke {
    pub(super) colour: &'static str,
    pub(super) width: f64,
    /// As in SVG; empty for a line without gaps.
    pub(super) dash: &'static str,
}

pub(super) const GRID_LINE: Stroke = Stroke { colour: GRID, width: 1.0, dash: "" };

/// A picture under way.
pub(super) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

impl Svg {
    /// A picture with its title above it.
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        let mut svg = Self { width, height, body: String::new() };
        svg.rect((0.0, 0.0), (width, height), BACKGROUND);
        svg.text((24.0, 32.0), Hand { size: 16, colour: TEXT, anchor: Anchor::Start }, title);
        svg
    }

    pub(super) fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        self.write(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>\n"
        ));
    }

    pub(super) fn line(&mut self, points: &[(f64, f64)], stroke: Stroke) {
        let Stroke { colour, width, dash } = stroke;
        let places: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dash = if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
        self.write(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{dash}/>\n",
            places.join(" ")
        ));
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), hand: Hand, words: &str) {
        let Hand { size, colour, anchor } = hand;
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.write(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{colour}\" text-anchor=\"{anchor}\">{}</text>\n",
            escaped(words)
        ));
    }

    /// Words that run upwards, for the axis on the left.
    pub(super) fn upward(&mut self, (x, y): (f64, f64), words: &str) {
        self.write(format_args!(
            "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" font-size=\"{}\" fill=\"{}\" \
             text-anchor=\"middle\">{}</text>\n",
            LABEL.size,
            LABEL.colour,
            escaped(words)
        ));
    }

    pub(super) fn finish(self) -> String {
        let Self { width, height, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"{FONT}\" role=\"img\">\n{body}</svg>\n"
        )
    }

    fn write(&mut self, words: std::fmt::Arguments<'_>) {
        self.body.write_fmt(words).expect("writing to a string cannot fail");
    }
}

/// Text as it may stand in SVG and HTML.
pub(in crate::contention) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
