//! Branches, conditions, approvals, handlers and endings.

use std::time::Duration;

use serde_json::json;

use super::super::super::{InboxEvent, RunStatus};
use super::{TestRun, worker};
use crate::JobId;
use crate::approval::Verdict;
use crate::history::EventKind;
use crate::job::JobOutcome;
use crate::step::StepStatus;

#[test]
fn a_chain_runs_in_order_and_its_last_output_becomes_the_runs_output() {
    let steps = json!({
        "a": worker(),
        "b": {"type": "worker", "topic": "t", "depends_on": ["a"], "input": {"from_a": "${steps.a.output.n}"}},
    });
    let mut test = TestRun::of(&steps, json!({"x": 1}));
    assert_eq!(test.status(), RunStatus::Running);
    assert_eq!(test.jobs.len(), 1);
    assert_eq!(test.complete(json!({"n": 5})).input, json!({"x": 1}));
    assert_eq!(test.complete(json!("done")).input, json!({"from_a": 5}));
    assert_eq!(test.status(), RunStatus::Succeeded);
    assert_eq!(test.run.head.output, Some(json!({"b": "done"})));
    assert!(test.run.head.completed_at.is_some());
}

#[test]
fn independent_steps_are_dispatched_together() {
    let test = TestRun::of(&json!({"a": worker(), "b": worker(), "c": worker()}), json!({}));
    assert_eq!(test.jobs.len(), 3);
}

#[test]
fn a_run_that_fails_revokes_its_other_jobs_in_the_same_turn() {
    let mut test = TestRun::of(&json!({"a": worker(), "b": worker()}), json!({}));
    let open = test.jobs[1].id.clone();
    test.fail(true);
    assert_eq!(test.status(), RunStatus::Failed);
    assert!(test.effects.revoked.contains(&open));
    assert_eq!(test.step("b").status, StepStatus::Cancelled);
}

#[test]
fn other_branches_continue_while_an_approval_is_open() {
    let steps = json!({
        "gate": {"type": "approval", "input": {"question": "deploy ${input.what}?"}},
        "a": worker(),
        "b": {"type": "worker", "topic": "t", "depends_on": ["a"]},
        "c": {"type": "worker", "topic": "t", "depends_on": ["gate", "b"]},
    });
    let mut test = TestRun::of(&steps, json!({"what": "it"}));
    assert_eq!(test.status(), RunStatus::Waiting);
    assert_eq!(test.effects.approvals_opened[0].input, json!({"question": "deploy it?"}));
    test.complete(json!(1));
    assert_eq!(test.jobs.len(), 1, "b is dispatched while the approval is open");
    test.complete(json!(2));
    assert_eq!(test.status(), RunStatus::Waiting);
    test.decide(Verdict::Approved);
    assert_eq!(test.status(), RunStatus::Running);
    test.complete(json!(3));
    assert_eq!(test.status(), RunStatus::Succeeded);
}

#[test]
fn a_rejection_ends_the_run_denied_unless_it_is_handled() {
    let mut test = TestRun::of(&json!({"gate": {"type": "approval"}, "a": worker()}), json!({}));
    test.decide(Verdict::Rejected);
    assert_eq!((test.status(), test.step("a").status), (RunStatus::Denied, StepStatus::Cancelled));

    let steps =
        json!({"gate": {"type": "approval", "on_error": "tell"}, "tell": {"type": "notify", "input": {}}});
    let mut test = TestRun::of(&steps, json!({}));
    test.decide(Verdict::Rejected);
    assert_eq!((test.status(), test.step("gate").status), (RunStatus::Succeeded, StepStatus::Denied));
}

#[test]
fn a_false_condition_skips_the_step_but_not_its_dependents() {
    let steps = json!({
        "check": {"type": "condition", "condition": "input.n > 3"},
        "big": {"type": "transform", "depends_on": ["check"], "condition": "steps.check.output", "input": {"v": 1}},
        "small": {"type": "transform", "depends_on": ["check"], "condition": "!steps.check.output", "input": {"v": 2}},
        "join": {"type": "transform", "depends_on": ["big", "small"], "input": {"v": "${steps.small.output.v}"}},
    });
    let test = TestRun::of(&steps, json!({"n": 2}));
    assert_eq!(test.status(), RunStatus::Succeeded);
    assert_eq!(test.step("big").status, StepStatus::Skipped);
    assert_eq!(test.run.head.output, Some(json!({"join": {"v": 2}})));
}

#[test]
fn an_expression_that_fails_fails_its_step() {
    let steps = json!({"a": {"type": "worker", "topic": "t", "condition": "input.n < 'x'"}});
    let test = TestRun::of(&steps, json!({"n": 1}));
    assert_eq!(test.status(), RunStatus::Failed);
    assert!(test.has_event(EventKind::StepConditionFailed));
}

#[test]
fn an_error_handler_runs_only_after_a_failure_and_recovers_it() {
    let steps = json!({
        "main": {"type": "worker", "topic": "t", "on_error": "repair"},
        "repair": {"type": "worker", "topic": "t", "input": {"why": "${error.message}"}},
        "after": {"type": "worker", "topic": "t", "depends_on": ["main"]},
    });
    let mut test = TestRun::of(&steps, json!({}));
    test.complete(json!(1));
    test.complete(json!(2));
    assert_eq!((test.status(), test.step("repair").status), (RunStatus::Succeeded, StepStatus::Skipped));

    let mut test = TestRun::of(&steps, json!({}));
    test.fail(false);
    let repair = test.complete(json!("repaired"));
    assert_eq!(repair.input["why"], json!("boom"));
    assert_eq!(repair.input["error"]["step_id"], json!("main"));
    assert_eq!(test.complete(json!(3)).id.step.to_string(), "after");
    assert_eq!(test.status(), RunStatus::Succeeded);
    assert!(test.has_event(EventKind::StepErrorRedirect));
}

#[test]
fn a_step_continues_whose_own_handler_has_just_recovered_the_step_before_it() {
    let steps = json!({
        "first": {"type": "worker", "topic": "t", "on_error": "report"},
        "second": {"type": "worker", "topic": "t", "depends_on": ["first"], "on_error": "report"},
        // It handles both, so that it comes after both, and is done at once.
        "report": {"type": "notify", "input": {}},
    });
    let mut test = TestRun::of(&steps, json!({}));
    test.fail(false);
    assert_eq!(test.step("report").status, StepStatus::Succeeded);
    assert_eq!(test.complete(json!(2)).id.step.to_string(), "second");
    assert_eq!(test.status(), RunStatus::Succeeded);
}

#[test]
fn a_handler_that_fails_fails_the_run() {
    let steps = json!({"main": {"type": "worker", "topic": "t", "on_error": "repair"}, "repair": worker()});
    let mut test = TestRun::of(&steps, json!({}));
    test.fail(false);
    test.fail(false);
    assert_eq!(test.status(), RunStatus::Failed);
}

#[test]
fn cancelling_a_run_ends_all_its_steps_at_once() {
    let retry = json!({"max_retries": 1, "initial_backoff_sec": 100});
    let steps = json!({"a": {"type": "worker", "topic": "t", "retry": retry}, "b": worker(), "gate": {"type": "approval"}});
    let mut test = TestRun::of(&steps, json!({}));
    test.fail(true);
    test.turn(&[InboxEvent::Cancel { by: "ann".to_owned() }]);
    assert_eq!(test.status(), RunStatus::Cancelled);
    assert!(test.run.steps.values().all(|step| step.status == StepStatus::Cancelled && !step.job_open));
    let cancelled = test.events.iter().filter(|(kind, _)| *kind == EventKind::StepCancelled).count();
    assert_eq!(cancelled, 3, "each open step has an event");
    assert!(test.jobs.is_empty());
    let before = test.run.clone();
    test.pass(Duration::from_secs(1_000));
    assert_eq!(test.run.head.status, before.head.status);
    assert_eq!(test.run.steps, before.steps);
}

#[test]
fn a_notification_appears_in_the_timeline() {
    let steps = json!({"tell": {"type": "notify", "input": {"message": "hello ${input.who}"}}});
    let test = TestRun::of(&steps, json!({"who": "you"}));
    assert!(test.has_event(EventKind::StepEventEmitted));
    assert_eq!(test.step("tell").output, Some(json!({"message": "hello you"})));
}

#[test]
fn cancelling_a_job_cancels_its_run() {
    let mut test = TestRun::of(&json!({"a": worker()}), json!({}));
    test.report(JobOutcome::Cancelled { by: "ann".to_owned() });
    assert_eq!((test.status(), test.step("a").status), (RunStatus::Cancelled, StepStatus::Cancelled));
}

#[test]
fn an_unknown_job_changes_nothing() {
    let mut test = TestRun::of(&json!({"a": worker()}), json!({}));
    let job = JobId { run: test.run.start.run, step: "zzz".parse().unwrap(), attempt: 1 };
    let before = test.run.clone();
    test.turn(&[InboxEvent::Job { at: crate::Timestamp::ZERO, job, outcome: JobOutcome::Lost }]);
    assert_eq!(test.run, before);
}

#[test]
fn only_a_run_that_succeeds_has_an_output() {
    let mut test = TestRun::of(&json!({"a": worker(), "b": worker()}), json!({}));
    test.complete(json!("done"));
    test.fail(false);
    assert_eq!((test.status(), &test.run.head.output), (RunStatus::Failed, &None));
}

#[test]
fn a_step_has_begun_unless_it_is_skipped() {
    let skipped = json!({"type": "worker", "topic": "t", "condition": "false"});
    let test = TestRun::of(&json!({"a": worker(), "b": skipped}), json!({}));
    assert_eq!((test.step("a").status, test.step("a").started_at), (StepStatus::Running, Some(test.now)));
    assert_eq!((test.step("b").status, test.step("b").started_at), (StepStatus::Skipped, None));
}
