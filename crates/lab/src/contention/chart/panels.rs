//! Counts over time, one panel per arm.

use std::time::Duration;

use super::axis::{Axis, decimal};
use super::strokes::strokes;
use super::svg::{NAME, Svg};
use super::{LEFT, RIGHT, SINCE_START, TOP, WIDTH};
use crate::contention::figures::{ARRIVALS_BUCKET, SERVED_BUCKET};
use crate::contention::report::ArmReport;

const PANEL_HEIGHT: f64 = 54.0;
const NAME_HEIGHT: f64 = 24.0;
const BOTTOM: f64 = 56.0;

struct Panels {
    label: &'static str,
    counts: fn(&ArmReport) -> &[u32],
    bucket: Duration,
}

pub(super) fn arrivals(title: &str, arms: &[&ArmReport]) -> String {
    let counts: fn(&ArmReport) -> &[u32] = |arm| &arm.series.arrivals;
    Panels { label: "requests per 10 ms", counts, bucket: ARRIVALS_BUCKET }.draw(title, arms)
}

pub(super) fn served(title: &str, arms: &[&ArmReport]) -> String {
    let counts: fn(&ArmReport) -> &[u32] = |arm| &arm.series.served;
    Panels { label: "served per 50 ms", counts, bucket: SERVED_BUCKET }.draw(title, arms)
}

impl Panels {
    fn draw(&self, title: &str, arms: &[&ArmReport]) -> String {
        #[expect(clippy::cast_precision_loss, reason = "a number of panels")]
        let height = TOP + (PANEL_HEIGHT + NAME_HEIGHT) * arms.len() as f64 + BOTTOM;
        let mut svg = Svg::new(WIDTH, height, title);
        let longest = arms.iter().map(|arm| (self.counts)(arm).len()).max().unwrap_or(1);
        let time = Axis::linear(self.start_ms(longest), (LEFT, WIDTH - RIGHT));
        let bottom = height - BOTTOM;
        svg.frame(&time, (TOP, bottom), [SINCE_START, self.label]);
        let mut top = TOP;
        for (arm, stroke) in arms.iter().zip(strokes(arms)) {
            self.panel(&mut svg, arm, &time, (top + NAME_HEIGHT, stroke.colour));
            top += PANEL_HEIGHT + NAME_HEIGHT;
        }
        svg.finish()
    }

    #[expect(clippy::cast_precision_loss, reason = "a lab lasts minutes")]
    fn start_ms(&self, bucket: usize) -> f64 {
        bucket as f64 * self.bucket.as_millis() as f64
    }

    fn panel(&self, svg: &mut Svg, arm: &ArmReport, time: &Axis, (top, colour): (f64, &'static str)) {
        let bottom = top + PANEL_HEIGHT;
        let counts = (self.counts)(arm);
        let count_axis = Axis::linear(f64::from(counts.iter().copied().max().unwrap_or(1)), (bottom, top));
        svg.text((LEFT + 4.0, top - 6.0), NAME, &arm.arm.name);
        for tick in [0.0, count_axis.high()] {
            svg.level(count_axis.position(tick), &decimal(tick));
        }
        for (bucket, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (from, to) = (time.position(self.start_ms(bucket)), time.position(self.start_ms(bucket + 1)));
            let y = count_axis.position(f64::from(*count));
            svg.rect((from, y), ((to - from).max(1.0), bottom - y), colour);
        }
    }
}
