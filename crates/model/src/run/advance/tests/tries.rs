//! Attempts: failed, lost, late and repeated.

use std::time::Duration;

use serde_json::json;

use super::super::super::{InboxEvent, RunStatus};
use super::super::{Effects, LOSSES_MAX};
use super::{TestRun, worker};
use crate::history::EventKind;
use crate::job::JobOutcome;
use crate::step::StepStatus;

#[test]
fn a_failed_attempt_is_retried_after_a_delay_derived_from_its_seed() {
    let retry = json!({"max_retries": 2, "initial_backoff_sec": 10, "multiplier": 2, "max_backoff_sec": 60});
    let mut test = TestRun::of(&json!({"a": {"type": "worker", "topic": "t", "retry": retry}}), json!({}));
    for failure in 1..=2_u32 {
        assert_eq!(test.fail(true).id.attempt, failure);
        let wake_at = test.step("a").wake_at.expect("a retry is scheduled");
        let seed = crate::retry::Seed::of_retry(test.run.start.run, &"a".parse().unwrap(), failure);
        let step = &test.workflow.steps[&"a".parse().unwrap()];
        assert_eq!(wake_at, test.now + step.retry.delay(failure, seed));
        assert_eq!(test.run.head.due_at, Some(wake_at));
        assert!(test.jobs.is_empty());
        test.pass(wake_at.since(test.now));
        assert_eq!(test.jobs.len(), 1);
    }
    test.complete(json!(1));
    assert_eq!(
        (test.status(), test.step("a").attempts, test.step("a").failures),
        (RunStatus::Succeeded, 3, 2)
    );
}

#[test]
fn retries_end_and_the_run_fails() {
    let retry = json!({"max_retries": 1, "initial_backoff_sec": 0});
    let mut test = TestRun::of(&json!({"a": {"type": "worker", "topic": "t", "retry": retry}}), json!({}));
    test.fail(true);
    test.pass(Duration::from_millis(1));
    test.fail(true);
    assert_eq!((test.status(), test.step("a").status), (RunStatus::Failed, StepStatus::Failed));
    assert_eq!(test.run.head.error.as_ref().unwrap().message, "boom");
}

#[test]
fn a_failure_that_is_not_retryable_ends_the_step_at_once() {
    let retry = json!({"max_retries": 5});
    let mut test = TestRun::of(&json!({"a": {"type": "worker", "topic": "t", "retry": retry}}), json!({}));
    test.fail(false);
    assert_eq!(test.status(), RunStatus::Failed);
}

#[test]
fn a_lost_dispatch_is_repeated_at_once_and_costs_no_retry() {
    let mut test = TestRun::of(&json!({"a": worker()}), json!({}));
    for lost in 1..LOSSES_MAX {
        assert_eq!(test.report(JobOutcome::Lost).id.attempt, lost);
        assert_eq!(test.jobs.len(), 1);
    }
    assert_eq!((test.step("a").attempts, test.step("a").failures), (LOSSES_MAX, 0));
    let last = test.report(JobOutcome::Lost);
    assert_eq!(test.status(), RunStatus::Failed);
    assert!(test.effects.buried.iter().any(|letter| letter.job == last.id));
}

#[test]
fn a_job_dispatched_and_revoked_in_one_turn_has_no_effects() {
    let mut test =
        TestRun::of(&json!({"a": worker(), "gate": {"type": "approval", "depends_on": ["a"]}}), json!({}));
    test.effects = Effects::default();
    let lost = InboxEvent::Job {
        at: crate::Timestamp::ZERO,
        job: test.jobs[0].id.clone(),
        outcome: JobOutcome::Lost,
    };
    test.turn(&[lost, InboxEvent::Cancel { by: "ann".to_owned() }]);
    assert_eq!((test.status(), &test.effects), (RunStatus::Cancelled, &Effects::default()));
}

#[test]
fn a_result_of_an_older_dispatch_changes_nothing() {
    let mut test = TestRun::of(&json!({"a": worker()}), json!({}));
    let old = test.report(JobOutcome::Lost);
    let before = test.run.clone();
    test.turn(&[InboxEvent::Job {
        at: crate::Timestamp::ZERO,
        job: old.id,
        outcome: JobOutcome::completed(json!("late")),
    }]);
    assert_eq!(test.run, before);
}

#[test]
fn a_workflow_timeout_ends_its_run() {
    let document =
        json!({"name": "test", "timeout_sec": 60, "steps": {"a": worker(), "gate": {"type": "approval"}}});
    let mut test = TestRun::of_document(&document, json!({}));
    assert_eq!(test.run.head.due_at, Some(test.now + Duration::from_mins(1)));
    test.pass(Duration::from_mins(1));
    assert_eq!((test.status(), test.step("a").status), (RunStatus::TimedOut, StepStatus::TimedOut));
    assert!(!test.effects.approvals_withdrawn.is_empty());
    assert_eq!(test.run.head.due_at, None);
}

#[test]
fn an_unresolved_approval_times_out() {
    let mut test = TestRun::of(&json!({"gate": {"type": "approval", "timeout_sec": 30}}), json!({}));
    test.pass(Duration::from_secs(30));
    assert_eq!(test.status(), RunStatus::TimedOut);
    assert!(!test.effects.approvals_withdrawn.is_empty());
}

#[test]
fn each_delay_ends_at_its_own_time() {
    let steps = json!({
        "short": {"type": "delay", "delay_sec": 5},
        "long": {"type": "delay", "delay_sec": 9},
        "past": {"type": "delay", "delay_until": "1970-01-01T00:00:01Z"},
        "after": {"type": "worker", "topic": "t", "depends_on": ["short"]},
    });
    let mut test = TestRun::of(&steps, json!({}));
    assert_eq!(test.step("past").status, StepStatus::Succeeded);
    assert_eq!(test.run.head.due_at, Some(test.now + Duration::from_secs(5)));
    test.pass(Duration::from_secs(5));
    assert_eq!((test.jobs.len(), test.step("long").status), (1, StepStatus::Running));
    test.pass(Duration::from_secs(4));
    test.complete(json!(1));
    assert_eq!(test.status(), RunStatus::Succeeded);
}

/// One step that waits for half an hour, and one that waits for a time in half an hour.
fn two_delays() -> TestRun {
    let half_past =
        TestRun::of(&json!({"a": {"type": "delay", "delay_sec": 1}}), json!({})).now + HALF_AN_HOUR;
    let steps = json!({
        "for": {"type": "delay", "delay_sec": 1_800},
        "until": {"type": "delay", "delay_until": half_past.to_string()},
    });
    TestRun::of(&steps, json!({}))
}

const HALF_AN_HOUR: Duration = Duration::from_mins(30);
const AN_HOUR_MS: i64 = 3_600_000;

#[test]
fn a_wall_clock_that_is_set_forward_ends_a_delay_until_a_time_and_no_other() {
    let mut test = two_delays();
    assert_eq!(test.run.head.due_at, Some(test.now + HALF_AN_HOUR));
    test.wall_lead = AN_HOUR_MS;
    test.pass(Duration::ZERO);
    assert_eq!(
        (test.step("until").status, test.step("for").status),
        (StepStatus::Succeeded, StepStatus::Running)
    );
    assert_eq!(test.run.head.due_at, Some(test.now + HALF_AN_HOUR));
}

#[test]
fn a_delay_until_a_time_waits_for_a_wall_clock_that_is_set_back() {
    let mut test = two_delays();
    test.wall_lead = -AN_HOUR_MS;
    test.pass(HALF_AN_HOUR);
    assert_eq!(
        (test.step("until").status, test.step("for").status),
        (StepStatus::Running, StepStatus::Succeeded)
    );
    let again = Some(test.now + Duration::from_mins(1));
    assert_eq!(test.run.head.due_at, again, "the clock may be set right while no process runs");
    test.pass(Duration::from_mins(59) + Duration::from_secs(30));
    assert_eq!(test.run.head.due_at, Some(test.now + Duration::from_secs(30)));
    test.pass(Duration::from_secs(30));
    assert_eq!(test.status(), RunStatus::Succeeded);
}

#[test]
fn a_delay_until_a_time_that_the_wall_clock_has_passed_needs_no_timer() {
    let mut test = TestRun::of(
        &json!({"gate": {"type": "approval"}, "until": {"type": "delay",
        "delay_until": "${input.at}", "depends_on": ["gate"]}}),
        json!({"at": "2100-01-01T00:00:00Z"}),
    );
    test.wall_lead = 200 * 365 * 24 * AN_HOUR_MS;
    test.decide(crate::approval::Verdict::Approved);
    assert_eq!((test.status(), test.run.head.due_at), (RunStatus::Succeeded, None));
}

#[test]
fn an_output_that_violates_its_schema_is_a_failed_attempt() {
    let retry = json!({"max_retries": 1, "initial_backoff_sec": 0});
    let step = json!({"type": "worker", "topic": "t", "output_schema": {"type": "integer"}, "retry": retry});
    let mut test = TestRun::of(&json!({"a": step}), json!({}));
    test.complete(json!("seven"));
    assert!(test.has_event(EventKind::StepOutputInvalid));
    test.pass(Duration::from_millis(1));
    test.complete(json!(7));
    assert_eq!(test.status(), RunStatus::Succeeded);
}
