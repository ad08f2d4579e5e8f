//! Parallel steps.

use serde_json::{Value, json};

use super::*;
use crate::child::ChildOutcome;
use crate::step::{ErrorCode, StepStatus};

/// A parallel step over the workers `a`, `b` and `c`, and a step that follows it.
fn steps(input: &Value) -> Value {
    let mut input = input.clone();
    input["steps"] = json!(["a", "b", "c"]);
    json!({
        "p": {"type": "parallel", "input": input},
        "a": worker(), "b": worker(), "c": worker(),
        "after": {"type": "transform", "input": {"first": "${steps.p.output.succeeded[0]}"}, "depends_on": ["p"]},
    })
}

fn of(input: &Value) -> TestRun {
    TestRun::of(&steps(input), json!({}))
}

use StepStatus::{Cancelled, Denied, Failed, Pending, Running, Skipped, Succeeded, TimedOut, Waiting};

#[test]
fn all_branches_run_at_once_and_the_output_says_how_each_ended() {
    let mut test = of(&json!({}));
    assert_eq!(test.open_jobs(), ["a", "b", "c"]);
    test.complete_of("b", json!(2));
    test.pass(Duration::from_secs(1));
    test.complete_of("a", json!(1));
    assert_eq!(test.statuses("p a b c after"), [Running, Succeeded, Succeeded, Running, Pending]);
    test.complete_of("c", json!(3));
    assert_eq!(test.status(), RunStatus::Succeeded);
    let end = |output: u32| json!({"status": "succeeded", "output": output});
    let branches = json!({"a": end(1), "b": end(2), "c": end(3)});
    assert_eq!(
        test.step("p").output,
        Some(json!({"succeeded": ["b", "a", "c"], "branches": branches})),
        "by the time of their ends"
    );
    assert_eq!(
        test.run.head.output,
        Some(json!({"after": {"first": "b"}})),
        "a branch is no end of the workflow"
    );
}

#[test]
fn the_failure_of_one_of_all_branches_cancels_the_others_and_fails_the_run() {
    let mut test = of(&json!({"strategy": "all"}));
    test.complete_of("a", json!(1));
    test.fail_of("b");
    assert_eq!(test.statuses("p a b c after"), [Failed, Succeeded, Failed, Cancelled, Pending]);
    assert_eq!(test.effects.revoked.len(), 1, "the job of c");
    let error = test.run.head.error.clone().unwrap();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::WorkerFailed, "b: boom"));
    assert_eq!(error.step.unwrap().as_str(), "p");
}

#[test]
fn the_first_success_of_any_cancels_the_rest() {
    let mut test = of(&json!({"strategy": "any"}));
    test.fail_of("a");
    assert_eq!(test.status(), RunStatus::Running);
    test.complete_of("c", json!(3));
    assert_eq!(test.statuses("p a b c after"), [Succeeded, Failed, Cancelled, Succeeded, Succeeded]);
    let revoked: Vec<String> = test.effects.revoked.iter().map(ToString::to_string).collect();
    assert_eq!(revoked.len(), 1);
    assert!(revoked[0].ends_with(":b@1"), "{revoked:?}");
    let branches = &test.step("p").output.as_ref().unwrap()["branches"];
    assert_eq!(branches["a"], json!({"status": "failed", "error": "boom"}));
    assert_eq!(branches["b"], json!({"status": "cancelled"}));
    assert_eq!(test.status(), RunStatus::Succeeded);
}

#[test]
fn results_that_come_together_with_the_deciding_one_change_nothing() {
    let mut test = of(&json!({"mode": "any"}));
    let outcome = |test: &TestRun, at: usize, output: u32| InboxEvent::Job {
        at: Timestamp::ZERO,
        job: test.jobs[at].id.clone(),
        outcome: JobOutcome::completed(json!(output)),
    };
    let inbox = [outcome(&test, 1, 2), outcome(&test, 0, 1)];
    test.turn(&inbox);
    assert_eq!(test.statuses("p a b c"), [Succeeded, Cancelled, Succeeded, Cancelled]);
    let before = test.run.clone();
    test.turn(&inbox);
    assert_eq!(test.run.steps, before.steps, "nor do they when they come again");
}

#[test]
fn an_any_fails_as_soon_as_no_branch_can_succeed() {
    let mut test = of(&json!({"strategy": "any"}));
    test.fail_of("a");
    test.fail_of("b");
    assert_eq!(test.status(), RunStatus::Running);
    test.fail_of("c");
    assert_eq!((test.status(), test.error_code()), (RunStatus::Failed, Some(ErrorCode::TooFewBranches)));
    let skipped = json!({
        "p": {"type": "parallel", "input": {"steps": "a, b", "strategy": "any"}},
        "a": {"type": "worker", "topic": "t", "condition": "false"},
        "b": {"type": "transform", "input": {}, "condition": "false"},
    });
    let test = TestRun::of(&skipped, json!({}));
    assert_eq!((test.status(), test.error_code()), (RunStatus::Failed, Some(ErrorCode::TooFewBranches)));
    assert_eq!(test.statuses("a b"), [Skipped, Skipped], "a branch that is skipped has not succeeded");
}

#[test]
fn n_of_m_ends_when_enough_have_succeeded_or_can_not_any_more() {
    let two = json!({"strategy": "n_of_m", "required": 2});
    let mut test = of(&two);
    test.fail_of("a");
    test.complete_of("b", json!(2));
    assert_eq!(test.status(), RunStatus::Running);
    test.complete_of("c", json!(3));
    assert_eq!(test.statuses("p a b c"), [Succeeded, Failed, Succeeded, Succeeded]);
    let mut test = of(&two);
    test.fail_of("a");
    test.fail_of("c");
    assert_eq!(test.statuses("p a b c"), [Failed, Failed, Cancelled, Failed]);
    let message = test.run.head.error.clone().unwrap().message;
    assert_eq!(message, "2 of 3 branches must succeed, and no more than 1 can: a failed, c failed");
}

#[test]
fn a_handler_recovers_a_parallel_step() {
    let mut steps = steps(&json!({"strategy": "any"}));
    steps["p"]["on_error"] = json!("sorry");
    steps["sorry"] = json!({"type": "transform", "input": {"code": "${error.code}"}});
    let mut test = TestRun::of(&steps, json!({}));
    for step in ["a", "b", "c"] {
        test.fail_of(step);
    }
    assert_eq!(test.status(), RunStatus::Succeeded);
    assert_eq!(test.run.head.output.as_ref().unwrap()["sorry"]["code"], json!("too_few_branches"));
}

#[test]
fn branches_wait_for_room_and_those_that_had_none_are_cancelled() {
    let mut steps = steps(&json!({"strategy": "any"}));
    steps["p"]["max_parallel"] = json!(1);
    let mut test = TestRun::of(&steps, json!({}));
    assert_eq!(test.open_jobs(), ["a"]);
    test.fail_of("a");
    assert_eq!(test.open_jobs(), ["b"]);
    test.complete_of("b", json!(2));
    assert_eq!(test.statuses("p a b c after"), [Succeeded, Failed, Succeeded, Cancelled, Succeeded]);
    assert_eq!(test.effects.dispatched.len(), 2, "c was never dispatched");
}

#[test]
fn a_retry_of_a_branch_is_awaited_and_a_timeout_of_the_step_cancels_all() {
    let mut steps = steps(&json!({}));
    steps["b"]["retry"] = json!({"max_retries": 1});
    steps["p"]["timeout_sec"] = json!(60);
    let mut test = TestRun::of(&steps, json!({}));
    test.report_of("b", JobOutcome::failed("boom".to_owned(), true));
    test.pass(Duration::from_secs(10));
    test.complete_of("b", json!(2));
    assert_eq!(test.statuses("p a b c"), [Running, Running, Succeeded, Running]);
    test.pass(Duration::from_secs(50));
    assert_eq!(test.statuses("p a b c"), [TimedOut, Cancelled, Succeeded, Cancelled]);
    assert_eq!((test.status(), test.jobs.len()), (RunStatus::TimedOut, 0));
}

#[test]
fn a_person_and_a_delay_race_and_a_rejection_denies_the_step() {
    let steps = json!({
        "p": {"type": "parallel", "input": {"steps": ["gate", "late"], "strategy": "any"}},
        "gate": {"type": "approval"},
        "late": {"type": "delay", "delay_sec": 60},
    });
    let mut test = TestRun::of(&steps, json!({}));
    assert_eq!((test.status(), test.statuses("gate late")), (RunStatus::Waiting, vec![Waiting, Running]));
    test.pass(Duration::from_mins(1));
    assert_eq!(test.statuses("p gate late"), [Succeeded, Cancelled, Succeeded]);
    assert_eq!(test.effects.approvals_withdrawn.len(), 1);
    let mut both = steps.clone();
    both["p"]["input"]["strategy"] = json!("all");
    let mut test = TestRun::of(&both, json!({}));
    test.decide(Verdict::Rejected);
    assert_eq!(test.statuses("p gate late"), [Denied, Denied, Cancelled]);
    assert_eq!(test.status(), RunStatus::Denied);
}

#[test]
fn lists_and_children_of_branches_are_cancelled_with_them() {
    let steps = json!({
        "p": {"type": "parallel", "input": {"steps": ["fast", "each", "child", "inner"], "strategy": "any"}},
        "fast": worker(),
        "each": {"type": "worker", "topic": "t", "for_each": "input.list", "max_parallel": 2},
        "child": {"type": "subworkflow", "for_each": "input.list", "input": {"workflow_id": "w"}},
        "inner": {"type": "parallel", "input": {"steps": ["deep"]}},
        "deep": worker(),
    });
    let mut test = TestRun::of(&steps, json!({"list": [1, 2, 3]}));
    let child = test.effects.children.started[1].clone();
    test.turn(&[InboxEvent::Child {
        step: child.parent.step,
        child: child.run,
        outcome: ChildOutcome::Succeeded { output: json!(1) },
    }]);
    test.complete_of("fast", json!(1));
    assert_eq!(test.status(), RunStatus::Succeeded);
    assert!(test.jobs.is_empty(), "{:?}", test.open_jobs());
    assert_eq!(test.effects.children.cancelled.len(), 2);
    assert_eq!(test.statuses("each child inner deep"), [Cancelled; 4]);
    let open = test.run.steps.iter().filter(|(_, step)| !step.status.is_settled());
    assert_eq!(open.count(), 0);
}

#[test]
fn branches_of_a_step_that_does_not_run_do_not_run() {
    let mut skipped = steps(&json!({}));
    skipped["p"]["condition"] = json!("false");
    let test = TestRun::of(&skipped, json!({}));
    assert_eq!(test.statuses("p a b c after"), [Skipped, Skipped, Skipped, Skipped, Succeeded]);
    let mut broken = steps(&json!({}));
    broken["p"]["condition"] = json!("1 < 'a'");
    broken["p"]["on_error"] = json!("after");
    broken["after"] = json!({"type": "transform", "input": {}});
    let test = TestRun::of(&broken, json!({}));
    assert_eq!(test.statuses("p a b c after"), [Failed, Cancelled, Cancelled, Cancelled, Succeeded]);
    assert_eq!(test.status(), RunStatus::Succeeded);
}

#[test]
fn a_step_that_sorts_before_a_branch_begins_when_its_computed_branches_end() {
    let steps = json!({
        "z": {"type": "parallel", "input": {"steps": ["y", "x"]}, "max_parallel": 1},
        "y": {"type": "parallel", "input": {"steps": ["w"]}},
        "x": {"type": "transform", "input": {}},
        "w": {"type": "transform", "input": {}},
        "after": {"type": "transform", "input": {}, "depends_on": ["z"]},
    });
    assert_eq!(TestRun::of(&steps, json!({})).status(), RunStatus::Succeeded);
}

#[test]
fn a_cancelled_run_ends_its_branches() {
    let mut test = of(&json!({"strategy": "any"}));
    test.turn(&[InboxEvent::Cancel { by: "ann".to_owned() }]);
    assert_eq!(test.statuses("p a b c after"), [Cancelled, Cancelled, Cancelled, Cancelled, Pending]);
    assert_eq!((test.status(), test.effects.revoked.len()), (RunStatus::Cancelled, 3));
}

#[test]
fn a_letter_of_a_branch_returns_to_its_list_if_its_step_has_ended() {
    let letter = |test: &TestRun, step: &str| {
        let job = test.step(step).job.clone().unwrap();
        let letter = crate::dead_letter::DeadLetter {
            job,
            topic: None,
            code: crate::dead_letter::LetterCode::WorkerLost,
            reason: "lost".to_owned(),
            attempts: 1,
            last_error: None,
            buried_at: test.now,
            result: None,
        };
        InboxEvent::Retry { by: "ann".to_owned(), letter: Box::new(letter) }
    };
    let mut steps = steps(&json!({"strategy": "any"}));
    steps["p"]["on_error"] = json!("sorry");
    steps["sorry"] = worker();
    let mut test = TestRun::of(&steps, json!({}));
    test.fail_of("a");
    test.turn(&[letter(&test, "a")]);
    assert_eq!(test.statuses("p a"), [Running, Running], "while the step runs, a branch may try again");
    for step in ["b", "c", "a"] {
        test.fail_of(step);
    }
    test.turn(&[letter(&test, "b")]);
    assert_eq!((test.statuses("p b"), test.effects.buried.len()), (vec![Failed, Failed], 1));
    assert_eq!(test.open_jobs(), ["sorry"]);
}
