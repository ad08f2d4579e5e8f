//! Jobs that their workers hand to the next.

use serde_json::json;

use super::super::super::RunStatus;
use super::super::RELEASES_MAX;
use super::TestRun;
use crate::history::EventKind;
use crate::job::JobOutcome;

fn released() -> JobOutcome {
    JobOutcome::Released { reason: "the worker drains".to_owned() }
}

#[test]
fn a_released_job_is_dispatched_again_at_once_and_costs_no_retry() {
    let mut test = TestRun::of(&json!({"a": {"type": "worker", "topic": "t"}}), json!({}));
    for attempt in 1..=RELEASES_MAX {
        assert_eq!(test.report(released()).id.attempt, attempt);
        assert_eq!((test.jobs.len(), test.status()), (1, RunStatus::Running));
    }
    let step = test.step("a");
    assert_eq!((step.releases, step.failures, step.losses), (RELEASES_MAX, 0, 0));
    assert!(test.has_event(EventKind::StepJobReleased));
    test.complete(json!(1));
    assert_eq!(test.status(), RunStatus::Succeeded);
}

#[test]
fn a_job_that_is_released_too_often_fails_its_attempt() {
    let retry = json!({"max_retries": 1, "initial_backoff_sec": 1});
    let mut test = TestRun::of(&json!({"a": {"type": "worker", "topic": "t", "retry": retry}}), json!({}));
    for _ in 0..=RELEASES_MAX {
        test.report(released());
    }
    assert_eq!((test.jobs.len(), test.step("a").failures), (0, 1), "it waits for its retry");
    test.pass(std::time::Duration::from_secs(1));
    test.report(released());
    assert_eq!((test.status(), test.step("a").failures), (RunStatus::Failed, 2));
    let message = &test.step("a").error.as_ref().unwrap().message;
    assert!(message.contains("released the job 12 times: the worker drains"), "{message}");
}
