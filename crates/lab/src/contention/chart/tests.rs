use std::time::Duration;

use super::*;
use crate::contention::figures::{ArmFigures, Series};
use crate::contention::plan::{LabArm, LabPlan, LabScenario, LabSize};
use crate::contention::trace::{LoadTrace, RequestAttempt, RequestOutcome};

/// A scenario in which every arm has different measurements.
pub(crate) fn measured(scenario: LabScenario) -> ScenarioReport {
    let plan =
        LabPlan { seed: 1, size: LabSize::Small, scenarios: vec![scenario], limit: Duration::from_secs(1) };
    let measured = |(number, arm): (u64, LabArm)| {
        let took = |contender: u32| Duration::from_micros(u64::from(contender + 1) * (number + 1) * 333);
        let attempt = |contender: u32| RequestAttempt {
            number: 1 + contender % 2,
            sent: Duration::from_millis(u64::from(contender) * number * 7),
            response: Some((took(contender), RequestOutcome::Ok)),
        };
        let attempts: Vec<_> = (0..20).map(attempt).collect();
        let served = (0..20).map(|contender| attempt(contender).sent + took(contender)).collect();
        let elapsed = Duration::from_secs(2);
        let has_unseen_arrivals = matches!(scenario, LabScenario::RunLock | LabScenario::Fairness);
        let trace = LoadTrace {
            contenders: 25,
            attempts,
            served,
            elapsed,
            has_unseen_arrivals,
            ..LoadTrace::default()
        };
        ArmReport {
            figures: Some(ArmFigures::of(&trace)),
            series: Series::of(&trace),
            ..ArmReport::new(&arm)
        }
    };
    let arms = (0..).zip(plan.arms(scenario, false)).map(measured).collect();
    ScenarioReport { scenario, sentence: scenario.sentence(), arms }
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

#[test]
fn every_chart_labels_its_axes_with_units_and_every_arm_once() {
    let scenario = measured(LabScenario::Admission);
    let all = charts(&scenario);
    assert_eq!(
        all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
        ["admission-burst", "admission-latency", "admission-waves"]
    );
    for chart in &all {
        for arm in &scenario.arms {
            assert_eq!(
                count(&chart.svg, &format!(">{}<", arm.arm.name)),
                1,
                "{}: {}",
                chart.name,
                arm.arm.name
            );
        }
        assert!(chart.svg.contains(" ms</text>") && chart.svg.contains(&chart.title), "{}", chart.name);
    }
    for (chart, axes) in all.iter().zip([
        ["time since the first request", "requests per 10 ms"],
        ["time from request to response (logarithmic)", "requests answered"],
        ["time since the first request", "contenders served"],
    ]) {
        assert!(axes.iter().all(|axis| chart.svg.contains(axis)), "{}", chart.name);
    }
}

#[test]
fn unseen_arrivals_give_a_chart_of_successes_instead() {
    for scenario in [LabScenario::RunLock, LabScenario::Fairness] {
        let mut scenario = measured(scenario);
        // Two waves, 500 ms apart.
        scenario.arms[0].series.served = vec![3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
        let all = charts(&scenario);
        let kinds = ["served", "latency", "waves"].map(|kind| format!("{}-{kind}", scenario.scenario));
        assert_eq!(all.iter().map(|one| one.name.clone()).collect::<Vec<_>>(), kinds);
        assert!(all.iter().all(|one| !one.svg.contains("arrivals") && !one.svg.contains("retries included")));
        assert!(all[0].title.ends_with("contenders served per 50 ms"), "{}", all[0].title);
        assert!(all[0].svg.contains("served per 50 ms"));
        let bars =
            |number: usize| scenario.arms[number].series.served.iter().filter(|count| **count > 0).count();
        let expected: usize = (0..scenario.arms.len()).map(bars).sum();
        // Plus the background.
        assert_eq!(count(&all[0].svg, "<rect "), expected + 1);
    }
}

/// The share at which the curve of a chart with one arm ends.
fn top_of_curve(svg: &str) -> f64 {
    let curve = svg.lines().find(|line| line.contains("stroke-width=\"2\"")).unwrap();
    let points = curve.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
    let heights = points.split(' ').map(|point| point.split(',').nth(1).unwrap().parse::<f64>().unwrap());
    (TOP + 320.0 - heights.fold(f64::INFINITY, f64::min)) / 320.0
}

#[test]
fn a_latency_curve_ends_at_the_answered_share_and_the_legend_says_so() {
    let mut scenario = measured(LabScenario::Admission);
    scenario.arms.truncate(1);
    let latency = |scenario: &ScenarioReport| charts(scenario).remove(1).svg;
    let all = latency(&scenario);
    assert!((top_of_curve(&all) - 1.0).abs() < 0.001 && !all.contains("unanswered"), "{all}");
    let figures = scenario.arms[0].figures.as_mut().unwrap();
    (figures.requests, figures.unanswered) = (25, 5);
    let some = latency(&scenario);
    assert!((top_of_curve(&some) - 0.8).abs() < 0.001, "{some}");
    assert!(some.contains(&format!(">{} (5 of 25 unanswered)<", scenario.arms[0].arm.name)), "{some}");
}

#[test]
fn every_arm_has_one_curve_with_a_stroke_of_its_own() {
    for scenario in [LabScenario::Admission, LabScenario::Budget, LabScenario::RunLock, LabScenario::Locks] {
        let scenario = measured(scenario);
        let arms: Vec<_> = scenario.arms.iter().collect();
        let strokes = strokes::strokes(&arms);
        for (number, stroke) in strokes.iter().enumerate() {
            assert!(!strokes[..number].contains(stroke), "{}", arms[number].arm.name);
        }
        for chart in &charts(&scenario)[1..] {
            // Once in the plot and once in the legend.
            assert_eq!(count(&chart.svg, "stroke-width=\"2\""), 2 * arms.len(), "{}", chart.name);
        }
    }
}

#[test]
fn charts_contain_no_nan_and_no_infinity() {
    let mut scenario = measured(LabScenario::Locks);
    scenario.arms[0].series = Series { request_ms: vec![0.0], ..Series::default() };
    scenario.arms[1].series = Series {
        arrivals: vec![0, 0],
        request_ms: vec![f64::NAN],
        served_ms: vec![f64::NAN],
        served: vec![0],
    };
    scenario.arms[2].figures = None;
    for chart in charts(&scenario) {
        assert!(!chart.svg.contains("NaN") && !chart.svg.contains("inf"), "{}", chart.svg);
    }
}

#[test]
fn a_scenario_without_measurements_has_no_charts() {
    let mut scenario = measured(LabScenario::Locks);
    scenario.arms.iter_mut().for_each(|arm| arm.series = Series::default());
    assert_eq!(charts(&scenario).len(), 0);
}
