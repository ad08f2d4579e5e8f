//! Curves that rise from nobody to everybody: how long requests took, and who was served when.

use super::axis::{Axis, time};
use super::svg::{Anchor, GRID_LINE, Hand, LABEL, Svg, TEXT};
use super::{LEFT, RIGHT, SINCE, TOP, WIDTH, ink};
use crate::contention::report::ArmReport;

const HEIGHT: f64 = 320.0;
/// Below the plot: the ticks, and what the axis is.
const BELOW: f64 = 60.0;
const ENTRY: f64 = 19.0;
const MARGIN: f64 = 14.0;

/// About how wide a letter of the legend is.
const LETTER: f64 = 7.2;
const SAMPLE: f64 = 42.0;

/// The share of all requests that were answered within a time. Where some had no answer, it ends below 100 %.
pub(super) fn latency(title: &str, arms: &[&ArmReport]) -> String {
    let times = || arms.iter().flat_map(|arm| &arm.series.request_ms).copied();
    let (low, high) = (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
    let across = Axis::logarithmic((low, high), (LEFT, WIDTH - RIGHT));
    let curves = arms.iter().map(|arm| rising(&arm.series.request_ms, answered(arm), None)).collect();
    let along = "time from sending to answer (logarithmic)";
    let names = arms.iter().map(|arm| with_unanswered(arm)).collect();
    Plot { across, up: "requests answered", along, curves, names }.draw(title, arms)
}

/// The share of contenders that were served by a time.
pub(super) fn waves(title: &str, arms: &[&ArmReport]) -> String {
    let end = |arm: &&ArmReport| arm.figures.as_ref().map_or(0.0, |figures| figures.elapsed_ms);
    let longest = arms.iter().map(end).fold(0.0, f64::max);
    let across = Axis::linear(longest, (LEFT, WIDTH - RIGHT));
    let curve = |arm: &&ArmReport| rising(&arm.series.served_ms, served(arm), Some(end(arm)));
    let curves = arms.iter().map(curve).collect();
    let names = arms.iter().map(|arm| arm.name.clone()).collect();
    Plot { across, up: "contenders served", along: SINCE, curves, names }.draw(title, arms)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a lab")]
fn answered(arm: &ArmReport) -> f64 {
    let figures = arm.figures.as_ref().filter(|figures| figures.requests > 0);
    figures.map_or(1.0, |figures| 1.0 - figures.unanswered as f64 / figures.requests as f64)
}

/// Why the curve of an arm ends where it does.
fn with_unanswered(arm: &ArmReport) -> String {
    let figures = arm.figures.as_ref().filter(|figures| figures.unanswered > 0);
    figures.map_or_else(
        || arm.name.clone(),
        |figures| format!("{} ({} of {} unanswered)", arm.name, figures.unanswered, figures.requests),
    )
}

#[expect(clippy::cast_precision_loss, reason = "counts of a lab")]
fn served(arm: &ArmReport) -> f64 {
    let figures = arm.figures.as_ref();
    figures.map_or(0.0, |figures| figures.served as f64 / f64::from(figures.contenders.max(1)))
}

/// A staircase with a step at each time, from nothing up to `share`, and on the level to `end`.
#[expect(clippy::cast_precision_loss, reason = "a number of points")]
fn rising(times: &[f64], share: f64, end: Option<f64>) -> Vec<(f64, f64)> {
    let height = |number: usize| share * number as f64 / times.len() as f64;
    let steps = times.iter().enumerate();
    let stairs = steps.flat_map(|(number, time)| [(*time, height(number)), (*time, height(number + 1))]);
    let level = end.filter(|_| !times.is_empty()).map(|end| (end, share));
    stairs.chain(level).collect()
}

/// A plot with a curve for each arm, and a legend under it.
struct Plot {
    across: Axis,
    up: &'static str,
    along: &'static str,
    /// Times and shares.
    curves: Vec<Vec<(f64, f64)>>,
    /// What the legend calls them.
    names: Vec<String>,
}

impl Plot {
    fn draw(&self, title: &str, arms: &[&ArmReport]) -> String {
        let longest = self.names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        #[expect(clippy::cast_precision_loss, reason = "a number of letters")]
        let is_wide = (longest as f64).mul_add(LETTER, SAMPLE) > (WIDTH - LEFT - RIGHT) / 2.0;
        let columns = if is_wide { 1 } else { 2 };
        let bottom = TOP + HEIGHT;
        let rows = arms.len().div_ceil(columns);
        #[expect(clippy::cast_precision_loss, reason = "a number of rows")]
        let legend = rows as f64 * ENTRY;
        let mut svg = Svg::new(WIDTH, bottom + BELOW + legend + MARGIN, title);
        let up = Axis::linear(100.0, (bottom, TOP));
        self.grid(&mut svg, &up);
        let strokes = ink::strokes(arms);
        for (curve, stroke) in self.curves.iter().zip(&strokes) {
            let points: Vec<_> = curve
                .iter()
                .map(|(time, share)| (self.across.place(*time), up.place(share * 100.0)))
                .collect();
            svg.line(&points, *stroke);
        }
        for (number, (name, stroke)) in self.names.iter().zip(&strokes).enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "a number of entries")]
            let (column, row) = ((number / rows) as f64, (number % rows) as f64);
            let x = LEFT + column * (WIDTH - LEFT - RIGHT) / 2.0;
            let y = bottom + BELOW + row * ENTRY;
            svg.line(&[(x, y), (x + SAMPLE - 10.0, y)], *stroke);
            let hand = Hand { size: 12, colour: TEXT, anchor: Anchor::Start };
            svg.text((x + SAMPLE, y + 4.0), hand, name);
        }
        svg.finish()
    }

    fn grid(&self, svg: &mut Svg, up: &Axis) {
        let (bottom, end) = (TOP + HEIGHT, WIDTH - RIGHT);
        for tick in self.across.ticks() {
            let x = self.across.place(tick);
            svg.line(&[(x, TOP), (x, bottom)], GRID_LINE);
            svg.text((x, bottom + 18.0), LABEL, &time(tick));
        }
        for tick in up.ticks() {
            let y = up.place(tick);
            svg.line(&[(LEFT, y), (end, y)], GRID_LINE);
            svg.text((LEFT - 8.0, y + 4.0), Hand { anchor: Anchor::End, ..LABEL }, &format!("{tick:.0} %"));
        }
        svg.text((f64::midpoint(LEFT, end), bottom + 38.0), LABEL, self.along);
        svg.upward((20.0, f64::midpoint(TOP, bottom)), self.up);
    }
}
