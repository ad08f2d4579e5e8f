use super::*;
use crate::contention::{Book, Cohorts, Figures, Guards, NewRollout, ResultEvent, Scope, Share, Signed};
use crate::retry::RetryPolicy;

fn rollout(guards: Guards) -> Rollout {
    let new = NewRollout {
        id: "one".parse().unwrap(),
        candidate: RetryPolicy::Fixed { delay_ms: 5_000 },
        configured: Scope::LockBusy.tuning(),
        share: Share::of_percent(10.0).unwrap(),
        duration: Duration::from_hours(1),
        guards,
    };
    let signed = Signed { by: "ada".to_owned(), at: Timestamp::ZERO, reason: None };
    Book::default().start(new, signed).unwrap()
}

/// Results of one arm that arrived together, at the start.
#[derive(Clone, Copy)]
struct Group {
    results: u64,
    retries_each: u32,
    /// None: they have not ended.
    ended_after_ms: Option<u64>,
}

fn group(results: u64, retries_each: u32, ended_after_ms: u64) -> Group {
    Group { results, retries_each, ended_after_ms: Some(ended_after_ms) }
}

fn outstanding(results: u64) -> Group {
    Group { results, retries_each: 1, ended_after_ms: None }
}

fn count(measured: &mut Measured, arm: Arm, groups: &[Group]) {
    for Group { results, retries_each, ended_after_ms } in groups {
        let delay = Duration::from_millis(ended_after_ms.unwrap_or_default()) / (*retries_each).max(1);
        for _ in 0..*results {
            for attempt in 1..=*retries_each {
                let event = ResultEvent::Busy { attempt, waited: delay * (attempt - 1), delay };
                measured.count(arm, Duration::ZERO, &event);
            }
            if let Some(millis) = ended_after_ms {
                let waited = Duration::from_millis(*millis);
                let took = waited + Duration::from_millis(2);
                let event = ResultEvent::Settled { attempt: retries_each + 1, waited, took };
                measured.count(arm, Duration::ZERO, &event);
            }
        }
    }
}

fn measured(control: &[Group], candidate: &[Group]) -> Measured {
    let mut measured = Measured::default();
    count(&mut measured, Arm::Control, control);
    count(&mut measured, Arm::Candidate, candidate);
    measured
}

fn judge(control: &[Group], candidate: &[Group], after: Duration) -> Judgement {
    judge_under(Guards::default(), &measured(control, candidate), after)
}

fn judge_under(guards: Guards, measured: &Measured, after: Duration) -> Judgement {
    let rollout = rollout(guards);
    Trial { rollout: &rollout, measured, now: Timestamp::ZERO + after }.judge()
}

const SOON: Duration = Duration::from_secs(20);
const AFTERWARDS: Duration = Duration::from_hours(1);

#[test]
fn a_harmful_candidate_is_rolled_back_at_once() {
    let judged = judge(&[group(200, 1, 480)], &[group(50, 1, 4_900)], SOON);
    let Judgement::RollBack(why) = judged else { panic!("{judged:?}") };
    assert!(why.contains("p95 lock wait") && why.contains("more than 2 times"), "{why}");
    assert!(why.contains("the control's 49") && why.contains("ms"), "{why}");
}

#[test]
fn no_guard_ends_a_rollout_before_the_arms_were_observed_for_a_while() {
    let harmful = |after| judge(&[group(200, 1, 480)], &[group(50, 1, 4_900)], after);
    let judged = harmful(OBSERVED_MIN.saturating_sub(Duration::from_millis(1)));
    assert_eq!(judged, Judgement::Continue("no guard is violated".to_owned()));
    assert!(matches!(harmful(OBSERVED_MIN), Judgement::RollBack(_)));
}

#[test]
fn a_candidate_that_only_retries_more_is_rolled_back_too() {
    let judged = judge(&[group(200, 1, 480)], &[group(60, 4, 480)], SOON);
    assert!(matches!(&judged, Judgement::RollBack(why) if why.contains("retries per result")), "{judged:?}");
}

#[test]
fn retries_are_not_compared_while_many_results_have_not_ended() {
    let candidate = [group(54, 4, 480), outstanding(6)];
    let judged = judge(&[group(60, 1, 480), outstanding(6)], &candidate, SOON);
    assert_eq!(judged, Judgement::Continue("no guard is violated".to_owned()));
}

#[test]
fn nothing_is_concluded_from_too_few_samples() {
    for (control, candidate) in [(200, 49), (49, 200)] {
        let judged = judge(&[group(control, 1, 480)], &[group(candidate, 9, 60_000)], SOON);
        let Judgement::Continue(why) = judged else { panic!("{judged:?}") };
        assert!(why.starts_with("too few samples"), "{why}");
    }
    let judged = judge(&[group(200, 1, 480)], &[group(10, 0, 1)], AFTERWARDS);
    assert!(matches!(&judged, Judgement::RollBack(why) if why.contains("too few samples")), "{judged:?}");
}

#[test]
fn results_that_may_still_wait_at_their_first_delivery_are_no_samples() {
    // What is known of them are the quick ones.
    let measured = measured(&[group(200, 1, 480)], &[group(60, 0, 1)]);
    let judge = |after| judge_under(Guards::default(), &measured, Duration::from_secs(after));
    assert!(matches!(judge(6), Judgement::Continue(why) if why.starts_with("too few samples")));
    assert_eq!(judge(7), Judgement::Continue("no guard is violated".to_owned()));
}

#[test]
fn results_without_a_latency_are_no_samples() {
    let (all, few) = (measured(&[], &[group(60, 0, 1)]), measured(&[], &[group(10, 0, 1)]));
    let mut written = serde_json::to_value(measured(&[group(200, 1, 480)], &[group(60, 0, 1)])).unwrap();
    let latency = |measured: &Measured| {
        serde_json::to_value(measured).unwrap()["candidate_cohorts"]["rows"]["0"]["result_latency"].clone()
    };
    assert_ne!(latency(&all), latency(&few));
    written["candidate_cohorts"]["rows"]["0"]["result_latency"] = latency(&few);
    let measured: Measured = serde_json::from_value(written).unwrap();
    let judged = judge_under(Guards::default(), &measured, AFTERWARDS);
    assert!(matches!(&judged, Judgement::RollBack(why) if why.contains("too few samples")), "{judged:?}");
}

#[test]
fn a_guard_is_violated_only_if_the_intervals_do_not_overlap() {
    let measured = measured(&[group(200, 1, 480)], &[group(60, 1, 900)]);
    let judged = judge_under(Guards::default(), &measured, SOON);
    assert_eq!(judged, Judgement::Continue("no guard is violated".to_owned()));
    let strict = Guards { ratio: 1.0, ..Guards::default() };
    assert!(matches!(judge_under(strict, &measured, SOON), Judgement::RollBack(_)));
}

#[test]
fn outstanding_results_count_against_a_candidate_for_as_long_as_they_have_waited() {
    let control = [group(300, 1, 480)];
    // Most results are applied at once, and a tenth does not come back.
    let candidate = [group(300, 0, 4), outstanding(33)];
    let judged = judge(&control, &candidate, SOON);
    assert!(matches!(&judged, Judgement::RollBack(why) if why.contains("lock wait")), "{judged:?}");
    let judged = judge(&control, &candidate, AFTERWARDS);
    assert!(matches!(judged, Judgement::RollBack(_)), "{judged:?}");
    // No result is applied at all.
    let judged = judge(&control, &[outstanding(60)], SOON);
    assert!(matches!(judged, Judgement::RollBack(_)), "{judged:?}");
    // As many of both arms: they say nothing about the candidate.
    let judged = judge(&[group(300, 1, 480), outstanding(33)], &candidate, SOON);
    assert!(matches!(judged, Judgement::Continue(_)), "{judged:?}");
}

#[test]
fn an_absolute_limit_does_not_depend_on_the_control() {
    let guards = Guards { max_p99_lock_wait_ms: Some(1_000), ..Guards::default() };
    let judged = judge_under(guards, &measured(&[group(5, 1, 4_900)], &[group(50, 1, 4_900)]), SOON);
    assert!(
        matches!(&judged, Judgement::RollBack(why) if why.contains("the limit is 1000 ms")),
        "{judged:?}"
    );
    let judged = judge_under(guards, &measured(&[group(200, 1, 480)], &[group(50, 1, 480)]), SOON);
    assert!(matches!(judged, Judgement::Continue(_)));
}

#[test]
fn at_the_end_only_an_improvement_of_both_metrics_is_promoted() {
    let judge = |candidate: &[Group]| judge(&[group(500, 3, 900)], candidate, AFTERWARDS);
    let better = judge(&[group(60, 1, 300)]);
    assert!(
        matches!(&better, Judgement::Promote(why) if why.contains("retries and result latency improved")),
        "{better:?}"
    );
    for (candidate, reason) in [
        (group(60, 3, 300), "retries did not improve"),
        (group(60, 1, 900), "result latency did not improve"),
        (group(60, 3, 900), "neither retries nor result latency improved"),
    ] {
        let judged = judge(&[candidate]);
        assert!(matches!(&judged, Judgement::RollBack(why) if why.contains(reason)), "{judged:?}");
    }
}

#[test]
fn a_latency_that_is_not_known_yet_has_not_improved() {
    let judged = judge(&[group(100, 2, 250_000)], &[group(50, 0, 1), outstanding(6)], AFTERWARDS);
    assert!(
        matches!(&judged, Judgement::RollBack(why) if why.contains("latency did not improve")),
        "{judged:?}"
    );
}

#[test]
fn retries_per_minute_are_scaled_to_the_load_of_both_arms() {
    let rollout = rollout(Guards::default());
    let measured = measured(&[group(900, 2, 480)], &[group(100, 1, 480)]);
    let now = Timestamp::ZERO + Duration::from_mins(10);
    let ArmSummaries { control, candidate } =
        Trial { rollout: &rollout, measured: &measured, now }.summaries();
    let per_minute = |arm: &ArmSummary| arm.retries_per_minute.unwrap().value;
    assert!((per_minute(&control) - 200.0).abs() < 1e-6);
    assert!((per_minute(&candidate) - 100.0).abs() < 1e-6);
    assert!((candidate.first_retry_success.unwrap().value - 1.0).abs() < 1e-9);
    assert_eq!(control.first_retry_success.unwrap().value.to_bits(), 0.0_f64.to_bits());
}

#[test]
fn figures_of_a_release_without_cohorts_are_read_and_tell_of_what_has_ended() {
    let without = |measured: Measured| measured.without_cohorts();
    let old = without(measured(&[group(900, 2, 480), outstanding(90)], &[group(100, 1, 300)]));
    let text = serde_json::to_string(&old).unwrap();
    assert!(!text.contains("cohorts"), "as the older release wrote it");
    let old: Measured = serde_json::from_str(&text).unwrap();
    let rollout = rollout(Guards::default());
    let trial = Trial { rollout: &rollout, measured: &old, now: Timestamp::ZERO + SOON };
    let ArmSummaries { control, candidate } = trial.summaries();
    let p95 = |arm: &ArmSummary| arm.lock_wait_p95_ms.unwrap().high;
    assert_eq!((p95(&control), p95(&candidate)), (Some(500.0), Some(350.0)));
    assert!((control.retries_per_result.unwrap().value - 1_890.0 / 900.0).abs() < 1e-9);
    assert_eq!(old.control, Figures { ..old.control.clone() });
    assert_eq!(old.control_cohorts, Cohorts::default());
}
