//! Loops.

use serde_json::{Value, json};

use super::*;
use crate::child::ChildOutcome;
use crate::step::{ErrorCode, StepStatus};
use StepStatus::{Cancelled, Failed, Running, Skipped, Succeeded, TimedOut};

/// A loop over a worker, and a step that follows it.
fn steps(input: &Value, body: &Value) -> Value {
    let mut input = input.clone();
    input["body"] = json!("work");
    json!({
        "repeat": {"type": "loop", "input": input},
        "work": body,
        "after": {"type": "transform", "input": {"got": "${steps.repeat.output}"}, "depends_on": ["repeat"]},
    })
}

/// A body that says what it sees.
fn seeing() -> Value {
    json!({"type": "worker", "topic": "t", "input": {"index": "${loop.index}", "last": "${loop.last}"}})
}

fn of(input: &Value) -> TestRun {
    TestRun::of(&steps(input, &seeing()), json!({"n": 3}))
}

/// A loop whose body the engine computes.
fn computed(input: &Value, run_input: Value) -> TestRun {
    let body = json!({"type": "transform", "input": {"n": "${loop.index}", "before": "${loop.last.n}"}});
    TestRun::of(&steps(input, &body), run_input)
}

#[test]
fn each_round_sees_the_output_of_the_one_before_and_has_a_job_of_its_own() {
    let mut test = of(&json!({"count": 3}));
    let mut jobs = Vec::new();
    for round in 0..3_u32 {
        assert_eq!(test.jobs.len(), 1, "one round at a time");
        let seen = json!({"index": round, "last": 9 + round});
        // A template that gives null drops its member.
        let seen = if round == 0 { json!({"index": 0}) } else { seen };
        assert_eq!(test.jobs[0].input, seen);
        jobs.push(test.complete(json!(10 + round)).id.to_string());
    }
    let run = test.run.start.run;
    assert_eq!(jobs, [0, 1, 2].map(|round| format!("{run}:work[{round}]@1")));
    let output = json!({"count": 3, "last": 12, "rounds": [10, 11, 12]});
    assert_eq!(test.run.head.output, Some(json!({"after": {"got": output}})));
    assert_eq!(test.step("work").output, Some(json!(12)));
    assert_eq!(test.events.iter().filter(|(kind, _)| *kind == EventKind::StepLoopIteration).count(), 3);
    assert!(test.has_event(EventKind::StepLoopCompleted));
}

#[test]
fn a_while_is_asked_before_each_round_and_an_until_after_it() {
    let count =
        |input: Value| computed(&input, json!({})).step("repeat").output.clone().unwrap()["count"].clone();
    assert_eq!(count(json!({"while": "loop.index < 4", "max_iterations": 9})), json!(4));
    assert_eq!(count(json!({"while": "false", "max_iterations": 9})), json!(0));
    assert_eq!(count(json!({"until": "loop.last.n == 4", "max_iterations": 9})), json!(5));
    assert_eq!(count(json!({"until": "true", "max_iterations": 9})), json!(1));
    assert_eq!(count(json!({"until": "loop.last.n == 1", "count": 9})), json!(2));
    assert_eq!(count(json!({"until": "loop.last.n == 100", "count": 9})), json!(9), "a count is an end, too");
    assert_eq!(count(json!({"max_iterations": 7})), json!(7), "nothing else ends it");
    assert_eq!(
        count(json!({"while": "loop.index < 7", "max_iterations": 7})),
        json!(7),
        "at its bound, but done"
    );
    let by_condition = json!({
        "repeat": {"type": "loop", "condition": "loop.index < 2", "input": {"body_step": "work", "max_iterations": 5}},
        "work": {"type": "transform", "input": {}},
    });
    assert_eq!(
        TestRun::of(&by_condition, json!({})).step("repeat").output.as_ref().unwrap()["count"],
        json!(2)
    );
}

#[test]
fn a_count_may_be_an_expression_within_the_bound() {
    let input = json!({"count": "input.n", "max_iterations": 5});
    let test = computed(&input, json!({"n": 5}));
    assert_eq!(test.step("repeat").output.as_ref().unwrap()["count"], json!(5));
    let none = computed(&input, json!({"n": 0}));
    assert_eq!(none.step("repeat").output, Some(json!({"count": 0, "last": null, "rounds": []})));
    assert_eq!((none.step("work").status, none.status()), (Skipped, RunStatus::Succeeded));
    for wrong in [json!(6), json!(-1), json!(1.5), json!("3"), Value::Null] {
        let test = computed(&input, json!({"n": wrong}));
        let error = test.run.head.error.clone().unwrap();
        assert_eq!(error.code, ErrorCode::ExpressionFailed, "{wrong}");
        assert!(error.message.contains("count: it is not a whole number from 0 to 5"), "{error:?}");
        assert_eq!(test.run.step_status(&"work".parse().unwrap()), Cancelled);
    }
}

#[test]
fn a_loop_that_does_not_come_to_its_end_fails_at_its_bound() {
    for input in
        [json!({"while": "true", "max_iterations": 3}), json!({"until": "false", "max_iterations": 3})]
    {
        let test = computed(&input, json!({}));
        let error = test.run.head.error.clone().unwrap();
        assert_eq!((error.code, test.status()), (ErrorCode::LoopExhausted, RunStatus::Failed));
        assert_eq!(error.message, "the loop has made 3 rounds and is not at its end");
        assert_eq!(test.run.steps.keys().filter(|key| key.item.is_some()).count(), 3);
    }
}

#[test]
fn a_failed_round_fails_the_loop_and_a_handler_recovers_it() {
    let mut all = steps(&json!({"count": 3}), &seeing());
    all["repeat"]["on_error"] = json!("sorry");
    all["sorry"] = json!({"type": "transform", "input": {"why": "${error.message}"}});
    let mut test = TestRun::of(&all, json!({}));
    test.complete(json!(1));
    test.fail(false);
    assert_eq!(test.run.head.output.as_ref().unwrap()["sorry"]["why"], json!("work[1]: boom"));
    assert_eq!((test.step("repeat").status, test.step("work").status), (Failed, Failed));
    assert_eq!(test.status(), RunStatus::Succeeded);
    assert_eq!(test.effects.dispatched.len(), 2, "no round follows");
}

#[test]
fn a_round_is_tried_again_for_itself() {
    let mut body = seeing();
    body["retry"] = json!({"max_retries": 1});
    let mut test = TestRun::of(&steps(&json!({"count": 2}), &body), json!({}));
    test.fail(true);
    test.pass(Duration::from_secs(10));
    assert!(test.complete(json!("a")).id.to_string().ends_with(":work[0]@2"));
    test.fail(true);
    test.pass(Duration::from_secs(10));
    let second = test.complete(json!("b"));
    assert!(second.id.to_string().ends_with(":work[1]@2"), "each round has retries of its own");
    assert_eq!(second.input, json!({"index": 1, "last": "a"}));
    assert_eq!(test.step("repeat").output.as_ref().unwrap()["rounds"], json!(["a", "b"]));
}

#[test]
fn a_round_and_the_loop_have_timeouts() {
    let mut body = seeing();
    body["timeout_sec"] = json!(10);
    body["retry"] = json!({"max_retries": 1, "initial_backoff_sec": 0.1, "max_backoff_sec": 0.1});
    let mut all = steps(&json!({"count": 9}), &body);
    all["repeat"]["timeout_sec"] = json!(25);
    let mut test = TestRun::of(&all, json!({}));
    test.pass(Duration::from_secs(10));
    test.report(JobOutcome::TimedOut);
    test.pass(Duration::from_secs(1));
    assert_eq!((test.step("work[0]").attempts, test.step("repeat").status), (2, Running));
    test.complete(json!(1));
    test.pass(Duration::from_secs(9));
    assert_eq!(test.step("work[1]").status, Running);
    test.pass(Duration::from_secs(5));
    assert_eq!((test.step("repeat").status, test.step("work").status), (TimedOut, Cancelled));
    assert_eq!((test.step("work[1]").status, test.status()), (Cancelled, RunStatus::TimedOut));
    assert!(test.jobs.is_empty());
}

#[test]
fn a_cancelled_run_makes_no_further_round() {
    let mut test = of(&json!({"count": 3}));
    test.complete(json!(1));
    let job = test.jobs[0].id.clone();
    test.turn(&[InboxEvent::Cancel { by: "ann".to_owned() }]);
    test.turn(&[InboxEvent::Job { at: Timestamp::ZERO, job, outcome: JobOutcome::completed(json!(2)) }]);
    assert_eq!((test.step("work[1]").status, test.status()), (Cancelled, RunStatus::Cancelled));
    assert_eq!(test.effects.dispatched.len(), 2);
}

#[test]
fn a_result_that_comes_twice_makes_one_round() {
    let mut test = of(&json!({"count": 3}));
    let job = test.jobs.remove(0).id;
    let result = InboxEvent::Job { at: Timestamp::ZERO, job, outcome: JobOutcome::completed(json!(1)) };
    test.turn(&[result.clone(), result.clone()]);
    test.turn(&[result]);
    let rounds: Vec<String> = test.effects.dispatched.iter().map(|job| job.id.step.to_string()).collect();
    assert_eq!(rounds, ["work[0]", "work[1]"]);
}

#[test]
fn any_step_that_waits_may_be_a_body() {
    let all = |body: Value| steps(&json!({"count": 2}), &body);
    let mut test = TestRun::of(&all(json!({"type": "delay", "delay_sec": 5})), json!({}));
    test.pass(Duration::from_secs(5));
    assert_eq!(test.status(), RunStatus::Running);
    test.pass(Duration::from_secs(5));
    assert_eq!(test.status(), RunStatus::Succeeded);
    let mut test = TestRun::of(&all(json!({"type": "approval"})), json!({}));
    for round in 0..2 {
        assert_eq!(test.status(), RunStatus::Waiting);
        let job = test.effects.approvals_opened[round].job.clone();
        let decision = Decision { verdict: Verdict::Approved, by: "ann".to_owned(), reason: None };
        test.turn(&[InboxEvent::Approval { job, decision }]);
    }
    assert_eq!(test.status(), RunStatus::Succeeded);
    let mut test =
        TestRun::of(&all(json!({"type": "subworkflow", "input": {"workflow_id": "w"}})), json!({}));
    for round in 0..2_usize {
        let child = test.effects.children.started[round].clone();
        let last = if round == 0 { Value::Null } else { json!(7) };
        assert_eq!(child.input, json!({"index": round, "last": last}));
        let outcome = ChildOutcome::Succeeded { output: json!(7) };
        test.turn(&[InboxEvent::Child { step: child.parent.step, child: child.run, outcome }]);
    }
    assert_eq!(test.status(), RunStatus::Succeeded);
}

#[test]
fn a_loop_may_be_a_branch() {
    let all = json!({
        "p": {"type": "parallel", "input": {"steps": ["repeat", "quick"], "strategy": "any"}},
        "repeat": {"type": "loop", "input": {"body": "work", "count": 2}},
        "work": worker(),
        "quick": worker(),
        "after": {"type": "transform", "input": {}, "depends_on": ["p"]},
    });
    let mut test = TestRun::of(&all, json!({}));
    test.complete_of("work[0]", json!(1));
    test.complete_of("work[1]", json!(2));
    assert_eq!(
        test.statuses("p repeat work quick after"),
        [Succeeded, Succeeded, Succeeded, Cancelled, Succeeded]
    );
    let mut test = TestRun::of(&all, json!({}));
    test.complete_of("quick", json!(1));
    assert_eq!(
        test.statuses("p repeat work quick after"),
        [Succeeded, Cancelled, Cancelled, Succeeded, Succeeded]
    );
    assert_eq!(test.step("work[0]").status, Cancelled);
    assert!(test.jobs.is_empty());
}

#[test]
fn a_loop_of_a_thousand_computed_rounds_is_made_in_pieces() {
    let test = computed(&json!({"count": 1_000}), json!({}));
    let output = test.step("repeat").output.clone().unwrap();
    assert_eq!((&output["count"], &output["last"]), (&json!(1_000), &json!({"n": 999, "before": 998})));
    assert!(test.largest_piece <= super::super::PIECE_MAX + 10, "{} rows in one turn", test.largest_piece);
    assert!(test.rows_written <= 1_020, "each round is written once, but {} rows were", test.rows_written);
}

#[test]
fn the_outputs_of_rounds_are_bounded_by_the_size_of_the_run() {
    let body = json!({"type": "transform", "input": {"all": "x${loop.last.all}${loop.last.all}"}});
    let mut test = TestRun::admitted(
        &json!({"name": "test", "steps": steps(&json!({"count": 1_000}), &body)}),
        json!({}),
    );
    test.bounds.run_bytes_max = 1 << 20;
    test.turn(&[]);
    assert_eq!(test.run.head.error.as_ref().map(|error| error.code), Some(ErrorCode::RunTooLarge));
    assert!(test.run.head.held_bytes <= 1 << 20);
}

#[test]
fn a_skipped_loop_is_no_loop_without_rounds() {
    let mut all = steps(&json!({"count": 2}), &seeing());
    all["route"] =
        json!({"type": "switch", "condition": "1", "input": {"cases": {"2": "repeat"}, "default": "else"}});
    all["else"] = json!({"type": "transform", "input": {}});
    let test = TestRun::of(&all, json!({}));
    assert_eq!(test.statuses("repeat work after"), [Skipped, Skipped, Skipped]);
    assert_eq!(test.status(), RunStatus::Succeeded);
}

#[test]
fn no_other_step_is_in_a_round() {
    let all =
        json!({"a": {"type": "transform", "input": {"is": "${loop.index == null && loop.last == null}"}}});
    let test = TestRun::of(&all, json!({}));
    assert_eq!(test.step("a").output, Some(json!({"is": true})));
}
