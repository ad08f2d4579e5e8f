//! The shape of a burst: arrivals over time, a panel for each arm.

use super::axis::{Axis, plain, time};
use super::svg::{Anchor, FAINT, GRID_LINE, Hand, LABEL, Svg, TEXT};
use super::{LEFT, RIGHT, TOP, WIDTH, ink};
use crate::contention::figures::BUCKET;
use crate::contention::report::ArmReport;

const PANEL: f64 = 54.0;
/// Above a panel stands its name.
const NAME: f64 = 24.0;
const BELOW: f64 = 56.0;

pub(super) fn draw(title: &str, arms: &[&ArmReport]) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a number of panels")]
    let height = TOP + (PANEL + NAME) * arms.len() as f64 + BELOW;
    let mut svg = Svg::new(WIDTH, height, title);
    let longest = arms.iter().map(|arm| arm.series.arrivals.len()).max().unwrap_or(1);
    let across = Axis::linear(bucket_start(longest), (LEFT, WIDTH - RIGHT));
    let bottom = height - BELOW;
    for tick in across.ticks() {
        let x = across.place(tick);
        svg.line(&[(x, TOP - 8.0), (x, bottom)], GRID_LINE);
        svg.text((x, bottom + 18.0), LABEL, &time(tick));
    }
    svg.text((f64::midpoint(LEFT, WIDTH - RIGHT), bottom + 40.0), LABEL, "time since all were let go");
    svg.upward((20.0, f64::midpoint(TOP, bottom)), "requests in each 10 ms");
    let mut top = TOP;
    for (arm, stroke) in arms.iter().zip(ink::strokes(arms)) {
        panel(&mut svg, arm, &across, (top + NAME, stroke.colour));
        top += PANEL + NAME;
    }
    svg.finish()
}

fn panel(svg: &mut Svg, arm: &ArmReport, across: &Axis, (top, colour): (f64, &'static str)) {
    let (bottom, end) = (top + PANEL, WIDTH - RIGHT);
    let arrivals = &arm.series.arrivals;
    let up = Axis::linear(f64::from(arrivals.iter().copied().max().unwrap_or(1)), (bottom, top));
    svg.text((LEFT + 4.0, top - 6.0), Hand { size: 12, colour: TEXT, anchor: Anchor::Start }, &arm.name);
    for tick in [0.0, up.high()] {
        svg.line(&[(LEFT, up.place(tick)), (end, up.place(tick))], GRID_LINE);
        let hand = Hand { size: 11, colour: FAINT, anchor: Anchor::End };
        svg.text((LEFT - 6.0, up.place(tick) + 4.0), hand, &plain(tick));
    }
    for (number, count) in arrivals.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (from, to) = (across.place(bucket_start(number)), across.place(bucket_start(number + 1)));
        let y = up.place(f64::from(*count));
        svg.rect((from, y), ((to - from).max(1.0), bottom - y), colour);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a time of a lab")]
fn bucket_start(number: usize) -> f64 {
    number as f64 * BUCKET.as_millis() as f64
}
