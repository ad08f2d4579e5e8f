//! Curves of cumulative shares: how long requests took, and when contenders were served.

use super::axis::Axis;
use super::strokes::strokes;
use super::svg::{NAME, Svg};
use super::{LEFT, RIGHT, SINCE_START, TOP, WIDTH};
use crate::contention::report::ArmReport;

const HEIGHT: f64 = 320.0;
/// The space below the plot for ticks and the axis label.
const BOTTOM: f64 = 60.0;
const ENTRY_HEIGHT: f64 = 19.0;
const MARGIN: f64 = 14.0;

/// The approximate width of a character in the legend.
const CHARACTER_WIDTH: f64 = 7.2;
const SAMPLE_WIDTH: f64 = 42.0;

/// The share of requests answered within a time. It ends below 100 % if some have no response.
pub(super) fn latency(title: &str, arms: &[&ArmReport]) -> String {
    let times = || arms.iter().flat_map(|arm| &arm.series.request_ms).copied();
    let (low, high) = (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
    Plot {
        time: Axis::logarithmic((low, high), (LEFT, WIDTH - RIGHT)),
        time_label: "time from request to response (logarithmic)",
        share_label: "requests answered",
        curves: arms.iter().map(|arm| staircase(&arm.series.request_ms, answered(arm), None)).collect(),
        names: arms.iter().map(|arm| name_with_unanswered(arm)).collect(),
    }
    .draw(title, arms)
}

/// The share of contenders served by a time.
pub(super) fn waves(title: &str, arms: &[&ArmReport]) -> String {
    let end = |arm: &ArmReport| arm.figures.as_ref().map_or(0.0, |figures| figures.elapsed_ms);
    let longest = arms.iter().map(|arm| end(arm)).fold(0.0, f64::max);
    let curve = |arm: &&ArmReport| staircase(&arm.series.served_ms, served(arm), Some(end(arm)));
    Plot {
        time: Axis::linear(longest, (LEFT, WIDTH - RIGHT)),
        time_label: SINCE_START,
        share_label: "contenders served",
        curves: arms.iter().map(curve).collect(),
        names: arms.iter().map(|arm| arm.arm.name.clone()).collect(),
    }
    .draw(title, arms)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a lab")]
fn answered(arm: &ArmReport) -> f64 {
    let figures = arm.figures.as_ref().filter(|figures| figures.requests > 0);
    figures.map_or(1.0, |figures| 1.0 - figures.unanswered as f64 / figures.requests as f64)
}

fn name_with_unanswered(arm: &ArmReport) -> String {
    match &arm.figures {
        Some(figures) if figures.unanswered > 0 => {
            format!("{} ({} of {} unanswered)", arm.arm.name, figures.unanswered, figures.requests)
        }
        _ => arm.arm.name.clone(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a lab")]
fn served(arm: &ArmReport) -> f64 {
    let figures = arm.figures.as_ref();
    figures.map_or(0.0, |figures| figures.served as f64 / f64::from(figures.contenders.max(1)))
}

/// A step at each time, from 0 up to `share`, followed by a level line to `end`.
#[expect(clippy::cast_precision_loss, reason = "a number of points")]
fn staircase(times: &[f64], share: f64, end: Option<f64>) -> Vec<(f64, f64)> {
    let height = |number: usize| share * number as f64 / times.len() as f64;
    let steps = times.iter().enumerate();
    let stairs = steps.flat_map(|(number, time)| [(*time, height(number)), (*time, height(number + 1))]);
    let level = end.filter(|_| !times.is_empty()).map(|end| (end, share));
    stairs.chain(level).collect()
}

/// A plot with one curve per arm and a legend below.
struct Plot {
    time: Axis,
    time_label: &'static str,
    share_label: &'static str,
    /// Times and shares.
    curves: Vec<Vec<(f64, f64)>>,
    /// The names in the legend.
    names: Vec<String>,
}

impl Plot {
    fn draw(&self, title: &str, arms: &[&ArmReport]) -> String {
        let longest = self.names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        #[expect(clippy::cast_precision_loss, reason = "a number of characters")]
        let is_wide = (longest as f64).mul_add(CHARACTER_WIDTH, SAMPLE_WIDTH) > (WIDTH - LEFT - RIGHT) / 2.0;
        let columns = if is_wide { 1 } else { 2 };
        let bottom = TOP + HEIGHT;
        let rows = arms.len().div_ceil(columns);
        #[expect(clippy::cast_precision_loss, reason = "a number of rows")]
        let legend = rows as f64 * ENTRY_HEIGHT;
        let mut svg = Svg::new(WIDTH, bottom + BOTTOM + legend + MARGIN, title);
        let shares = Axis::linear(100.0, (bottom, TOP));
        svg.frame(&self.time, (TOP, bottom), [self.time_label, self.share_label]);
        for tick in shares.ticks() {
            svg.level(shares.position(tick), &format!("{tick:.0} %"));
        }
        let strokes = strokes(arms);
        for (curve, stroke) in self.curves.iter().zip(&strokes) {
            let point =
                |(time, share): &(f64, f64)| (self.time.position(*time), shares.position(share * 100.0));
            svg.line(&curve.iter().map(point).collect::<Vec<_>>(), *stroke);
        }
        for (number, (name, stroke)) in self.names.iter().zip(&strokes).enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "a number of entries")]
            let (column, row) = ((number / rows) as f64, (number % rows) as f64);
            let x = LEFT + column * (WIDTH - LEFT - RIGHT) / 2.0;
            let y = bottom + BOTTOM + row * ENTRY_HEIGHT;
            svg.line(&[(x, y), (x + SAMPLE_WIDTH - 10.0, y)], *stroke);
            svg.text((x + SAMPLE_WIDTH, y + 4.0), NAME, name);
        }
        svg.finish()
    }
}
