//! Timeouts: of the wait for a worker, of one attempt, of all attempts.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::super::{InboxEvent, RunStatus};
use super::TestRun;
use crate::job::JobOutcome;
use crate::retry::Jitter;
use crate::step::StepStatus;
use crate::workflow::{Workflow, WorkflowDocument};
use crate::{StepKey, Timestamp};

const SECOND: Duration = Duration::from_secs(1);

fn step(fields: &Value) -> Value {
    let mut step = json!({"type": "worker", "topic": "t"});
    step.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"a": step})
}

fn message(test: &TestRun) -> String {
    test.step("a").error.as_ref().map(|error| error.message.clone()).unwrap_or_default()
}

#[test]
fn the_time_in_the_queue_is_no_part_of_an_attempt() {
    let mut test = TestRun::of(&step(&json!({"timeout_sec": 3})), json!({}));
    let job = test.jobs[0].clone();
    assert_eq!((job.deadline_at, job.timeout, job.queue_until), (None, Some(3 * SECOND), None));
    test.pass(3_600 * SECOND);
    assert_eq!((test.status(), test.step("a").status), (RunStatus::Running, StepStatus::Running));
    assert_eq!(job.deadline_from(test.now), Some(test.now + 3 * SECOND));
    test.report(JobOutcome::TimedOut);
    assert_eq!((test.status(), test.step("a").status), (RunStatus::TimedOut, StepStatus::TimedOut));
    assert_eq!(message(&test), "the step timed out: the attempt took longer than 3 s (timeout_sec)");
}

#[test]
fn each_attempt_has_the_whole_time_and_counts_as_a_failure() {
    let retry = json!({"max_retries": 1, "initial_backoff_sec": 1});
    let mut test = TestRun::of(&step(&json!({"timeout_sec": 3, "retry": retry})), json!({}));
    test.report(JobOutcome::TimedOut);
    assert_eq!((test.status(), test.step("a").failures), (RunStatus::Running, 1));
    test.pass(SECOND);
    assert_eq!((test.jobs[0].id.attempt, test.jobs[0].timeout), (2, Some(3 * SECOND)));
    test.report(JobOutcome::TimedOut);
    assert_eq!((test.status(), test.step("a").failures), (RunStatus::TimedOut, 2));
}

#[test]
fn a_job_that_no_worker_claims_in_time_fails_the_attempt() {
    let retry = json!({"max_retries": 1, "initial_backoff_sec": 1});
    let fields = json!({"queue_timeout_sec": 5, "timeout_sec": 3, "retry": retry});
    let mut test = TestRun::of(&step(&fields), json!({}));
    assert_eq!(test.jobs[0].queue_until, Some(test.now + 5 * SECOND));
    test.report(JobOutcome::Unclaimed);
    assert!(
        message(&test).contains("no worker claimed it within 5 s (queue_timeout_sec)"),
        "{}",
        message(&test)
    );
    test.pass(SECOND);
    assert_eq!(test.jobs[0].queue_until, Some(test.now + 5 * SECOND), "the next attempt waits anew");
    test.report(JobOutcome::Unclaimed);
    assert_eq!((test.status(), test.step("a").failures), (RunStatus::TimedOut, 2));
}

#[test]
fn all_attempts_together_end_with_the_total_whatever_retries_are_left() {
    let retry = json!({"max_retries": 100, "initial_backoff_sec": 4, "multiplier": 1});
    let mut test = TestRun::of(&step(&json!({"total_timeout_sec": 10, "retry": retry})), json!({}));
    let until = test.now + 10 * SECOND;
    test.pass(3 * SECOND);
    test.fail(true);
    test.pass(4 * SECOND);
    assert_eq!(test.jobs[0].deadline_at, Some(until), "the worker of a retry learns what is left");
    let open = test.jobs[0].id.clone();
    test.pass(2 * SECOND);
    assert_eq!(test.status(), RunStatus::Running);
    test.pass(SECOND);
    assert_eq!((test.status(), test.step("a").failures), (RunStatus::TimedOut, 1));
    assert!(test.effects.revoked.contains(&open));
    assert!(message(&test).contains("all attempts took longer than 10 s (total_timeout_sec)"));
}

#[test]
fn the_total_of_a_fan_out_bounds_its_items_together() {
    let fields =
        json!({"for_each": "[1, 2, 3]", "max_parallel": 1, "total_timeout_sec": 10, "on_error": "b"});
    let mut steps = step(&fields);
    steps["b"] = json!({"type": "worker", "topic": "t"});
    let mut test = TestRun::of(&steps, json!({}));
    let until = test.now + 10 * SECOND;
    test.pass(6 * SECOND);
    test.complete(json!(1));
    assert_eq!(test.jobs[0].deadline_at, Some(until));
    let open = test.jobs[0].id.clone();
    test.pass(4 * SECOND);
    assert_eq!(test.step("a").status, StepStatus::TimedOut);
    assert!(test.effects.revoked.contains(&open));
    assert_eq!([test.step("a[1]").status, test.step("a[2]").status], [StepStatus::Cancelled; 2]);
    let next: Vec<_> = test.jobs.iter().map(|job| job.id.step.clone()).collect();
    assert_eq!(next, ["b".parse::<StepKey>().unwrap()], "its handler goes on");
}

#[test]
fn a_lease_that_ends_with_the_total_or_the_run_is_not_dispatched_again() {
    for outcome in [JobOutcome::Lost, JobOutcome::TimedOut] {
        let mut total = TestRun::of(&step(&json!({"total_timeout_sec": 10})), json!({}));
        let document = json!({"name": "test", "timeout_sec": 10, "steps": step(&json!({"timeout_sec": 10}))});
        let mut run = TestRun::of_document(&document, json!({}));
        for test in [&mut total, &mut run] {
            let job = test.jobs.pop().expect("it was dispatched").id;
            test.now = test.now + 10 * SECOND;
            test.turn(&[InboxEvent::Job { at: test.now, job, outcome: outcome.clone() }]);
            assert!(test.jobs.is_empty());
            assert_eq!((test.status(), test.step("a").attempts), (RunStatus::TimedOut, 1), "{outcome:?}");
        }
    }
}

#[test]
fn an_approval_times_out_by_its_opening() {
    let steps = json!({
        "wait": {"type": "delay", "delay_sec": 60},
        "gate": {"type": "approval", "depends_on": ["wait"], "timeout_sec": 5},
    });
    let mut test = TestRun::of(&steps, json!({}));
    test.pass(60 * SECOND);
    test.pass(4 * SECOND);
    assert_eq!(test.step("gate").status, StepStatus::Waiting);
    test.pass(SECOND);
    assert_eq!(test.step("gate").status, StepStatus::TimedOut);
}

#[test]
fn a_version_of_an_earlier_release_bounds_the_wait_by_its_timeout() {
    let document: WorkflowDocument =
        serde_json::from_value(json!({"name": "w", "steps": step(&json!({"timeout_sec": 3}))})).unwrap();
    let bounds = |document: &WorkflowDocument| {
        let workflow = Workflow::compile("w".parse().unwrap(), 1, document).unwrap();
        let step = workflow.steps.values().next().unwrap();
        (step.queue_timeout, step.timeout)
    };
    assert_eq!(bounds(&document), (Some(3 * SECOND), Some(3 * SECOND)));
    let saved = document.with_defaults();
    assert_eq!(bounds(&saved), (None, Some(3 * SECOND)), "what is saved now waits for as long as it takes");
    assert_eq!(saved.clone().with_defaults(), saved);
}

#[test]
fn a_row_of_an_earlier_release_keeps_the_deadline_of_its_attempt() {
    let mut test = TestRun::of(&step(&json!({"timeout_sec": 3})), json!({}));
    let until = test.now + 3 * SECOND;
    test.run.steps.values_mut().for_each(|step| step.deadline_at = Some(until));
    test.report(JobOutcome::Lost);
    assert_eq!(test.jobs[0].deadline_at, Some(until));
    test.pass(3 * SECOND);
    assert_eq!((test.status(), test.now), (RunStatus::TimedOut, until));
    assert!(until > Timestamp::ZERO);
}

#[test]
fn a_worker_says_when_to_try_again_and_the_deadline_bounds_it() {
    let retry = json!({"max_retries": 3, "initial_backoff_sec": 1});
    let mut test = TestRun::of(&step(&json!({"retry": retry, "total_timeout_sec": 60})), json!({}));
    let until = test.now + 60 * SECOND;
    let failed = |wait| JobOutcome::failed("429".to_owned(), true).retried_after(Some(wait));
    test.report(failed(20_000));
    assert_eq!(test.step("a").wake_at, Some(test.now + 20 * SECOND));
    test.pass(19 * SECOND);
    assert!(test.jobs.is_empty());
    test.pass(SECOND);
    test.report(failed(3_600_000));
    assert_eq!(test.step("a").wake_at, Some(until));
    test.pass(40 * SECOND);
    assert_eq!((test.status(), test.step("a").attempts), (RunStatus::TimedOut, 2));
    let mut fatal = TestRun::of(&step(&json!({"retry": {"max_retries": 3}})), json!({}));
    fatal.report(JobOutcome::failed("no".to_owned(), false).retried_after(Some(1)));
    assert_eq!(fatal.status(), RunStatus::Failed);
}

#[test]
fn a_retry_keeps_half_of_its_backoff_unless_the_document_says_otherwise() {
    let waited = |retry: Value| {
        let mut test = TestRun::of(&step(&json!({"retry": retry})), json!({}));
        test.fail(true);
        test.step("a").wake_at.unwrap().since(test.now)
    };
    let backoff = |jitter: Value| {
        let mut retry = json!({"max_retries": 1, "initial_backoff_sec": 1_000, "max_backoff_sec": 1_000});
        if !jitter.is_null() {
            retry["jitter"] = jitter;
        }
        waited(retry)
    };
    assert!((500 * SECOND..=1_000 * SECOND).contains(&backoff(Value::Null)));
    assert_eq!(backoff(json!("equal_jitter")), backoff(Value::Null));
    assert_eq!(backoff(json!("fixed")), 1_000 * SECOND);
    assert_ne!(backoff(json!("full_jitter")), backoff(Value::Null));
}

#[test]
fn a_version_of_an_earlier_release_keeps_full_jitter() {
    let document: WorkflowDocument =
        serde_json::from_value(json!({"name": "w", "steps": step(&json!({"retry": {"max_retries": 1}}))}))
            .unwrap();
    let jitter = |document: &WorkflowDocument| {
        let workflow = Workflow::compile("w".parse().unwrap(), 1, document).unwrap();
        workflow.steps.values().next().unwrap().retry.jitter
    };
    assert_eq!((jitter(&document), jitter(&document.clone().with_defaults())), (Jitter::Full, Jitter::Equal));
}
