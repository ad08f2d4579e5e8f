//! SVG charts of a report.
//!
//! * `panels`: arrivals or successes over time, one panel per arm
//! * `curves`: cumulative shares of requests and contenders
//! * `svg`: lines, bars and text; `axis`: ticks and their labels; `strokes`: colours and dashes

mod axis;
mod curves;
mod panels;
mod strokes;
mod svg;

pub(super) use svg::escaped;

use super::report::{ArmReport, ScenarioReport};

const WIDTH: f64 = 980.0;

/// The margins of a plot.
const LEFT: f64 = 74.0;
const RIGHT: f64 = 34.0;
const TOP: f64 = 66.0;

/// The label of a time axis.
const SINCE_START: &str = "time since the first request";

pub(super) struct Chart {
    /// The file name without its extension.
    pub(super) name: String,
    pub(super) title: String,
    pub(super) svg: String,
}

/// The charts of a scenario; none if nothing was measured.
pub(super) fn charts(scenario: &ScenarioReport) -> Vec<Chart> {
    let arms: Vec<&ArmReport> =
        scenario.arms.iter().filter(|arm| !arm.series.request_ms.is_empty()).collect();
    if arms.is_empty() {
        return Vec::new();
    }
    let chart = |kind: &str, subject: &str, draw: fn(&str, &[&ArmReport]) -> String| {
        let title = format!("{}: {subject}", scenario.scenario);
        Chart { name: format!("{}-{kind}", scenario.scenario), svg: draw(&title, &arms), title }
    };
    let mut all = Vec::new();
    if arms.iter().any(|arm| !arm.series.arrivals.is_empty()) {
        all.push(chart("burst", "arrivals at the server per 10 ms, retries included", panels::arrivals));
    } else if arms.iter().any(|arm| !arm.series.served.is_empty()) {
        // The lab does not see all arrivals here, but it sees all successes.
        all.push(chart("served", "contenders served per 50 ms", panels::served));
    }
    all.push(chart("latency", "share of requests answered within a time", curves::latency));
    if arms.iter().any(|arm| !arm.series.served_ms.is_empty()) {
        all.push(chart("waves", "share of contenders served by a time", curves::waves));
    }
    all
}

#[cfg(test)]
pub(super) mod tests;
