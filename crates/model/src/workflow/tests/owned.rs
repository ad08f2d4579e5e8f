//! Steps that belong to others.

use super::*;

/// A parallel step with this input over two branches, and whatever else.
fn parallel(input: &Value, more: &Value) -> Value {
    let mut all =
        json!({"p": {"type": "parallel", "input": input}, "a": {"type": "worker"}, "b": {"type": "worker"}});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    steps(&all)
}

#[test]
fn an_error_in_a_parallel_step_names_the_member() {
    let both = |more: Value| {
        let mut input = json!({"steps": ["a", "b"]});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        parallel(&input, &json!({}))
    };
    let cases = [
        (steps(&json!({"p": {"type": "parallel"}})), "steps.p.input: a parallel step requires an input"),
        (parallel(&json!({}), &json!({})), "steps.p.input: missing field `steps`"),
        (parallel(&json!({"steps": []}), &json!({})), "steps.p.input.steps: 0 branches: use 1 to 100"),
        (
            parallel(&json!({"steps": "a, b c"}), &json!({})),
            "steps.p.input.steps: step id \"b c\" is not valid",
        ),
        (
            parallel(&json!({"steps": ["a", "x"]}), &json!({})),
            "steps.p.input.steps[1]: step x does not exist",
        ),
        (
            parallel(&json!({"steps": ["a", "a"]}), &json!({})),
            "steps.p.input.steps[1]: step a belongs to step p",
        ),
        (parallel(&json!({"steps": ["p"]}), &json!({})), "the steps p depend on each other in a cycle"),
        (both(json!({"strategy": "some"})), "steps.p.input: unknown variant `some`"),
        (both(json!({"required": 1})), "steps.p.input.required: only the strategy n_of_m supports"),
        (
            both(json!({"strategy": "n_of_m"})),
            "steps.p.input.required: the strategy n_of_m requires a number from 1 to 2",
        ),
        (both(json!({"strategy": "n_of_m", "required": 3})), "requires a number from 1 to 2"),
        (both(json!({"strategy": "n_of_m", "required": 0})), "requires a number from 1 to 2"),
        (
            steps(
                &json!({"p": {"type": "parallel", "input": {"steps": ["a"]}, "max_parallel": 0}, "a": {"type": "worker"}}),
            ),
            "steps.p.max_parallel: use at least 1",
        ),
        (
            steps(
                &json!({"p": {"type": "parallel", "input": {"steps": ["a"]}, "retry": {}}, "a": {"type": "worker"}}),
            ),
            "steps.p.retry: a parallel step does not support this field",
        ),
    ];
    expect_problems(&cases);
}

#[test]
fn a_branch_belongs_to_its_step_alone() {
    let with = |more: Value| parallel(&json!({"steps": "a,b"}), &more);
    let cases = [
        (
            with(json!({"q": {"type": "parallel", "input": {"steps": ["b"]}}})),
            "steps.q.input.steps[0]: step b belongs to step p: name p instead",
        ),
        (
            with(json!({"c": {"type": "worker", "depends_on": ["a"]}})),
            "steps.c.depends_on: step a belongs to step p",
        ),
        (
            with(json!({"c": {"type": "worker", "on_error": "a"}})),
            "steps.c.on_error: step a belongs to step p",
        ),
        (
            with(json!({"s": {"type": "switch", "condition": "1", "input": {"cases": {"1": "a"}}}})),
            "steps.s.input.cases.1: step a belongs to step p",
        ),
        (
            with(json!({"a": {"type": "worker", "depends_on": ["c"]}, "c": {"type": "worker"}})),
            "steps.a.depends_on: the step belongs",
        ),
        (
            with(json!({"a": {"type": "worker", "on_error": "c"}, "c": {"type": "worker"}})),
            "steps.a.on_error: the step belongs",
        ),
        (
            with(
                json!({"a": {"type": "switch", "condition": "1", "input": {"cases": {"1": "c"}}}, "c": {"type": "worker"}}),
            ),
            "steps.a.type: a switch step cannot belong to step p",
        ),
    ];
    expect_problems(&cases);
}

#[test]
fn parallel_steps_are_nested_to_a_bound_and_never_in_a_circle() {
    let nested = |levels: usize| {
        let level = |n: usize| {
            (format!("p{n}"), json!({"type": "parallel", "input": {"steps": [format!("p{}", n + 1)]}}))
        };
        let mut all: serde_json::Map<String, Value> = (0..levels).map(level).collect();
        all.insert(format!("p{levels}"), json!({"type": "worker"}));
        steps(&Value::Object(all))
    };
    let document: WorkflowDocument = serde_json::from_value(nested(8)).unwrap();
    assert!(Workflow::compile("w".parse().unwrap(), 1, &document).is_ok());
    expect_problems(&[
        (nested(9), "steps.p9: it belongs to others through more than 8 levels"),
        (
            steps(&json!({
                "p": {"type": "parallel", "input": {"steps": ["q"]}},
                "q": {"type": "parallel", "input": {"steps": ["p"]}},
            })),
            "the steps p, q depend on each other in a cycle",
        ),
    ]);
}

/// A loop with this input over the worker `a`, and whatever else.
fn looped(input: &Value, more: &Value) -> Value {
    let mut all = json!({"l": {"type": "loop", "input": input}, "a": {"type": "worker"}});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    steps(&all)
}

#[test]
fn an_error_in_a_loop_names_the_member() {
    let with = |more: Value| {
        let mut input = json!({"body": "a"});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        looped(&input, &json!({}))
    };
    let cases = [
        (steps(&json!({"l": {"type": "loop"}})), "steps.l.input: a loop step requires an input"),
        (looped(&json!({"count": 1}), &json!({})), "steps.l.input: missing field `body`"),
        (looped(&json!({"body": "x", "count": 1}), &json!({})), "steps.l.input.body: step x does not exist"),
        (
            looped(&json!({"body": "l", "count": 1}), &json!({})),
            "steps.l.type: a loop step cannot belong to step l",
        ),
        (with(json!({})), "steps.l.input.max_iterations: a loop requires a bound: use 1 to 1000"),
        (with(json!({"while": "true"})), "steps.l.input.max_iterations: a loop requires a bound"),
        (with(json!({"until": "true"})), "steps.l.input.max_iterations: a loop requires a bound"),
        (with(json!({"count": "input.n"})), "steps.l.input.max_iterations: a loop requires a bound"),
        (with(json!({"max_iterations": 0})), "steps.l.input.max_iterations: a loop requires a bound"),
        (with(json!({"max_iterations": 1_001})), "steps.l.input.max_iterations: a loop requires a bound"),
        (with(json!({"count": 0})), "steps.l.input.count: a loop requires a bound"),
        (with(json!({"count": 1_001})), "steps.l.input.count: a loop requires a bound"),
        (with(json!({"count": 4, "max_iterations": 3})), "steps.l.input.count: the loop makes more rounds"),
        (with(json!({"until": "((", "count": 4})), "steps.l.input.until: "),
        (with(json!({"while": "nope", "count": 4})), "steps.l.input.while: "),
        (with(json!({"until": "true", "times": 4})), "steps.l.input: unknown field `times`"),
        (
            looped(
                &json!({"body": "a", "while": "true", "count": 1}),
                &json!({
                    "l": {"type": "loop", "condition": "true", "input": {"body": "a", "while": "true", "count": 1}},
                }),
            ),
            "steps.l.input.while: the step has a condition",
        ),
    ];
    expect_problems(&cases);
}

#[test]
fn a_body_is_one_step_that_the_loop_repeats() {
    let with = |body: Value, more: Value| {
        let mut all = json!({"a": body, "c": {"type": "worker"}});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        looped(&json!({"body": "a", "count": 2}), &all)
    };
    let cases = [
        (
            with(json!({"type": "worker", "for_each": "input.x"}), json!({})),
            "steps.a.for_each: the step is the body of loop l",
        ),
        (
            with(json!({"type": "worker", "condition": "true"}), json!({})),
            "steps.a.condition: the step belongs to step l",
        ),
        (
            with(json!({"type": "worker", "depends_on": ["c"]}), json!({})),
            "steps.a.depends_on: the step belongs",
        ),
        (
            with(json!({"type": "parallel", "input": {"steps": ["c"]}}), json!({})),
            "steps.a.type: a parallel step cannot belong to step l: put it into a child run",
        ),
        (
            with(json!({"type": "loop", "input": {"body": "c", "count": 1}}), json!({})),
            "steps.a.type: a loop step cannot belong to step l",
        ),
        (
            with(
                json!({"type": "worker"}),
                json!({"m": {"type": "loop", "input": {"body": "a", "count": 1}}}),
            ),
            "steps.m.input.body: step a belongs to step l",
        ),
        (
            with(json!({"type": "worker"}), json!({"c": {"type": "worker", "depends_on": ["a"]}})),
            "steps.c.depends_on: step a belongs to step l: name l instead",
        ),
    ];
    expect_problems(&cases);
    let condition = with(json!({"type": "condition", "condition": "loop.index > 0"}), json!({}));
    let document: WorkflowDocument = serde_json::from_value(condition).unwrap();
    assert!(Workflow::compile("w".parse().unwrap(), 1, &document).is_ok(), "its test is its own");
}
