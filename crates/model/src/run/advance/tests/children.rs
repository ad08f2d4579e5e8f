//! Steps that start runs and wait for them.

use serde_json::{Value, json};

use super::*;
use crate::child::{ChildOutcome, ChildReport, DEPTH_MAX, ParentLink};
use crate::step::{ErrorCode, StepStatus};

fn subworkflow(more: &Value) -> Value {
    let mut step = json!({"type": "subworkflow", "input": {"workflow_id": "child", "input_mapping": {"n": "${input.n}"}}});
    step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    step
}

fn one(more: &Value) -> TestRun {
    TestRun::of(&json!({"sub": subworkflow(more)}), json!({"n": 7}))
}

impl TestRun {
    /// The end of the child that was asked for as this one.
    fn child_ended(&mut self, number: usize, outcome: ChildOutcome) {
        let child = self.effects.children.started[number].clone();
        self.turn(&[InboxEvent::Child { step: child.parent.step, child: child.run, outcome }]);
    }
}

fn succeeded(output: Value) -> ChildOutcome {
    ChildOutcome::Succeeded { output }
}

fn ended(status: RunStatus) -> ChildOutcome {
    ChildOutcome::Ended { status, message: "worker_failed: boom".to_owned() }
}

#[test]
fn a_step_starts_a_run_and_has_its_output() {
    let mut test = one(&json!({}));
    let child = test.effects.children.started[0].clone();
    assert_eq!((child.workflow.as_str(), &child.input), ("child", &json!({"n": 7})));
    let run = test.run.start.run;
    let expected = ParentLink { run, step: "sub".parse().unwrap(), root: run, depth: 1 };
    assert_eq!(child.parent, expected);
    assert_eq!((test.step("sub").child, test.step("sub").status), (Some(child.run), StepStatus::Running));
    test.child_ended(0, succeeded(json!({"a": 1})));
    assert_eq!(test.run.head.output, Some(json!({"sub": {"a": 1}})));
    test.child_ended(0, ended(RunStatus::Failed));
    assert_eq!(test.status(), RunStatus::Succeeded, "a message that comes twice changes nothing");
}

#[test]
fn a_failed_child_fails_its_step_and_a_retry_starts_another() {
    let mut test = one(&json!({"retry": {"max_retries": 1}}));
    test.child_ended(0, ended(RunStatus::Failed));
    test.pass(Duration::from_mins(1));
    let started = &test.effects.children.started;
    assert_eq!(started.len(), 2);
    assert_ne!(started[0].run, started[1].run);
    test.child_ended(0, succeeded(json!(1)));
    assert_eq!(test.status(), RunStatus::Running, "it waits for the second");
    test.child_ended(1, ended(RunStatus::TimedOut));
    let error = test.run.head.error.clone().unwrap();
    assert_eq!((error.code, test.status()), (ErrorCode::ChildFailed, RunStatus::Failed));
    assert!(error.message.contains("timed_out: worker_failed: boom"), "{error:?}");
}

#[test]
fn a_cancelled_child_cancels_its_step_and_a_denied_one_is_not_tried_again() {
    let mut test = one(&json!({"retry": {"max_retries": 3}}));
    test.child_ended(0, ended(RunStatus::Cancelled));
    assert_eq!(test.status(), RunStatus::Cancelled);
    let mut test = one(&json!({"retry": {"max_retries": 3}}));
    test.child_ended(0, ended(RunStatus::Denied));
    assert_eq!((test.status(), test.effects.children.started.len()), (RunStatus::Failed, 1));
}

#[test]
fn a_child_that_was_refused_fails_its_step_with_the_reason() {
    let mut test = one(&json!({"retry": {"max_retries": 3}}));
    let refused = |code, retryable| ChildOutcome::Refused { code, message: "no".to_owned(), retryable };
    test.child_ended(0, refused(ErrorCode::LimitReached, true));
    test.pass(Duration::from_mins(1));
    test.child_ended(1, refused(ErrorCode::WorkflowNotFound, false));
    assert_eq!(test.run.head.error.as_ref().map(|error| error.code), Some(ErrorCode::WorkflowNotFound));
}

#[test]
fn the_end_of_the_run_or_the_timeout_of_the_step_cancels_the_child() {
    let mut test = one(&json!({}));
    test.turn(&[InboxEvent::Cancel { by: "ann".to_owned() }]);
    let child = test.effects.children.started[0].run;
    assert_eq!(test.effects.children.cancelled, [child]);
    let mut test = one(&json!({"timeout_sec": 5}));
    test.pass(Duration::from_secs(5));
    assert_eq!(test.effects.children.cancelled, [test.effects.children.started[0].run]);
    assert_eq!(test.status(), RunStatus::TimedOut);
}

#[test]
fn an_ended_run_reports_to_its_parent_once() {
    let steps = json!({"done": {"type": "transform", "input": {"a": 1}}});
    let mut test = TestRun::admitted(&json!({"name": "test", "steps": steps}), json!({}));
    let parent = ParentLink {
        run: RunId::new(test.now, [1; 10]),
        step: "sub[3]".parse().unwrap(),
        root: RunId::new(test.now, [2; 10]),
        depth: 2,
    };
    test.run.start.parent = Some(parent.clone());
    test.turn(&[]);
    let outcome = succeeded(json!({"done": {"a": 1}}));
    let report = ChildReport::about(&parent, test.run.start.run, outcome);
    assert_eq!(test.effects.children.report.take(), Some(report));
    test.turn(&[InboxEvent::Cancel { by: "ann".to_owned() }]);
    assert_eq!(test.effects.children.report, None);
}

#[test]
fn runs_are_nested_to_a_bound() {
    let document = json!({"name": "test", "steps": {"sub": subworkflow(&json!({}))}});
    for (depth, status) in [(DEPTH_MAX - 1, RunStatus::Running), (DEPTH_MAX, RunStatus::Failed)] {
        let mut test = TestRun::admitted(&document, json!({"n": 1}));
        let above = RunId::new(test.now, [1; 10]);
        test.run.start.parent =
            Some(ParentLink { run: above, step: "sub".parse().unwrap(), root: above, depth });
        test.turn(&[]);
        assert_eq!(test.status(), status);
        let code = test.run.head.error.as_ref().map(|error| error.code);
        assert_eq!(code, (status == RunStatus::Failed).then_some(ErrorCode::TooDeep));
    }
}

#[test]
fn a_list_starts_a_run_per_item_at_most_as_many_as_one_commit_can_cancel() {
    let step = json!({"type": "subworkflow", "for_each": "input.list", "input": {"workflow_id": "child"}});
    let list: Vec<u32> = (0..1_200).collect();
    let mut test = TestRun::of(&json!({"sub": step}), json!({"list": list}));
    assert_eq!(test.effects.children.started.len(), 1_000);
    assert_eq!(test.effects.children.started[3].input, json!({"item": 3, "index": 3}));
    for number in 0..1_200 {
        test.child_ended(number, succeeded(json!(number)));
    }
    assert_eq!(test.status(), RunStatus::Succeeded);
    let mut test = TestRun::of(&json!({"sub": step}), json!({"list": [1, 2, 3]}));
    test.child_ended(1, ended(RunStatus::Failed));
    assert_eq!(test.effects.children.cancelled.len(), 2, "with the other items");
}
