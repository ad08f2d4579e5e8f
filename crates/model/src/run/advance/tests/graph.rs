//! Branches, conditions, approvals, handlers and endings.

use std::time::Duration;

use serde_json::json;

use super::super::super::{InboxEvent, RunStatus};
use super::super::Command;
use super::{Story, worker};
use crate::JobId;
use crate::approval::Verdict;
use crate::history::EventKind;
use crate::job::JobOutcome;
use crate::step::StepStatus;

#[test]
fn a_chain_runs_in_order_and_its_last_output_is_the_runs() {
    let steps = json!({
        "a": worker(),
        "b": {"type": "worker", "topic": "t", "depends_on": ["a"], "input": {"from_a": "${steps.a.output.n}"}},
    });
    let mut story = Story::of(&steps, json!({"x": 1}));
    assert_eq!(story.status(), RunStatus::Running);
    assert_eq!(story.jobs.len(), 1);
    assert_eq!(story.complete(json!({"n": 5})).input, json!({"x": 1}));
    assert_eq!(story.complete(json!("done")).input, json!({"from_a": 5}));
    assert_eq!(story.status(), RunStatus::Succeeded);
    assert_eq!(story.run.head.output, Some(json!({"b": "done"})));
    assert!(story.run.head.completed_at.is_some());
}

#[test]
fn independent_steps_are_dispatched_together() {
    let story = Story::of(&json!({"a": worker(), "b": worker(), "c": worker()}), json!({}));
    assert_eq!(story.jobs.len(), 3);
}

#[test]
fn a_run_that_fails_revokes_its_other_jobs_in_the_same_turn() {
    let mut story = Story::of(&json!({"a": worker(), "b": worker()}), json!({}));
    let open = story.jobs[1].id.clone();
    story.fail(true);
    assert_eq!(story.status(), RunStatus::Failed);
    assert!(story.commands.contains(&Command::Revoke(open)));
    assert_eq!(story.step("b").status, StepStatus::Cancelled);
}

#[test]
fn an_approval_waits_while_other_branches_go_on() {
    let steps = json!({
        "gate": {"type": "approval", "input": {"question": "deploy ${input.what}?"}},
        "a": worker(),
        "b": {"type": "worker", "topic": "t", "depends_on": ["a"]},
        "c": {"type": "worker", "topic": "t", "depends_on": ["gate", "b"]},
    });
    let mut story = Story::of(&steps, json!({"what": "it"}));
    assert_eq!(story.status(), RunStatus::Waiting);
    let asked = story.commands.iter().find_map(|it| match it {
        Command::OpenApproval(approval) => Some(approval.input.clone()),
        Command::Dispatch(_) | Command::Revoke(_) | Command::WithdrawApproval(_) | Command::BuryJob(_) => {
            None
        }
    });
    assert_eq!(asked, Some(json!({"question": "deploy it?"})));
    story.complete(json!(1));
    assert_eq!(story.jobs.len(), 1, "b was dispatched while the approval is open");
    story.complete(json!(2));
    assert_eq!(story.status(), RunStatus::Waiting);
    story.decide(Verdict::Approved);
    assert_eq!(story.status(), RunStatus::Running);
    story.complete(json!(3));
    assert_eq!(story.status(), RunStatus::Succeeded);
}

#[test]
fn a_rejection_ends_the_run_denied_unless_it_is_handled() {
    let mut story = Story::of(&json!({"gate": {"type": "approval"}, "a": worker()}), json!({}));
    story.decide(Verdict::Rejected);
    assert_eq!((story.status(), story.step("a").status), (RunStatus::Denied, StepStatus::Cancelled));

    let steps =
        json!({"gate": {"type": "approval", "on_error": "tell"}, "tell": {"type": "notify", "input": {}}});
    let mut story = Story::of(&steps, json!({}));
    story.decide(Verdict::Rejected);
    assert_eq!((story.status(), story.step("gate").status), (RunStatus::Succeeded, StepStatus::Denied));
}

#[test]
fn a_false_condition_skips_the_step_and_lets_its_dependents_go_on() {
    let steps = json!({
        "check": {"type": "condition", "condition": "input.n > 3"},
        "big": {"type": "transform", "depends_on": ["check"], "condition": "steps.check.output", "input": {"v": 1}},
        "small": {"type": "transform", "depends_on": ["check"], "condition": "!steps.check.output", "input": {"v": 2}},
        "join": {"type": "transform", "depends_on": ["big", "small"], "input": {"v": "${steps.small.output.v}"}},
    });
    let story = Story::of(&steps, json!({"n": 2}));
    assert_eq!(story.status(), RunStatus::Succeeded);
    assert_eq!(story.step("big").status, StepStatus::Skipped);
    assert_eq!(story.run.head.output, Some(json!({"join": {"v": 2}})));
}

#[test]
fn an_expression_that_fails_fails_its_step() {
    let steps = json!({"a": {"type": "worker", "topic": "t", "condition": "input.n < 'x'"}});
    let story = Story::of(&steps, json!({"n": 1}));
    assert_eq!(story.status(), RunStatus::Failed);
    assert!(story.has_told(EventKind::StepConditionFailed));
}

#[test]
fn an_error_handler_runs_only_when_it_is_needed_and_makes_good() {
    let steps = json!({
        "main": {"type": "worker", "topic": "t", "on_error": "repair"},
        "repair": {"type": "worker", "topic": "t", "input": {"why": "${error.message}"}},
        "after": {"type": "worker", "topic": "t", "depends_on": ["main"]},
    });
    let mut story = Story::of(&steps, json!({}));
    story.complete(json!(1));
    story.complete(json!(2));
    assert_eq!((story.status(), story.step("repair").status), (RunStatus::Succeeded, StepStatus::Skipped));

    let mut story = Story::of(&steps, json!({}));
    story.fail(false);
    let repair = story.complete(json!("repaired"));
    assert_eq!(repair.input["why"], json!("boom"));
    assert_eq!(repair.input["error"]["step_id"], json!("main"));
    assert_eq!(story.complete(json!(3)).id.step.to_string(), "after");
    assert_eq!(story.status(), RunStatus::Succeeded);
    assert!(story.has_told(EventKind::StepErrorRedirect));
}

#[test]
fn a_handler_that_fails_fails_the_run() {
    let steps = json!({"main": {"type": "worker", "topic": "t", "on_error": "repair"}, "repair": worker()});
    let mut story = Story::of(&steps, json!({}));
    story.fail(false);
    story.fail(false);
    assert_eq!(story.status(), RunStatus::Failed);
}

#[test]
fn a_cancelled_run_ends_at_once_with_everything_of_it() {
    let retry = json!({"max_retries": 1, "initial_backoff_sec": 100});
    let steps = json!({"a": {"type": "worker", "topic": "t", "retry": retry}, "b": worker(), "gate": {"type": "approval"}});
    let mut story = Story::of(&steps, json!({}));
    story.fail(true);
    story.go(&[InboxEvent::Cancel { by: "ann".to_owned() }]);
    assert_eq!(story.status(), RunStatus::Cancelled);
    assert!(story.run.steps.values().all(|step| step.status == StepStatus::Cancelled && !step.job_open));
    let told = story.told.iter().filter(|(kind, _)| *kind == EventKind::StepCancelled).count();
    assert_eq!(told, 3, "the timeline tells each open step's end");
    assert!(story.jobs.is_empty());
    let before = story.run.clone();
    story.pass(Duration::from_secs(1_000));
    assert_eq!(story.run.head.status, before.head.status);
    assert_eq!(story.run.steps, before.steps);
}

#[test]
fn a_notification_stands_in_the_timeline() {
    let steps = json!({"tell": {"type": "notify", "input": {"message": "hello ${input.who}"}}});
    let story = Story::of(&steps, json!({"who": "you"}));
    assert!(story.has_told(EventKind::StepEventEmitted));
    assert_eq!(story.step("tell").output, Some(json!({"message": "hello you"})));
}

#[test]
fn a_job_that_an_operator_cancelled_ends_its_run_cancelled() {
    let mut story = Story::of(&json!({"a": worker()}), json!({}));
    story.report(JobOutcome::Cancelled { by: "ann".to_owned() });
    assert_eq!((story.status(), story.step("a").status), (RunStatus::Cancelled, StepStatus::Cancelled));
}

#[test]
fn an_unknown_job_changes_nothing() {
    let mut story = Story::of(&json!({"a": worker()}), json!({}));
    let job = JobId { run: story.run.start.run, step: "zzz".parse().unwrap(), attempt: 1 };
    let before = story.run.clone();
    story.go(&[InboxEvent::Job { at: crate::Timestamp::ZERO, job, outcome: JobOutcome::Lost }]);
    assert_eq!(story.run, before);
}
