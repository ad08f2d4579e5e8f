//! Policy decisions about a dispatch.

use super::*;
use crate::step::{ErrorCode, StepStatus};

/// One worker step whose dispatch waits for an approval.
fn awaiting_approval(step: &Value) -> TestRun {
    let mut test = TestRun::of(&json!({"gate": step}), json!({}));
    let job = test.jobs[0].id.clone();
    test.turn(&[InboxEvent::ApprovalAsked { job, reason: "rule prod says so".to_owned() }]);
    assert_eq!((test.status(), test.step("gate").status), (RunStatus::Waiting, StepStatus::Waiting));
    assert!(test.has_event(EventKind::StepWaiting));
    test
}

#[test]
fn a_denied_dispatch_ends_the_run_as_denied_with_the_reason() {
    let steps =
        json!({"gate": {"type": "worker", "topic": "t", "retry": {"max_retries": 3}}, "other": worker()});
    let mut test = TestRun::of(&steps, json!({}));
    test.report(JobOutcome::Denied { reason: "rule prod says deny".to_owned() });
    assert_eq!((test.status(), test.step("gate").status), (RunStatus::Denied, StepStatus::Denied));
    let error = test.run.head.error.clone().unwrap();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::PolicyDenied, "rule prod says deny"));
    assert!(test.has_event(EventKind::StepDenied) && test.jobs.is_empty(), "the other dispatch is revoked");
}

#[test]
fn a_denied_item_ends_its_step_as_denied() {
    let step = json!({"type": "worker", "topic": "t", "for_each": "input.items"});
    let mut test = TestRun::of(&json!({"gate": step}), json!({"items": [1, 2]}));
    test.report(JobOutcome::Denied { reason: "no".to_owned() });
    assert_eq!((test.status(), test.step("gate").status), (RunStatus::Denied, StepStatus::Denied));
}

#[test]
fn an_approved_dispatch_continues_unchanged() {
    let mut test = awaiting_approval(&worker());
    test.decide(Verdict::Approved);
    assert_eq!((test.status(), test.step("gate").status), (RunStatus::Running, StepStatus::Running));
    assert!(test.step("gate").job_open && test.jobs.len() == 1, "it is the same dispatch");
    assert!(test.has_event(EventKind::StepApproved));
    test.complete(json!(1));
    assert_eq!(test.status(), RunStatus::Succeeded);
}

#[test]
fn verdict_and_result_may_arrive_in_one_turn() {
    let mut test = TestRun::of(&json!({"gate": worker()}), json!({}));
    let job = test.jobs.remove(0).id;
    let decision = Decision { verdict: Verdict::Approved, by: "ann".to_owned(), reason: None };
    test.turn(&[
        InboxEvent::ApprovalAsked { job: job.clone(), reason: "x".to_owned() },
        InboxEvent::Approval { job: job.clone(), decision },
        InboxEvent::Job { at: Timestamp::ZERO, job, outcome: JobOutcome::completed(json!(1)) },
    ]);
    assert_eq!(test.status(), RunStatus::Succeeded);
}

#[test]
fn a_rejected_dispatch_ends_the_run_as_denied() {
    let mut test = awaiting_approval(&worker());
    test.decide(Verdict::Rejected);
    assert_eq!((test.status(), test.step("gate").status), (RunStatus::Denied, StepStatus::Denied));
}

#[test]
fn a_dispatch_that_waits_for_an_approval_is_revoked_as_a_job() {
    let mut test = awaiting_approval(&worker());
    let job = test.jobs[0].id.clone();
    test.turn(&[InboxEvent::Cancel { by: "ann".to_owned() }]);
    assert_eq!(test.status(), RunStatus::Cancelled);
    assert!(test.effects.revoked.contains(&job), "{:?}", test.effects);
}

#[test]
fn a_dispatch_that_waits_for_an_approval_times_out_and_is_retried() {
    let retry = json!({"max_retries": 1, "initial_backoff_sec": 1, "multiplier": 1, "max_backoff_sec": 1});
    let step = json!({"type": "worker", "topic": "t", "queue_timeout_sec": 10, "retry": retry});
    let mut test = awaiting_approval(&step);
    test.report(JobOutcome::Unclaimed);
    assert_eq!((test.status(), test.step("gate").status), (RunStatus::Running, StepStatus::Running));
    test.pass(Duration::from_secs(2));
    assert_eq!(test.jobs.iter().map(|job| job.id.attempt).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_dispatch_that_waits_for_an_approval_can_be_cancelled() {
    let mut test = awaiting_approval(&worker());
    test.report(JobOutcome::Cancelled { by: "ann".to_owned() });
    assert_eq!(test.status(), RunStatus::Cancelled);
}
