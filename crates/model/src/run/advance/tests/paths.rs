//! Parts of results, paths of outputs, and schemas of inputs.

use serde_json::{Value, json};

use super::TestRun;

fn run(step: &Value, input: Value) -> TestRun {
    let steps = json!({
        "a": step,
        "b": {"type": "transform", "depends_on": ["a"], "input": {"kept": "${ctx.plan.text}", "whole": "${steps.a.output}"}},
    });
    TestRun::of(&steps, input)
}

fn error(run: &TestRun) -> String {
    run.step("a").error.as_ref().unwrap().message.clone()
}

#[test]
fn the_output_is_the_part_of_the_result_and_is_found_by_its_path() {
    let mut run = run(
        &json!({"type": "worker", "result_data_path": "data.choice", "output_path": "plan.text",
               "output_schema": {"type": "string"}}),
        json!({}),
    );
    run.complete(json!({"data": {"choice": "left", "cost": 3}}));
    assert_eq!(run.step("b").output, Some(json!({"kept": "left", "whole": "left"})));
}

#[test]
fn a_result_without_the_part_is_invalid() {
    let mut run = run(&json!({"type": "worker", "result_data_path": "data.choice"}), json!({}));
    run.complete(json!({"data": [1]}));
    assert_eq!(error(&run), "the result has no data.choice, which result_data_path names");
}

#[test]
fn a_job_whose_input_does_not_match_is_not_dispatched() {
    let step = json!({"type": "worker", "input": {"n": "${input.n}"}, "retry": {"max_retries": 3},
        "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}});
    assert_eq!(run(&step, json!({"n": 1})).jobs.len(), 1);
    let refused = run(&step, json!({"n": "one"}));
    assert!(refused.jobs.is_empty());
    let error = error(&refused);
    assert!(error.starts_with("the input does not match its schema"), "{error}");
}
