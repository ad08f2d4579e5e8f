//! Switches.

use serde_json::{Value, json};

use super::super::super::{InboxEvent, RunStatus};
use super::{TestRun, worker};
use crate::history::EventKind;
use crate::step::{ErrorCode, StepStatus};

/// Two branches that meet again. `large` has a second step, which also depends on one before the switch.
fn steps(switch: &Value) -> Value {
    json!({
        "setup": {"type": "transform", "input": {}},
        "route": switch,
        "large": {"type": "transform", "input": {"v": 1}},
        "larger": {"type": "transform", "input": {"v": 2}, "depends_on": ["large", "setup"]},
        "small": {"type": "transform", "input": {"v": 3}},
        "join": {"type": "transform", "input": {"v": 4}, "depends_on": ["larger", "small"]},
    })
}

fn by_value() -> Value {
    json!({
        "type": "switch", "condition": "input.size",
        "input": {"cases": [{"when": "large", "next": "large"}, {"match": 9, "step": "large"}], "default": "small"},
    })
}

fn expect_taken(test: &TestRun, taken: &str) {
    assert_eq!(test.status(), RunStatus::Succeeded, "{:?}", test.run.head.error);
    assert_eq!(test.step("route").output, Some(json!(taken)));
    let is_large = if taken == "large" { StepStatus::Succeeded } else { StepStatus::Skipped };
    let is_small = if taken == "small" { StepStatus::Succeeded } else { StepStatus::Skipped };
    let status = |step: &str| test.step(step).status;
    assert_eq!((status("large"), status("larger"), status("small")), (is_large, is_large, is_small));
    assert_eq!(
        test.run.head.output,
        Some(json!({"join": {"v": 4}})),
        "where branches meet, the run continues"
    );
    assert!(test.has_event(EventKind::StepSwitchEvaluated));
}

#[test]
fn a_switch_takes_the_first_case_with_its_value_and_skips_the_other_branches_to_their_ends() {
    let test = |size: Value| TestRun::of(&steps(&by_value()), json!({"size": size}));
    expect_taken(&test(json!("large")), "large");
    expect_taken(&test(json!(9.0)), "large");
    expect_taken(&test(json!("else")), "small");
    expect_taken(&test(json!(null)), "small");
}

#[test]
fn a_switch_without_a_value_takes_the_first_case_that_holds() {
    let cases =
        json!([{"when": "input.size > 10", "next": "large"}, {"when": "input.size > 5", "next": "small"}]);
    let switch = json!({"type": "switch", "input": {"cases": cases}});
    let test = |size: u32| TestRun::of(&steps(&switch), json!({"size": size}));
    expect_taken(&test(11), "large");
    expect_taken(&test(6), "small");
    let none = test(1);
    assert_eq!(none.status(), RunStatus::Failed);
    assert_eq!(none.run.head.error.as_ref().map(|error| error.code), Some(ErrorCode::NoCaseMatches));
}

#[test]
fn the_keys_of_cases_stand_for_texts_and_for_what_they_spell() {
    let switch = json!({"type": "switch", "condition": "input.size", "input": {
        "cases": {"true": "large", "7": "large", "tiny": "small"}, "default_step": "small",
    }});
    for (size, taken) in
        [(json!(true), "large"), (json!("true"), "large"), (json!(7), "large"), (json!("tiny"), "small")]
    {
        expect_taken(&TestRun::of(&steps(&switch), json!({"size": size})), taken);
    }
}

#[test]
fn a_switch_in_a_branch_that_is_not_taken_takes_no_branch() {
    let steps = json!({
        "outer": {"type": "switch", "condition": "input", "input": {"cases": {"a": "a", "b": "inner"}}},
        "a": worker(),
        "inner": {"type": "switch", "condition": "'d'", "input": {"cases": {"c": "c", "d": "d"}}},
        "c": worker(),
        "d": worker(),
        "end": {"type": "worker", "topic": "t", "depends_on": ["c", "d"]},
    });
    let mut test = TestRun::of(&steps, json!("a"));
    assert_eq!(test.complete(json!(1)).id.step.to_string(), "a");
    assert!(["inner", "c", "d", "end"].iter().all(|step| test.step(step).status == StepStatus::Skipped));
    assert_eq!(test.run.head.output, Some(json!({"a": 1})));
    let mut test = TestRun::of(&steps, json!("b"));
    assert_eq!(test.complete(json!(1)).id.step.to_string(), "d");
    assert_eq!(test.complete(json!(2)).id.step.to_string(), "end");
    assert_eq!(test.status(), RunStatus::Succeeded);
}

#[test]
fn a_switch_whose_failure_is_handled_takes_no_branch() {
    let steps = json!({
        "route": {"type": "switch", "condition": "input.n < 'x'", "input": {"cases": {"a": "a"}}, "on_error": "tell"},
        "a": worker(),
        "tell": {"type": "notify", "input": {"text": "${error.code}"}},
    });
    let test = TestRun::of(&steps, json!({"n": 1}));
    assert_eq!((test.status(), test.step("a").status), (RunStatus::Succeeded, StepStatus::Skipped));
    assert_eq!(test.run.head.output.as_ref().unwrap()["tell"]["text"], json!("expression_failed"));
}

#[test]
fn a_run_that_is_cancelled_in_a_branch_ends_it() {
    let mut steps = steps(&by_value());
    steps["large"] = worker();
    let mut test = TestRun::of(&steps, json!({"size": "large"}));
    test.turn(&[InboxEvent::Cancel { by: "ann".to_owned() }]);
    assert_eq!((test.status(), test.step("large").status), (RunStatus::Cancelled, StepStatus::Cancelled));
    assert_eq!(test.step("small").status, StepStatus::Skipped);
    assert!(test.jobs.is_empty());
}
