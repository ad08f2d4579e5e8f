use std::time::Duration;

use resvg::tiny_skia::Pixmap;

use super::*;
use crate::contention::figures::{Figures, Series};
use crate::contention::plan::{Plan, Scenario, Size};
use crate::contention::trace::{Answer, Attempt, Trace};

/// A scenario in which every arm has seen something of its own.
pub(crate) fn measured(scenario: Scenario) -> ScenarioReport {
    let plan = Plan { seed: 1, size: Size::Small, scenarios: vec![scenario], limit: Duration::from_secs(1) };
    let measured = |(number, arm): (u64, crate::contention::plan::Arm)| {
        let attempt = |contender: u32| Attempt {
            contender,
            number: 1 + contender % 2,
            sent: Duration::from_millis(u64::from(contender) * number * 7),
            took: Duration::from_micros(u64::from(contender + 1) * (number + 1) * 333),
            answer: Answer::Ok,
        };
        let attempts: Vec<_> = (0..20).map(attempt).collect();
        let served = attempts.iter().map(|attempt| attempt.sent + attempt.took).collect();
        let elapsed = Duration::from_secs(2);
        let has_unseen_arrivals = matches!(scenario, Scenario::RunLock | Scenario::Fairness);
        let trace =
            Trace { contenders: 25, attempts, served, elapsed, has_unseen_arrivals, ..Trace::default() };
        ArmReport { figures: Some(Figures::of(&trace)), series: Series::of(&trace), ..ArmReport::new(&arm) }
    };
    let arms = (0..).zip(plan.arms(scenario, false)).map(measured).collect();
    ScenarioReport { scenario, sentence: scenario.sentence(), arms }
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

#[test]
fn every_picture_names_its_axes_with_units_and_every_arm_once() {
    let scenario = measured(Scenario::Admission);
    let all = pictures(&scenario);
    assert_eq!(
        all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
        ["admission-burst", "admission-latency", "admission-waves"]
    );
    for picture in &all {
        for arm in &scenario.arms {
            assert_eq!(count(&picture.svg, &format!(">{}<", arm.name)), 1, "{}: {}", picture.name, arm.name);
        }
        assert!(
            picture.svg.contains(" ms</text>") && picture.svg.contains(&picture.title),
            "{}",
            picture.name
        );
    }
    for (picture, axes) in all.iter().zip([
        ["time since the first request", "requests in each 10 ms"],
        ["time from sending to answer (logarithmic)", "requests answered"],
        ["time since the first request", "contenders served"],
    ]) {
        assert!(axes.iter().all(|axis| picture.svg.contains(axis)), "{}", picture.name);
    }
}

#[test]
fn where_arrivals_are_not_all_seen_successes_are_shown_and_no_arrivals_are_claimed() {
    for scenario in [Scenario::RunLock, Scenario::Fairness] {
        let mut scenario = measured(scenario);
        // Two waves, half a second apart.
        scenario.arms[0].series.served = vec![3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
        let all = pictures(&scenario);
        let kinds = ["served", "latency", "waves"].map(|kind| format!("{}-{kind}", scenario.scenario));
        assert_eq!(all.iter().map(|one| one.name.clone()).collect::<Vec<_>>(), kinds);
        assert!(all.iter().all(|one| !one.svg.contains("arrivals") && !one.svg.contains("retries included")));
        assert!(all[0].title.ends_with("contenders that were served, in each 50 ms"), "{}", all[0].title);
        assert!(all[0].svg.contains("served in each 50 ms"));
        let bars =
            |number: usize| scenario.arms[number].series.served.iter().filter(|count| **count > 0).count();
        let expected: usize = (0..scenario.arms.len()).map(bars).sum();
        // The background is one more.
        assert_eq!(count(&all[0].svg, "<rect "), expected + 1);
    }
}

/// How high above the bottom of the plot the highest curve of a picture with one arm ends, of 1.
fn top_of_curve(svg: &str) -> f64 {
    let curve = svg.lines().find(|line| line.contains("stroke-width=\"2\"")).unwrap();
    let points = curve.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
    let heights = points.split(' ').map(|point| point.split(',').nth(1).unwrap().parse::<f64>().unwrap());
    (TOP + 320.0 - heights.fold(f64::INFINITY, f64::min)) / 320.0
}

#[test]
fn a_curve_of_answers_ends_at_the_share_that_was_answered_and_says_so() {
    let mut scenario = measured(Scenario::Admission);
    scenario.arms.truncate(1);
    let latency = |scenario: &ScenarioReport| pictures(scenario).remove(1).svg;
    let all = latency(&scenario);
    assert!((top_of_curve(&all) - 1.0).abs() < 0.001 && !all.contains("unanswered"), "{all}");
    let figures = scenario.arms[0].figures.as_mut().unwrap();
    (figures.requests, figures.unanswered) = (25, 5);
    let some = latency(&scenario);
    assert!((top_of_curve(&some) - 0.8).abs() < 0.001, "{some}");
    assert!(some.contains(&format!(">{} (5 of 25 unanswered)<", scenario.arms[0].name)), "{some}");
}

#[test]
fn there_is_one_curve_for_each_arm_and_no_two_look_alike() {
    for scenario in [Scenario::Admission, Scenario::Budget, Scenario::RunLock, Scenario::Locks] {
        let scenario = measured(scenario);
        let arms: Vec<_> = scenario.arms.iter().collect();
        let strokes = ink::strokes(&arms);
        for (number, stroke) in strokes.iter().enumerate() {
            assert!(!strokes[..number].contains(stroke), "{}", arms[number].name);
        }
        for picture in &pictures(&scenario)[1..] {
            // Each stands once in the plot and once in the legend.
            assert_eq!(count(&picture.svg, "stroke-width=\"2\""), 2 * arms.len(), "{}", picture.name);
        }
    }
}

#[test]
fn no_number_of_a_picture_is_none() {
    let mut scenario = measured(Scenario::Locks);
    scenario.arms[0].series = Series { request_ms: vec![0.0], ..Series::default() };
    scenario.arms[1].series = Series {
        arrivals: vec![0, 0],
        request_ms: vec![f64::NAN],
        served_ms: vec![f64::NAN],
        served: vec![0],
    };
    scenario.arms[2].figures = None;
    for picture in pictures(&scenario) {
        assert!(!picture.svg.contains("NaN") && !picture.svg.contains("inf"), "{}", picture.svg);
    }
}

#[test]
fn where_nothing_was_measured_there_is_nothing_to_see() {
    let mut scenario = measured(Scenario::Locks);
    scenario.arms.iter_mut().for_each(|arm| arm.series = Series::default());
    assert_eq!(pictures(&scenario).len(), 0);
}

/// Whether something else than the background is seen in this part of the picture, in its own units.
fn has_ink(pixels: &Pixmap, (left, top): (u32, u32), (right, bottom): (u32, u32)) -> bool {
    let scaled = |number: u32| number * 3 / 2;
    let mut places =
        (scaled(top)..scaled(bottom)).flat_map(|y| (scaled(left)..scaled(right)).map(move |x| (x, y)));
    places.any(|(x, y)| pixels.pixel(x, y).is_some_and(|pixel| pixel.red() < 128))
}

#[test]
fn a_picture_in_pixels_shows_its_words() {
    for picture in pictures(&measured(Scenario::RunLock)) {
        let pixels = Pixmap::decode_png(&png(&picture.svg).unwrap()).unwrap();
        assert_eq!(pixels.width(), 1_470);
        assert!(has_ink(&pixels, (24, 16), (400, 36)), "{}: the title", picture.name);
        assert!(!has_ink(&pixels, (0, 0), (980, 10)), "{}: the margin", picture.name);
        assert!(has_ink(&pixels, (8, 100), (24, 400)), "{}: the axis on the left", picture.name);
    }
}
