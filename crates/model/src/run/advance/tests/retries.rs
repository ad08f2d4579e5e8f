//! Retries of dead letters.

use serde_json::json;

use super::super::super::{InboxEvent, RunStatus};
use super::super::{Effects, LOSSES_MAX};
use super::{TestRun, worker};
use crate::dead_letter::DeadLetter;
use crate::history::EventKind;
use crate::job::JobOutcome;
use crate::step::StepStatus;

/// A run that continues after its step `a` fails, because `help` handles the failure.
fn handled() -> TestRun {
    let steps = json!({
        "a": {"type": "worker", "topic": "t", "on_error": "help", "retry": {"max_retries": 1}},
        "help": {"type": "worker", "topic": "t"},
        "last": {"type": "worker", "topic": "t", "depends_on": ["a", "help"]},
    });
    TestRun::of(&steps, json!({}))
}

impl TestRun {
    /// Loses the oldest open job until its step becomes a dead letter.
    fn lose_all(&mut self) -> DeadLetter {
        for _ in 0..LOSSES_MAX {
            let lost = self.jobs.remove(0);
            self.turn(&[InboxEvent::Job {
                at: crate::Timestamp::ZERO,
                job: lost.id.clone(),
                outcome: JobOutcome::Lost,
            }]);
            // The replacement job is last.
            let again = self.jobs.iter().position(|job| job.id.step == lost.id.step);
            if let Some(again) = again {
                self.jobs.swap(0, again);
            }
        }
        self.effects.buried.last().cloned().expect("the step is a dead letter")
    }

    fn retry(&mut self, letter: &DeadLetter) {
        self.turn(&[InboxEvent::Retry { by: "ann".to_owned(), letter: Box::new(letter.clone()) }]);
    }
}

#[test]
fn a_retried_step_gets_a_new_attempt_and_resets_its_counters() {
    let mut test = handled();
    let letter = test.lose_all();
    assert_eq!((test.status(), test.step("a").status), (RunStatus::Running, StepStatus::Failed));
    test.retry(&letter);
    let step = test.step("a").clone();
    assert_eq!((step.status, step.attempts, step.losses, step.failures), (StepStatus::Running, 11, 0, 0));
    assert_eq!((step.completed_at, step.error), (None, None));
    assert!(test.has_event(EventKind::StepRetried));
    let again = test
        .jobs
        .iter()
        .position(|job| job.id.step.to_string() == "a")
        .expect("the step is dispatched again");
    assert_eq!(test.jobs[again].id.attempt, 11);
    let job = test.jobs.remove(again).id;
    let outcome = JobOutcome::completed(json!(1));
    test.turn(&[InboxEvent::Job { at: crate::Timestamp::ZERO, job, outcome }]);
    assert_eq!(test.step("a").status, StepStatus::Succeeded);
}

#[test]
fn a_retry_of_a_dispatched_step_revokes_the_old_job() {
    let mut test = handled();
    let letter = DeadLetter { job: test.jobs[0].id.clone(), ..handled().lose_all() };
    test.retry(&letter);
    assert!(test.effects.revoked.contains(&letter.job));
    assert_eq!(test.jobs.iter().map(|job| job.id.attempt).collect::<Vec<_>>(), [2]);
    assert_eq!(test.step("a").status, StepStatus::Running);
}

#[test]
fn a_retry_skips_the_backoff_of_the_step() {
    let mut test = handled();
    let letter = DeadLetter { job: test.jobs[0].id.clone(), ..handled().lose_all() };
    test.fail(true);
    assert!(test.step("a").wake_at.is_some() && test.jobs.is_empty());
    test.retry(&letter);
    assert_eq!((test.step("a").wake_at, test.step("a").failures, test.jobs.len()), (None, 0, 1));
}

#[test]
fn a_retry_of_a_succeeded_step_does_nothing() {
    let mut test = handled();
    let letter = DeadLetter { job: test.jobs[0].id.clone(), ..handled().lose_all() };
    test.complete(json!(1));
    let (before, events) = (test.run.clone(), test.events.len());
    test.retry(&letter);
    assert_eq!((test.run, test.events.len()), (before, events));
}

#[test]
fn a_letter_of_an_ended_run_is_kept() {
    let mut test = TestRun::of(&json!({"a": worker()}), json!({}));
    let letter = test.lose_all();
    assert_eq!(test.status(), RunStatus::Failed);
    test.effects = Effects::default();
    test.retry(&letter);
    assert_eq!(test.effects, Effects { buried: vec![letter], ..Effects::default() });
    assert_eq!(test.status(), RunStatus::Failed);
}

#[test]
fn retrying_an_item_reopens_its_step_and_its_siblings() {
    let steps = json!({
        "a": {"type": "worker", "topic": "t", "for_each": "[1, 2, 3, 4]", "max_parallel": 2, "on_error": "help"},
        "help": {"type": "worker", "topic": "t"},
    });
    let mut test = TestRun::of(&steps, json!({}));
    test.complete(json!("one"));
    let letter = test.lose_all();
    assert_eq!(test.step("a").status, StepStatus::Failed);
    assert_eq!(test.step("a[3]").status, StepStatus::Cancelled);
    test.jobs.retain(|job| job.id.step.to_string() != "help");
    assert!(test.jobs.is_empty());
    test.retry(&letter);
    assert_eq!(test.step("a").status, StepStatus::Running);
    assert_eq!(
        (test.step("a[0]").status, test.step("a[3]").status),
        (StepStatus::Succeeded, StepStatus::Pending)
    );
    assert_eq!(test.jobs.len(), 2, "the limit of parallel items still applies");
    for output in ["two", "three", "four"] {
        test.complete(json!(output));
    }
    assert_eq!(test.step("a").output, Some(json!(["one", "two", "three", "four"])));
}

#[test]
fn a_letter_of_a_denied_step_is_kept_and_the_run_continues() {
    let steps = json!({
        "each": {"type": "worker", "topic": "t", "for_each": "input.items", "on_error": "help"},
        "help": worker(),
    });
    let mut test = TestRun::of(&steps, json!({"items": [1, 2]}));
    let (given_up, denied) = (test.jobs[0].id.clone(), test.jobs[1].id.clone());
    let outcome = JobOutcome::Denied { reason: "no".to_owned() };
    test.turn(&[InboxEvent::Job { at: crate::Timestamp::ZERO, job: denied, outcome }]);
    assert_eq!((test.status(), test.step("each").status), (RunStatus::Running, StepStatus::Denied));
    let letter = DeadLetter {
        job: given_up,
        topic: None,
        code: crate::dead_letter::LetterCode::ResultUnhandled,
        reason: "it was too late".to_owned(),
        attempts: 100,
        last_error: None,
        buried_at: crate::Timestamp::ZERO,
        result: None,
    };
    test.retry(&letter);
    assert_eq!(test.effects.buried, [letter]);
    assert_eq!(test.status(), RunStatus::Running);
}
