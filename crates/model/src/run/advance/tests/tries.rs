//! Tries: failed, lost, late and repeated.

use std::time::Duration;

use serde_json::json;

use super::super::super::{InboxEvent, RunStatus};
use super::super::{Command, LOSSES_MAX};
use super::{Story, worker};
use crate::history::EventKind;
use crate::job::JobOutcome;
use crate::step::StepStatus;

#[test]
fn a_failed_try_is_repeated_after_a_delay_that_its_recorded_seed_explains() {
    let retry = json!({"max_retries": 2, "initial_backoff_sec": 10, "multiplier": 2, "max_backoff_sec": 60});
    let mut story = Story::of(&json!({"a": {"type": "worker", "topic": "t", "retry": retry}}), json!({}));
    for failure in 1..=2_u32 {
        assert_eq!(story.fail(true).id.attempt, failure);
        let wake_at = story.step("a").wake_at.expect("a retry is scheduled");
        let seed = crate::retry::Seed::of_retry(story.run.start.run, &"a".parse().unwrap(), failure);
        let step = &story.workflow.steps[&"a".parse().unwrap()];
        assert_eq!(wake_at, story.now + step.backoff.full_jitter(failure, seed));
        assert_eq!(story.run.head.due_at, Some(wake_at));
        assert!(story.jobs.is_empty());
        story.pass(wake_at.since(story.now));
        assert_eq!(story.jobs.len(), 1);
    }
    story.complete(json!(1));
    assert_eq!(
        (story.status(), story.step("a").attempts, story.step("a").failures),
        (RunStatus::Succeeded, 3, 2)
    );
}

#[test]
fn retries_end_and_the_run_fails() {
    let retry = json!({"max_retries": 1, "initial_backoff_sec": 0});
    let mut story = Story::of(&json!({"a": {"type": "worker", "topic": "t", "retry": retry}}), json!({}));
    story.fail(true);
    story.pass(Duration::from_millis(1));
    story.fail(true);
    assert_eq!((story.status(), story.step("a").status), (RunStatus::Failed, StepStatus::Failed));
    assert_eq!(story.run.head.error.as_ref().unwrap().message, "boom");
}

#[test]
fn a_failure_that_is_not_retryable_ends_the_step_at_once() {
    let retry = json!({"max_retries": 5});
    let mut story = Story::of(&json!({"a": {"type": "worker", "topic": "t", "retry": retry}}), json!({}));
    story.fail(false);
    assert_eq!(story.status(), RunStatus::Failed);
}

#[test]
fn a_lost_dispatch_is_repeated_at_once_and_costs_no_retry() {
    let mut story = Story::of(&json!({"a": worker()}), json!({}));
    for lost in 1..LOSSES_MAX {
        assert_eq!(story.report(JobOutcome::Lost).id.attempt, lost);
        assert_eq!(story.jobs.len(), 1);
    }
    assert_eq!((story.step("a").attempts, story.step("a").failures), (LOSSES_MAX, 0));
    let last = story.report(JobOutcome::Lost);
    assert_eq!(story.status(), RunStatus::Failed);
    assert!(story.commands.iter().any(|it| matches!(it, Command::BuryJob(letter) if letter.job == last.id)));
}

#[test]
fn what_is_dispatched_and_taken_back_in_one_turn_never_leaves() {
    let mut story =
        Story::of(&json!({"a": worker(), "gate": {"type": "approval", "depends_on": ["a"]}}), json!({}));
    story.commands.clear();
    let lost = InboxEvent::Job {
        at: crate::Timestamp::ZERO,
        job: story.jobs[0].id.clone(),
        outcome: JobOutcome::Lost,
    };
    story.go(&[lost, InboxEvent::Cancel { by: "ann".to_owned() }]);
    assert_eq!((story.status(), &story.commands), (RunStatus::Cancelled, &Vec::new()));
}

#[test]
fn a_result_of_an_older_dispatch_changes_nothing() {
    let mut story = Story::of(&json!({"a": worker()}), json!({}));
    let old = story.report(JobOutcome::Lost);
    let before = story.run.clone();
    story.go(&[InboxEvent::Job {
        at: crate::Timestamp::ZERO,
        job: old.id,
        outcome: JobOutcome::Completed { output: json!("late") },
    }]);
    assert_eq!(story.run, before);
}

#[test]
fn a_step_times_out_by_itself_and_its_job_is_revoked() {
    let steps = json!({"a": {"type": "worker", "topic": "t", "timeout_sec": 5}});
    let mut story = Story::of(&steps, json!({}));
    assert_eq!(story.jobs[0].deadline_at, Some(story.now + Duration::from_secs(5)));
    let job = story.jobs[0].id.clone();
    story.pass(Duration::from_secs(4));
    assert_eq!(story.status(), RunStatus::Running);
    story.pass(Duration::from_secs(1));
    assert_eq!((story.status(), story.step("a").status), (RunStatus::TimedOut, StepStatus::TimedOut));
    assert!(story.commands.contains(&Command::Revoke(job)));
}

#[test]
fn a_lost_dispatch_does_not_get_more_time() {
    let steps = json!({"a": {"type": "worker", "topic": "t", "timeout_sec": 5}});
    let mut story = Story::of(&steps, json!({}));
    let deadline_at = story.jobs[0].deadline_at;
    story.now = story.now + Duration::from_secs(3);
    story.report(JobOutcome::Lost);
    assert_eq!(story.jobs[0].deadline_at, deadline_at);
}

#[test]
fn a_workflow_times_out_by_itself() {
    let document =
        json!({"name": "story", "timeout_sec": 60, "steps": {"a": worker(), "gate": {"type": "approval"}}});
    let mut story = Story::of_document(&document, json!({}));
    assert_eq!(story.run.head.due_at, Some(story.now + Duration::from_mins(1)));
    story.pass(Duration::from_mins(1));
    assert_eq!((story.status(), story.step("a").status), (RunStatus::TimedOut, StepStatus::TimedOut));
    assert!(story.commands.iter().any(|it| matches!(it, Command::WithdrawApproval(_))));
    assert_eq!(story.run.head.due_at, None);
}

#[test]
fn an_approval_that_nobody_answers_times_out() {
    let mut story = Story::of(&json!({"gate": {"type": "approval", "timeout_sec": 30}}), json!({}));
    story.pass(Duration::from_secs(30));
    assert_eq!(story.status(), RunStatus::TimedOut);
    assert!(story.commands.iter().any(|it| matches!(it, Command::WithdrawApproval(_))));
}

#[test]
fn delays_end_by_themselves_each_at_its_own_time() {
    let steps = json!({
        "short": {"type": "delay", "delay_sec": 5},
        "long": {"type": "delay", "delay_sec": 9},
        "past": {"type": "delay", "delay_until": "1970-01-01T00:00:01Z"},
        "after": {"type": "worker", "topic": "t", "depends_on": ["short"]},
    });
    let mut story = Story::of(&steps, json!({}));
    assert_eq!(story.step("past").status, StepStatus::Succeeded);
    assert_eq!(story.run.head.due_at, Some(story.now + Duration::from_secs(5)));
    story.pass(Duration::from_secs(5));
    assert_eq!((story.jobs.len(), story.step("long").status), (1, StepStatus::Running));
    story.pass(Duration::from_secs(4));
    story.complete(json!(1));
    assert_eq!(story.status(), RunStatus::Succeeded);
}

#[test]
fn an_output_that_breaks_its_schema_counts_as_a_failed_try() {
    let retry = json!({"max_retries": 1, "initial_backoff_sec": 0});
    let step = json!({"type": "worker", "topic": "t", "output_schema": {"type": "integer"}, "retry": retry});
    let mut story = Story::of(&json!({"a": step}), json!({}));
    story.complete(json!("seven"));
    assert!(story.has_told(EventKind::StepOutputInvalid));
    story.pass(Duration::from_millis(1));
    story.complete(json!(7));
    assert_eq!(story.status(), RunStatus::Succeeded);
}
