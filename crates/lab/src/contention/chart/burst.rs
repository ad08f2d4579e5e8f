//! The shape of a burst: arrivals over time, or who was served when, a panel for each arm.

use std::time::Duration;

use super::axis::{Axis, plain, time};
use super::svg::{Anchor, FAINT, GRID_LINE, Hand, LABEL, Svg, TEXT};
use super::{LEFT, RIGHT, SINCE, TOP, WIDTH, ink};
use crate::contention::figures::{ARRIVALS_BUCKET, SERVED_BUCKET};
use crate::contention::report::ArmReport;

const PANEL: f64 = 54.0;
/// Above a panel stands its name.
const NAME: f64 = 24.0;
const BELOW: f64 = 56.0;

/// What is counted over time.
struct Counted {
    label: &'static str,
    of: fn(&ArmReport) -> &[u32],
    bucket: Duration,
}

const ARRIVALS: Counted =
    Counted { label: "requests in each 10 ms", of: |arm| &arm.series.arrivals, bucket: ARRIVALS_BUCKET };
const SERVED: Counted =
    Counted { label: "served in each 50 ms", of: |arm| &arm.series.served, bucket: SERVED_BUCKET };

pub(super) fn arrivals(title: &str, arms: &[&ArmReport]) -> String {
    draw(title, arms, &ARRIVALS)
}

pub(super) fn served(title: &str, arms: &[&ArmReport]) -> String {
    draw(title, arms, &SERVED)
}

fn draw(title: &str, arms: &[&ArmReport], counted: &Counted) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a number of panels")]
    let height = TOP + (PANEL + NAME) * arms.len() as f64 + BELOW;
    let mut svg = Svg::new(WIDTH, height, title);
    let longest = arms.iter().map(|arm| (counted.of)(arm).len()).max().unwrap_or(1);
    let across = Axis::linear(counted.start(longest), (LEFT, WIDTH - RIGHT));
    let bottom = height - BELOW;
    for tick in across.ticks() {
        let x = across.place(tick);
        svg.line(&[(x, TOP - 8.0), (x, bottom)], GRID_LINE);
        svg.text((x, bottom + 18.0), LABEL, &time(tick));
    }
    svg.text((f64::midpoint(LEFT, WIDTH - RIGHT), bottom + 40.0), LABEL, SINCE);
    svg.upward((20.0, f64::midpoint(TOP, bottom)), counted.label);
    let mut top = TOP;
    for (arm, stroke) in arms.iter().zip(ink::strokes(arms)) {
        counted.panel(&mut svg, arm, &across, (top + NAME, stroke.colour));
        top += PANEL + NAME;
    }
    svg.finish()
}

impl Counted {
    /// When a bucket begins.
    #[expect(clippy::cast_precision_loss, reason = "a time of a lab")]
    fn start(&self, number: usize) -> f64 {
        number as f64 * self.bucket.as_millis() as f64
    }

    fn panel(&self, svg: &mut Svg, arm: &ArmReport, across: &Axis, (top, colour): (f64, &'static str)) {
        let (bottom, end) = (top + PANEL, WIDTH - RIGHT);
        let counts = (self.of)(arm);
        let up = Axis::linear(f64::from(counts.iter().copied().max().unwrap_or(1)), (bottom, top));
        svg.text((LEFT + 4.0, top - 6.0), Hand { size: 12, colour: TEXT, anchor: Anchor::Start }, &arm.name);
        for tick in [0.0, up.high()] {
            svg.line(&[(LEFT, up.place(tick)), (end, up.place(tick))], GRID_LINE);
            let hand = Hand { size: 11, colour: FAINT, anchor: Anchor::End };
            svg.text((LEFT - 6.0, up.place(tick) + 4.0), hand, &plain(tick));
        }
        for (number, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (from, to) = (across.place(self.start(number)), across.place(self.start(number + 1)));
            let y = up.place(f64::from(*count));
            svg.rect((from, y), ((to - from).max(1.0), bottom - y), colour);
        }
    }
}
