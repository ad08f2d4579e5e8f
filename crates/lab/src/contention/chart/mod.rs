//! Pictures of a report, as SVG and as PNG.
//!
//! * `burst`: arrivals or successes over time, a panel for each arm
//! * `curves`: how long requests took, and who was served when
//! * `svg`: lines, bars and words; `axis`: where ticks stand and what they say; `ink`: colours
//! * `png`: the same picture in pixels

mod axis;
mod burst;
mod curves;
mod ink;
mod png;
mod svg;

pub use png::png;
pub(super) use svg::escaped;

use super::report::{ArmReport, ScenarioReport};

/// How wide every picture is.
const WIDTH: f64 = 980.0;

/// What is left free beside a plot.
const LEFT: f64 = 74.0;
const RIGHT: f64 = 34.0;
const TOP: f64 = 66.0;

/// From when times count.
const SINCE: &str = "time since the first request";

/// A picture of a scenario.
pub struct Picture {
    /// The name of its files, without an end.
    pub name: String,
    /// What is seen on it, for those who do not see it.
    pub title: String,
    pub svg: String,
}

/// The pictures of a scenario; none of one in which nothing was measured.
#[must_use]
pub fn pictures(scenario: &ScenarioReport) -> Vec<Picture> {
    let arms: Vec<&ArmReport> =
        scenario.arms.iter().filter(|arm| !arm.series.request_ms.is_empty()).collect();
    if arms.is_empty() {
        return Vec::new();
    }
    let picture = |kind: &str, words: &str, draw: fn(&str, &[&ArmReport]) -> String| {
        let title = format!("{}: {words}", scenario.scenario);
        Picture { name: format!("{}-{kind}", scenario.scenario), svg: draw(&title, &arms), title }
    };
    let mut all = Vec::new();
    if arms.iter().any(|arm| !arm.series.arrivals.is_empty()) {
        all.push(picture(
            "burst",
            "arrivals at the server, retries included, in each 10 ms",
            burst::arrivals,
        ));
    } else if arms.iter().any(|arm| !arm.series.served.is_empty()) {
        // What arrives is not all seen; what comes of it is.
        all.push(picture("served", "contenders that were served, in each 50 ms", burst::served));
    }
    all.push(picture("latency", "share of all requests that were answered within a time", curves::latency));
    if arms.iter().any(|arm| !arm.series.served_ms.is_empty()) {
        all.push(picture("waves", "share of contenders that were served by a time", curves::waves));
    }
    all
}

#[cfg(test)]
pub(super) mod tests;
