//! Storage steps.

use serde_json::{Value, json};

use super::super::scope::context;
use super::*;
use crate::run::context::Context;
use crate::step::{ErrorCode, StepStatus};

fn storage(operation: &str, key: &str, more: &Value) -> Value {
    let mut input = json!({"operation": operation, "key": key});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"type": "storage", "input": input})
}

fn write(key: &str, value: &Value) -> Value {
    storage("write", key, &json!({"value": value}))
}

fn after(mut step: Value, before: &str) -> Value {
    step["depends_on"] = json!([before]);
    step
}

fn stored(test: &TestRun) -> Value {
    Value::Object(Context::of(&test.run).values)
}

#[test]
fn what_is_written_is_read_and_shown_until_it_is_deleted() {
    let steps = json!({
        "w": write("plan.${input.name}", &json!({"n": "${input.n + 1}", "list": ["${input.name}"]})),
        "r": after(storage("read", "plan.a.n", &json!({})), "w"),
        "see": after(json!({"type": "transform", "input": {"n": "${ctx.plan.a.n}", "all": "${size(keys(ctx))}"}}), "r"),
        "d": after(storage("delete", "plan.a.list", &json!({})), "see"),
        "none": after(storage("read", "plan.a.list", &json!({})), "d"),
    });
    let test = TestRun::of(&steps, json!({"name": "a", "n": 6}));
    assert_eq!(test.status(), RunStatus::Succeeded, "{:?}", test.run.head.error);
    let output = |step: &str| test.step(step).output.clone().unwrap();
    assert_eq!(output("w"), json!({"n": 7, "list": ["a"]}));
    assert_eq!((output("r"), output("see")), (json!(7), json!({"n": 7, "all": 6})));
    assert_eq!((output("d"), output("none")), (json!(["a"]), Value::Null));
    let shown = context(&test.run);
    assert_eq!((&shown["plan"], &shown["org_id"]), (&json!({"a": {"n": 7}}), &json!("acme")));
    assert!(test.has_event(EventKind::StepStorageCompleted));
}

#[test]
fn writes_of_all_steps_come_in_their_order_whatever_their_names() {
    let steps = json!({
        "z": write("v", &json!("first")),
        "m": after(worker(), "z"),
        "a": after(write("v", &json!("second")), "m"),
    });
    let mut test = TestRun::of(&steps, json!({}));
    assert_eq!(stored(&test), json!({"v": "first"}));
    test.complete(json!(1));
    assert_eq!(stored(&test), json!({"v": "second"}));
}

#[test]
fn each_round_of_a_loop_adds_to_what_the_last_one_stored() {
    let steps = json!({
        "first": write("n", &json!(0)),
        "each": {"type": "loop", "input": {"body": "add", "count": 600}, "depends_on": ["first"]},
        "add": write("n", &json!("${ctx.n + 1}")),
    });
    let test = TestRun::of(&steps, json!({}));
    assert_eq!((stored(&test), test.status()), (json!({"n": 600}), RunStatus::Succeeded));
    assert_eq!(Context::of(&test.run).changes, 601);
}

#[test]
fn a_turn_that_is_computed_again_changes_the_context_once() {
    let steps = json!({
        "work": worker(),
        "add": after(write("n", &json!("${(ctx.n == null ? 0 : ctx.n) + 1}")), "work"),
        "more": after(worker(), "add"),
    });
    let mut test = TestRun::of(&steps, json!({}));
    let job = test.jobs[0].id.clone();
    let inbox = [InboxEvent::Job { at: Timestamp::ZERO, job, outcome: JobOutcome::completed(json!(1)) }];
    let lost = advance(&test.workflow, test.run.clone(), &inbox, &test.context()).unwrap();
    let again = advance(&test.workflow, test.run.clone(), &inbox, &test.context()).unwrap();
    assert_eq!(lost.run, again.run, "the commit of the first was lost");
    test.turn(&inbox);
    test.turn(&inbox);
    assert_eq!((stored(&test), Context::of(&test.run).changes), (json!({"n": 1}), 1));
}

#[test]
fn a_wrong_path_fails_the_step_and_stores_nothing() {
    let failed = |step: Value, input: Value| {
        let steps = json!({"first": write("a", &json!({"b": 1})), "s": after(step, "first")});
        let test = TestRun::of(&steps, input);
        assert_eq!((test.step("s").status, stored(&test)), (StepStatus::Failed, json!({"a": {"b": 1}})));
        let error = test.run.head.error.clone().unwrap();
        assert_eq!(error.code, ErrorCode::ExpressionFailed);
        error.message
    };
    assert_eq!(failed(write("a.b.c", &json!(1)), json!({})), "key: `b` in `a.b.c` is no object");
    assert!(
        failed(write("${input.k}", &json!(1)), json!({"k": "x..y"})).starts_with("key: use 1 to 8 names")
    );
    assert!(failed(write("${input.k}", &json!(1)), json!({"k": "steps.x"})).contains("cannot be stored"));
    assert!(
        failed(storage("read", "${input.k}", &json!({})), json!({"k": 7}))
            .starts_with("key: 7 is not a path")
    );
    assert!(failed(write("x", &json!("${1 < 'a'}")), json!({})).starts_with("value: "));
}

#[test]
fn the_context_and_the_run_have_bounds() {
    let big = json!({
        "a": write("a", &json!("${input.big}")),
        "b": after(write("b", &json!("${input.big}")), "a"),
    });
    let test = TestRun::of(&big, json!({"big": "x".repeat(200 << 10)}));
    let error = test.run.head.error.clone().unwrap();
    assert_eq!(error.code, ErrorCode::RunTooLarge);
    assert!(error.message.contains("a run stores at most 262144"), "{error:?}");
    assert_eq!(stored(&test)["b"], Value::Null);
    let small = json!({"a": write("a", &json!("${input.big}"))});
    let mut test =
        TestRun::admitted(&json!({"name": "test", "steps": small}), json!({"big": "x".repeat(1 << 10)}));
    test.bounds.run_bytes_max = 1_500;
    test.turn(&[]);
    assert_eq!(test.run.head.error.as_ref().map(|error| error.code), Some(ErrorCode::RunTooLarge));
    assert_eq!(stored(&test), json!({}), "what the run cannot hold is not stored");
}

#[test]
fn a_handler_stores_what_it_is_given_and_not_the_error() {
    let steps = json!({
        "risky": {"type": "worker", "topic": "t", "on_error": "note"},
        "note": write("failure", &json!({"why": "${error.message}"})),
    });
    let mut test = TestRun::of(&steps, json!({}));
    test.fail(false);
    assert_eq!(stored(&test), json!({"failure": {"why": "boom"}}));
}

#[test]
fn a_rerun_begins_with_what_its_kept_steps_have_stored() {
    let steps = json!({"a": write("a", &json!(1)), "b": after(write("b", &json!("${ctx.a + 1}")), "a")});
    let first = TestRun::of(&steps, json!({}));
    let mut again = TestRun::admitted(&json!({"name": "test", "steps": steps}), json!({}));
    again.run.steps.insert("a".parse().unwrap(), first.step("a").clone());
    again.turn(&[]);
    assert_eq!(stored(&again), json!({"a": 1, "b": 2}));
    assert_eq!(again.step("b").context_change.as_ref().map(|change| change.number), Some(2));
}
