//! What a policy says before a dispatch goes to a worker.

use super::*;
use crate::step::{ErrorCode, StepStatus};

/// One worker step whose dispatch waits for a person.
fn asked(step: &Value) -> Story {
    let mut story = Story::of(&json!({"gate": step}), json!({}));
    let job = story.jobs[0].id.clone();
    story.go(&[InboxEvent::ApprovalAsked { job, reason: "rule prod says so".to_owned() }]);
    assert_eq!((story.status(), story.step("gate").status), (RunStatus::Waiting, StepStatus::Waiting));
    assert!(story.has_told(EventKind::StepWaiting));
    story
}

#[test]
fn a_denied_dispatch_ends_the_run_as_denied_and_says_why() {
    let steps =
        json!({"gate": {"type": "worker", "topic": "t", "retry": {"max_retries": 3}}, "other": worker()});
    let mut story = Story::of(&steps, json!({}));
    story.report(JobOutcome::Denied { reason: "rule prod says deny".to_owned() });
    assert_eq!((story.status(), story.step("gate").status), (RunStatus::Denied, StepStatus::Denied));
    let error = story.run.head.error.clone().unwrap();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::PolicyDenied, "rule prod says deny"));
    assert!(
        story.has_told(EventKind::StepDenied) && story.jobs.is_empty(),
        "the other dispatch is taken back"
    );
}

#[test]
fn a_denied_item_ends_its_step_as_denied() {
    let step = json!({"type": "worker", "topic": "t", "for_each": "input.items"});
    let mut story = Story::of(&json!({"gate": step}), json!({"items": [1, 2]}));
    story.report(JobOutcome::Denied { reason: "no".to_owned() });
    assert_eq!((story.status(), story.step("gate").status), (RunStatus::Denied, StepStatus::Denied));
}

#[test]
fn an_approved_dispatch_goes_on_as_it_is() {
    let mut story = asked(&worker());
    story.decide(Verdict::Approved);
    assert_eq!((story.status(), story.step("gate").status), (RunStatus::Running, StepStatus::Running));
    assert!(story.step("gate").job_open && story.jobs.len() == 1, "it is the same dispatch");
    assert!(story.has_told(EventKind::StepApproved));
    story.complete(json!(1));
    assert_eq!(story.status(), RunStatus::Succeeded);
}

#[test]
fn verdict_and_result_may_come_on_one_turn() {
    let mut story = Story::of(&json!({"gate": worker()}), json!({}));
    let job = story.jobs.remove(0).id;
    let decision = Decision { verdict: Verdict::Approved, by: "ann".to_owned(), reason: None };
    story.go(&[
        InboxEvent::ApprovalAsked { job: job.clone(), reason: "x".to_owned() },
        InboxEvent::Approval { job: job.clone(), decision },
        InboxEvent::Job { at: Timestamp::ZERO, job, outcome: JobOutcome::Completed { output: json!(1) } },
    ]);
    assert_eq!(story.status(), RunStatus::Succeeded);
}

#[test]
fn a_rejected_dispatch_ends_the_run_as_denied() {
    let mut story = asked(&worker());
    story.decide(Verdict::Rejected);
    assert_eq!((story.status(), story.step("gate").status), (RunStatus::Denied, StepStatus::Denied));
}

#[test]
fn a_dispatch_that_waits_for_a_person_is_taken_back_as_a_job() {
    let mut story = asked(&worker());
    let job = story.jobs[0].id.clone();
    story.go(&[InboxEvent::Cancel { by: "ann".to_owned() }]);
    assert_eq!(story.status(), RunStatus::Cancelled);
    assert!(story.commands.contains(&Command::Revoke(job)), "{:?}", story.commands);
}

#[test]
fn a_dispatch_that_waits_for_a_person_times_out_and_is_tried_again() {
    let retry = json!({"max_retries": 1, "initial_backoff_sec": 1, "multiplier": 1, "max_backoff_sec": 1});
    let step = json!({"type": "worker", "topic": "t", "timeout_sec": 10, "retry": retry});
    let mut story = asked(&step);
    story.pass(Duration::from_secs(10));
    assert_eq!((story.status(), story.step("gate").status), (RunStatus::Running, StepStatus::Running));
    story.pass(Duration::from_secs(2));
    assert_eq!(story.jobs.iter().map(|job| job.id.attempt).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_dispatch_that_waits_for_a_person_can_be_cancelled() {
    let mut story = asked(&worker());
    story.report(JobOutcome::Cancelled { by: "ann".to_owned() });
    assert_eq!(story.status(), RunStatus::Cancelled);
}
