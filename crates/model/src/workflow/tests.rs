//! Validation of workflow documents.

mod origin;
mod owned;

use serde_json::{Value, json};

use super::{Workflow, WorkflowDocument};

fn problem(document: &Value) -> String {
    match serde_json::from_value::<WorkflowDocument>(document.clone()) {
        Err(error) => error.to_string(),
        Ok(document) => match Workflow::compile("w".parse().unwrap(), 1, &document) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{document:?} must be rejected"),
        },
    }
}

fn steps(steps: &Value) -> Value {
    json!({"name": "w", "steps": steps})
}

#[test]
fn an_error_names_the_place_and_the_problem() {
    let worker = json!({"type": "worker", "topic": "t"});
    let cases = [
        (json!({"name": "w", "steps": {}}), "steps: 0 steps"),
        (json!({"name": "", "steps": {"a": worker}}), "name: use 1 to 256"),
        (json!({"name": "w", "steps": {"a": worker}, "colour": 1}), "unknown field `colour`"),
        (steps(&json!({"a b": worker})), "step id \"a b\" is not valid"),
        (steps(&json!({"a": {"type": "magic"}})), "unknown variant `magic`"),
        (steps(&json!({"a": {"type": "worker", "topci": "t"}})), "unknown field `topci`"),
        (
            steps(&json!({"a": {"type": "worker", "depends_on": ["b"]}})),
            "steps.a.depends_on: step b does not exist",
        ),
        (
            steps(&json!({"a": {"type": "worker", "on_error": "b"}})),
            "steps.a.on_error: step b does not exist",
        ),
        (steps(&json!({"a": {"type": "worker", "depends_on": ["a"]}})), "depend on each other in a cycle"),
        (
            steps(&json!({"a": {"type": "worker", "condition": "nope > 1"}})),
            "steps.a.condition: unknown name `nope`",
        ),
        (steps(&json!({"a": {"type": "worker", "for_each": "(("}})), "steps.a.for_each:"),
        (
            steps(&json!({"a": {"type": "worker", "for_each": "[1]", "max_parallel": 0}})),
            "steps.a.max_parallel:",
        ),
        (
            steps(&json!({"a": {"type": "worker", "max_parallel": 2}})),
            "steps.a.max_parallel: a worker step does not support",
        ),
        (steps(&json!({"a": {"type": "delay"}})), "steps.a.delay_sec: a delay step requires"),
        (
            steps(&json!({"a": {"type": "delay", "delay_sec": 1, "topic": "t"}})),
            "steps.a.topic: a delay step does not support",
        ),
        (
            steps(&json!({"a": {"type": "delay", "delay_sec": -1}})),
            "steps.a.delay_sec: use a number of seconds",
        ),
        (
            steps(&json!({"a": {"type": "delay", "delay_sec": 1e300}})),
            "steps.a.delay_sec: use a number of seconds",
        ),
        (steps(&json!({"a": {"type": "delay", "delay_until": "soon"}})), "steps.a.delay_until:"),
        (steps(&json!({"a": {"type": "condition"}})), "steps.a.condition: a condition step requires"),
        (steps(&json!({"a": {"type": "transform"}})), "steps.a.input: a transform step requires"),
        (
            steps(&json!({"a": {"type": "worker", "input": {"x": "${nope}"}}})),
            "steps.a.input: unknown name `nope`",
        ),
        (steps(&json!({"a": {"type": "worker", "output_schema": 7}})), "steps.a.output_schema:"),
        (
            steps(&json!({"a": {"type": "worker", "retry": {"max_retries": 5000}}})),
            "steps.a.retry.max_retries:",
        ),
        (steps(&json!({"a": {"type": "worker", "retry": {"multiplier": 0.5}}})), "steps.a.retry.multiplier:"),
    ];
    expect_problems(&cases);
}

fn expect_problems(cases: &[(Value, &str)]) {
    for (document, expected) in cases {
        let found = problem(document);
        assert!(found.contains(expected), "{document}\n  found: {found}\n  expected: {expected}");
    }
}

#[test]
fn an_error_in_a_switch_names_the_case() {
    let switch = |input: Value| {
        steps(&json!({
            "s": {"type": "switch", "condition": "input.kind", "input": input},
            "a": {"type": "worker"}, "b": {"type": "worker"},
        }))
    };
    let cases = [
        (steps(&json!({"s": {"type": "switch"}})), "steps.s.input: a switch step requires an input"),
        (switch(json!({"case": []})), "steps.s.input: unknown field `case`"),
        (switch(json!({"cases": 7})), "steps.s.input.cases: use a list"),
        (switch(json!({"cases": []})), "steps.s.input.cases: 0 cases: use 1 to 100"),
        (switch(json!({"cases": [{"when": 1}]})), "steps.s.input.cases[0]: missing field `next`"),
        (switch(json!({"cases": {"x": 3}})), "steps.s.input.cases.x: invalid type"),
        (
            switch(json!({"cases": [{"when": 1, "next": "a"}, {"when": 2, "next": "gone"}]})),
            "steps.s.input.cases[1]: step gone does not exist",
        ),
        (
            switch(json!({"cases": {"x": "a"}, "default": "gone"})),
            "steps.s.input.default: step gone does not exist",
        ),
        (switch(json!({"cases": {"x": "s"}})), "the steps s depend on each other in a cycle"),
        (
            steps(&json!({
                "s": {"type": "switch", "input": {"cases": [{"when": "nope", "next": "a"}]}},
                "a": {"type": "worker"},
            })),
            "steps.s.input.cases[0]: unknown name `nope`",
        ),
        (
            steps(&json!({
                "s": {"type": "switch", "input": {"cases": [{"when": 3, "next": "a"}]}},
                "a": {"type": "worker"},
            })),
            "steps.s.input.cases[0]: use an expression, or give the step a condition",
        ),
        (
            steps(&json!({
                "s": {"type": "switch", "condition": "1", "input": {"cases": {"1": "a"}}},
                "r": {"type": "switch", "condition": "1", "input": {"cases": {"1": "a"}}},
                "a": {"type": "worker"},
            })),
            "switch r leads to step a, too",
        ),
    ];
    expect_problems(&cases);
}

#[test]
fn an_error_in_a_subworkflow_names_the_member() {
    let sub = |input: Value| steps(&json!({"s": {"type": "subworkflow", "input": input}}));
    let mapped = |mapping: Value| sub(json!({"workflow_id": "w", "input_mapping": mapping}));
    let cases = [
        (
            steps(&json!({"s": {"type": "subworkflow"}})),
            "steps.s.input: a subworkflow step requires an input",
        ),
        (sub(json!({})), "steps.s.input: missing field `workflow_id`"),
        (sub(json!({"workflow_id": "a b"})), "steps.s.input: workflow id \"a b\" is not valid"),
        (
            sub(json!({"workflow_id": "w", "output_mapping": {}})),
            "steps.s.input: unknown field `output_mapping`",
        ),
        (mapped(json!({"a": "${nope}"})), "steps.s.input.input_mapping: "),
        (
            steps(&json!({"s": {"type": "subworkflow", "topic": "t", "input": {"workflow_id": "w"}}})),
            "steps.s.topic: a subworkflow step does not support this field",
        ),
    ];
    expect_problems(&cases);
    let document: WorkflowDocument = serde_json::from_value(mapped(json!({"a": "${input.x}"}))).unwrap();
    assert!(Workflow::compile("w".parse().unwrap(), 1, &document).is_ok(), "a workflow may start itself");
}

#[test]
fn what_others_dispatch_as_jobs_is_a_worker_step() {
    for kind in ["llm", "http", "container", "script", "input"] {
        let document = steps(&json!({"a": {"type": kind, "input": {"prompt": "${input.x}"}}}));
        let document: WorkflowDocument = serde_json::from_value(document).unwrap();
        let workflow = Workflow::compile("w".parse().unwrap(), 1, &document).unwrap();
        let step = workflow.steps.values().next().unwrap();
        assert_eq!(step.kind.topic().map(ToString::to_string), Some("job.workflow.w".to_owned()), "{kind}");
    }
    let delayed = json!({"a": {"type": "llm", "delay_sec": 1}});
    assert!(problem(&steps(&delayed)).contains("a llm step does not support"));
}

#[test]
fn a_cycle_through_an_error_handler_is_a_cycle() {
    let found = problem(&steps(&json!({
        "a": {"type": "worker", "on_error": "h", "depends_on": ["b"]},
        "b": {"type": "worker", "depends_on": ["h"]},
        "h": {"type": "worker"},
    })));
    assert!(found.contains("cycle") && found.contains("a, b, h"), "{found}");
}

#[test]
fn a_workflow_has_at_most_a_thousand_steps() {
    let many = |count: usize| -> Value {
        let step = |n: usize| (format!("s{n}"), json!({"type": "transform", "input": {}}));
        steps(&Value::Object((0..count).map(step).collect()))
    };
    let document: WorkflowDocument = serde_json::from_value(many(1_000)).unwrap();
    assert_eq!(Workflow::compile("w".parse().unwrap(), 1, &document).unwrap().order.len(), 1_000);
    assert!(problem(&many(1_001)).contains("1001 steps"));
}

#[test]
fn steps_come_after_their_dependencies() {
    let document: WorkflowDocument = serde_json::from_value(steps(&json!({
        "z": {"type": "worker"},
        "a": {"type": "worker", "depends_on": ["z"]},
        "m": {"type": "worker", "depends_on": ["a", "z"]},
    })))
    .unwrap();
    let workflow = Workflow::compile("w".parse().unwrap(), 1, &document).unwrap();
    assert_eq!(workflow.order.iter().map(ToString::to_string).collect::<Vec<_>>(), ["z", "a", "m"]);
    assert_eq!(workflow.leaves.iter().map(ToString::to_string).collect::<Vec<_>>(), ["m"]);
}

#[test]
fn a_name_and_a_description_are_counted_in_characters() {
    let document = |name: usize, description: usize| {
        let (name, description) = ("ä".repeat(name), "ä".repeat(description));
        json!({"name": name, "description": description, "steps": {"a": {"type": "worker", "topic": "t"}}})
    };
    let longest: WorkflowDocument = serde_json::from_value(document(256, 8_192)).unwrap();
    assert!(Workflow::compile("w".parse().unwrap(), 1, &longest).is_ok());
    assert!(problem(&document(257, 0)).contains("name: use 1 to 256 characters"));
    assert!(problem(&document(1, 8_193)).contains("description: use at most 8192 characters"));
}

#[test]
fn an_error_in_a_storage_step_names_the_member() {
    let storage = |input: Value| steps(&json!({"s": {"type": "storage", "input": input}}));
    let read = |key: &str| storage(json!({"operation": "read", "key": key}));
    let cases = [
        (steps(&json!({"s": {"type": "storage"}})), "steps.s.input: a storage step requires an input"),
        (storage(json!({"key": "a"})), "steps.s.input: missing field `operation`"),
        (storage(json!({"operation": "append", "key": "a"})), "steps.s.input: unknown variant `append`"),
        (storage(json!({"operation": "read"})), "steps.s.input: missing field `key`"),
        (storage(json!({"operation": "write", "key": "a"})), "steps.s.input.value: a write requires a value"),
        (
            storage(json!({"operation": "read", "key": "a", "value": 1})),
            "steps.s.input.value: only a write has a value",
        ),
        (storage(json!({"operation": "write", "key": "a", "value": "${nope}"})), "steps.s.input.value: "),
        (read("a..b"), "steps.s.input.key: use 1 to 8 names between dots"),
        (read("a.b.c.d.e.f.g.h.i"), "steps.s.input.key: use 1 to 8 names"),
        (read("run_id"), "steps.s.input.key: `run_id` is a member of every run's context"),
        (read("${nope}"), "steps.s.input.key: "),
        (
            steps(
                &json!({"s": {"type": "storage", "input": {"operation": "read", "key": "a"}, "retry": {}}}),
            ),
            "steps.s.retry: a storage step does not support this field",
        ),
    ];
    expect_problems(&cases);
}
