//! Dead letters that an operator retries.

use serde_json::json;

use super::super::super::{InboxEvent, RunStatus};
use super::super::{Command, LOSSES_MAX};
use super::{Story, worker};
use crate::dead_letter::DeadLetter;
use crate::history::EventKind;
use crate::job::JobOutcome;
use crate::step::StepStatus;

/// A step that was given up in a run that goes on, because somebody handles its failure.
fn handled() -> Story {
    let steps = json!({
        "a": {"type": "worker", "topic": "t", "on_error": "help", "retry": {"max_retries": 1}},
        "help": {"type": "worker", "topic": "t"},
        "last": {"type": "worker", "topic": "t", "depends_on": ["a", "help"]},
    });
    Story::of(&steps, json!({}))
}

impl Story {
    /// Loses the oldest open job until its step is given up.
    fn lose_all(&mut self) -> DeadLetter {
        for _ in 0..LOSSES_MAX {
            let lost = self.jobs.remove(0);
            self.go(&[InboxEvent::Job {
                at: crate::Timestamp::ZERO,
                job: lost.id.clone(),
                outcome: JobOutcome::Lost,
            }]);
            // What was dispatched for it stands at the end.
            let again = self.jobs.iter().position(|job| job.id.step == lost.id.step);
            if let Some(again) = again {
                self.jobs.swap(0, again);
            }
        }
        self.letters().pop().expect("the step was given up")
    }

    fn letters(&self) -> Vec<DeadLetter> {
        let letter = |command: &Command| match command {
            Command::BuryJob(letter) => Some(letter.clone()),
            Command::Dispatch(_)
            | Command::Revoke(_)
            | Command::OpenApproval(_)
            | Command::WithdrawApproval(_) => None,
        };
        self.commands.iter().filter_map(letter).collect()
    }

    fn retry(&mut self, letter: &DeadLetter) {
        self.go(&[InboxEvent::Retry { by: "ann".to_owned(), letter: Box::new(letter.clone()) }]);
    }
}

#[test]
fn a_step_that_was_given_up_gets_a_new_attempt_and_begins_to_count_anew() {
    let mut story = handled();
    let letter = story.lose_all();
    assert_eq!((story.status(), story.step("a").status), (RunStatus::Running, StepStatus::Failed));
    story.retry(&letter);
    let step = story.step("a").clone();
    assert_eq!((step.status, step.attempts, step.losses, step.failures), (StepStatus::Running, 11, 0, 0));
    assert_eq!((step.completed_at, step.error), (None, None));
    assert!(story.has_told(EventKind::StepRetried));
    let again = story.jobs.iter().position(|job| job.id.step.to_string() == "a").expect("it is out again");
    assert_eq!(story.jobs[again].id.attempt, 11);
    let job = story.jobs.remove(again).id;
    let outcome = JobOutcome::Completed { output: json!(1) };
    story.go(&[InboxEvent::Job { at: crate::Timestamp::ZERO, job, outcome }]);
    assert_eq!(story.step("a").status, StepStatus::Succeeded);
}

#[test]
fn a_retry_of_a_step_that_is_out_ends_that_dispatch_first() {
    let mut story = handled();
    let letter = DeadLetter { job: story.jobs[0].id.clone(), ..handled().lose_all() };
    story.retry(&letter);
    assert!(story.commands.contains(&Command::Revoke(letter.job.clone())));
    assert_eq!(story.jobs.iter().map(|job| job.id.attempt).collect::<Vec<_>>(), [2]);
    assert_eq!(story.step("a").status, StepStatus::Running);
}

#[test]
fn a_retry_of_a_step_that_waits_for_its_next_try_does_not_wait() {
    let mut story = handled();
    let letter = DeadLetter { job: story.jobs[0].id.clone(), ..handled().lose_all() };
    story.fail(true);
    assert!(story.step("a").wake_at.is_some() && story.jobs.is_empty());
    story.retry(&letter);
    assert_eq!((story.step("a").wake_at, story.step("a").failures, story.jobs.len()), (None, 0, 1));
}

#[test]
fn a_retry_of_what_has_succeeded_is_nothing() {
    let mut story = handled();
    let letter = DeadLetter { job: story.jobs[0].id.clone(), ..handled().lose_all() };
    story.complete(json!(1));
    let (before, told) = (story.run.clone(), story.told.len());
    story.retry(&letter);
    assert_eq!((story.run, story.told.len()), (before, told));
}

#[test]
fn a_letter_whose_run_ended_before_it_was_retried_is_kept() {
    let mut story = Story::of(&json!({"a": worker()}), json!({}));
    let letter = story.lose_all();
    assert_eq!(story.status(), RunStatus::Failed);
    story.commands.clear();
    story.retry(&letter);
    assert_eq!(story.commands, [Command::BuryJob(letter)]);
    assert_eq!(story.status(), RunStatus::Failed);
}

#[test]
fn an_item_that_is_retried_takes_its_step_and_its_siblings_with_it() {
    let steps = json!({
        "a": {"type": "worker", "topic": "t", "for_each": "[1, 2, 3, 4]", "max_parallel": 2, "on_error": "help"},
        "help": {"type": "worker", "topic": "t"},
    });
    let mut story = Story::of(&steps, json!({}));
    story.complete(json!("one"));
    let letter = story.lose_all();
    assert_eq!(story.step("a").status, StepStatus::Failed);
    assert_eq!(story.step("a[3]").status, StepStatus::Cancelled);
    story.jobs.retain(|job| job.id.step.to_string() != "help");
    assert!(story.jobs.is_empty());
    story.retry(&letter);
    assert_eq!(story.step("a").status, StepStatus::Running);
    assert_eq!(
        (story.step("a[0]").status, story.step("a[3]").status),
        (StepStatus::Succeeded, StepStatus::Pending)
    );
    assert_eq!(story.jobs.len(), 2, "no more at once than before");
    for output in ["two", "three", "four"] {
        story.complete(json!(output));
    }
    assert_eq!(story.step("a").output, Some(json!(["one", "two", "three", "four"])));
}

#[test]
fn a_letter_whose_step_was_denied_meanwhile_comes_back_and_the_run_goes_on() {
    let steps = json!({
        "each": {"type": "worker", "topic": "t", "for_each": "input.items", "on_error": "help"},
        "help": worker(),
    });
    let mut story = Story::of(&steps, json!({"items": [1, 2]}));
    let (given_up, denied) = (story.jobs[0].id.clone(), story.jobs[1].id.clone());
    let outcome = JobOutcome::Denied { reason: "no".to_owned() };
    story.go(&[InboxEvent::Job { at: crate::Timestamp::ZERO, job: denied, outcome }]);
    assert_eq!((story.status(), story.step("each").status), (RunStatus::Running, StepStatus::Denied));
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
    story.retry(&letter);
    assert_eq!(story.letters(), [letter]);
    assert_eq!(story.status(), RunStatus::Running);
}
