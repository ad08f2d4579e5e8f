//! What a turn may render and a run may hold.

use serde_json::{Value, json};

use super::super::super::{InboxEvent, RunStatus};
use super::super::size::{is_small_turn, size};
use super::{TestRun, worker};
use crate::job::JobOutcome;
use crate::limit::{RUN_BYTES_DEFAULT, RunBounds, TURN_BYTES_DEFAULT};
use crate::step::{ErrorCode, StepRun, StepStatus};

const MEGABYTE: usize = 1 << 20;

fn big() -> Value {
    json!({"big": "x".repeat(MEGABYTE), "items": (0..500).collect::<Vec<u32>>()})
}

fn expect_too_large(test: &TestRun, what: &str) {
    assert_eq!(test.status(), RunStatus::Failed);
    let error = test.run.head.error.as_ref().unwrap();
    assert_eq!(error.code, ErrorCode::RunTooLarge, "{error:?}");
    assert!(error.message.contains(what), "{error:?}");
    assert!(test.effects.dispatched.is_empty() && test.jobs.is_empty(), "nothing of it is dispatched");
}

#[test]
fn items_with_a_large_input_each_fail_the_run_instead_of_filling_the_memory() {
    let steps = json!({"each": {
        "type": "worker", "topic": "t", "for_each": "input.items", "input": {"big": "${input.big}"},
    }});
    expect_too_large(&TestRun::of(&steps, big()), "one turn of the run renders more than");
}

#[test]
fn a_handler_of_what_was_too_large_still_runs() {
    let steps = json!({
        "each": {
            "type": "worker", "topic": "t", "for_each": "input.items", "input": {"big": "${input.big}"},
            "on_error": "tell",
        },
        "tell": {"type": "worker", "topic": "t", "input": {"big": "${input.big}"}},
    });
    let mut test = TestRun::of(&steps, big());
    test.turn(&[]);
    assert_eq!(test.jobs.iter().map(|job| job.id.step.to_string()).collect::<Vec<_>>(), ["tell"]);
    test.complete(json!(null));
    assert_eq!(test.status(), RunStatus::Succeeded);
}

#[test]
fn many_steps_with_a_large_input_fail_the_run() {
    let step =
        |at| (format!("s{at}"), json!({"type": "worker", "topic": "t", "input": {"big": "${input.big}"}}));
    let steps: serde_json::Map<String, Value> = (0..20).map(step).collect();
    expect_too_large(&TestRun::of(&json!(steps), big()), "the input has about");
}

#[test]
fn outputs_of_many_turns_fail_the_run_when_it_holds_too_much() {
    let steps =
        json!({"each": {"type": "worker", "topic": "t", "for_each": "input.items", "max_parallel": 1}});
    let mut test = TestRun::of(&steps, big());
    let mut completed = 0;
    while !test.jobs.is_empty() {
        test.complete(json!("y".repeat(MEGABYTE)));
        completed += 1;
    }
    assert_eq!(test.run.head.error.as_ref().unwrap().code, ErrorCode::RunTooLarge);
    // The input of the run is one of them.
    assert_eq!(completed, RUN_BYTES_DEFAULT / MEGABYTE as u64 - 1);
    assert!(test.run.head.held_bytes <= RUN_BYTES_DEFAULT);
}

#[test]
fn what_is_within_bounds_is_counted_and_allowed() {
    let steps = json!({"each": {
        "type": "worker", "topic": "t", "for_each": "input.items", "input": {"big": "${input.big}"}, "max_parallel": 4,
    }});
    let mut test =
        TestRun::of(&steps, json!({"big": "x".repeat(MEGABYTE), "items": [1, 2, 3, 4, 5, 6, 7, 8]}));
    while !test.jobs.is_empty() {
        test.complete(json!(1));
    }
    assert_eq!(test.status(), RunStatus::Succeeded);
    let held = test.run.head.held_bytes;
    assert!((9 * MEGABYTE as u64..TURN_BYTES_DEFAULT).contains(&held), "{held}");
}

fn bounded(steps: &Value, input: Value, bounds: RunBounds) -> TestRun {
    let test = TestRun::admitted(&json!({"name": "test", "steps": steps}), input);
    TestRun { bounds, ..test }
}

#[test]
fn the_bounds_of_the_tenant_apply() {
    let steps = json!({"only": super::worker()});
    let sized = |bytes| json!({"big": "x".repeat(bytes)});
    let tight = |turn_bytes_max, run_bytes_max| RunBounds { turn_bytes_max, run_bytes_max };
    for (bounds, what) in [
        (tight(1_000, 100_000), "one turn of the run renders more than 1000"),
        (tight(100_000, 3_000), "the run holds more than 3000"),
    ] {
        let mut test = bounded(&steps, sized(2_000), bounds);
        test.turn(&[]);
        expect_too_large(&test, what);
    }
    let mut test = bounded(&steps, sized(2_000), tight(100_000, 100_000));
    test.turn(&[]);
    assert_eq!(test.jobs.len(), 1);
}

#[test]
fn a_run_whose_input_is_too_large_fails_at_its_start() {
    let steps = json!({"only": super::worker()});
    let bounds = RunBounds { run_bytes_max: 1_000, ..RunBounds::default() };
    let mut test = bounded(&steps, json!({"big": "x".repeat(2_000)}), bounds);
    test.turn(&[]);
    expect_too_large(&test, "the input of the run has about");
}

#[test]
fn what_a_rerun_takes_over_counts() {
    let steps =
        json!({"first": super::worker(), "then": {"type": "worker", "topic": "t", "depends_on": ["first"]}});
    let bounds = RunBounds { run_bytes_max: 1_000, ..RunBounds::default() };
    let mut test = bounded(&steps, json!({}), bounds);
    let output = Some(json!("x".repeat(2_000)));
    let copied = StepRun { status: StepStatus::Succeeded, output, ..StepRun::default() };
    test.run.steps.insert("first".parse().unwrap(), copied);
    test.turn(&[]);
    expect_too_large(&test, "what the rerun takes over has about");
}

#[test]
fn the_timeline_counts_toward_what_a_run_holds() {
    // Small values and many events: each attempt writes its dispatch and its failure.
    let retry = json!({"max_retries": 100, "initial_backoff_sec": 0, "multiplier": 1, "max_backoff_sec": 0});
    let steps = json!({"only": {"type": "worker", "topic": "t", "input": {}, "retry": retry}});
    let bounds = RunBounds { run_bytes_max: 10_000, ..RunBounds::default() };
    let mut test = bounded(&steps, json!({}), bounds);
    test.turn(&[]);
    let mut failures = 0;
    while !test.jobs.is_empty() {
        test.report(JobOutcome::failed("boom ".repeat(100), true));
        test.pass(std::time::Duration::from_secs(1));
        failures += 1;
    }
    assert_eq!(test.run.head.error.as_ref().unwrap().code, ErrorCode::RunTooLarge);
    assert!((5..20).contains(&failures), "{failures}");
}

#[test]
fn the_size_of_a_value_is_about_that_of_its_text() {
    for value in
        [json!(null), json!([1, 2, 3]), json!({"a": {"b": [true, "text", 12.5]}}), json!("x".repeat(100))]
    {
        let (counted, written) = (size(&value), value.to_string().len() as u64);
        assert!(counted >= written && counted <= written * 2 + 4, "{value}: {counted} {written}");
    }
}

#[test]
fn a_turn_is_small_with_few_steps_little_data_and_no_schema() {
    let is_small = |test: &TestRun, inbox: &[InboxEvent]| is_small_turn(&test.workflow, &test.run, inbox);
    let result = |test: &TestRun, bytes: usize| {
        let outcome = JobOutcome::completed(json!("x".repeat(bytes)));
        InboxEvent::Job { at: test.now, job: test.jobs[0].id.clone(), outcome }
    };
    let plain = TestRun::of(&json!({"a": worker()}), json!({}));
    assert!(is_small(&plain, &[result(&plain, 1_000)]));
    assert!(!is_small(&plain, &[result(&plain, 100_000)]), "a large result");
    assert!(!is_small(&plain, &vec![result(&plain, 1); 65]), "many results");
    let checked = json!({"a": {"type": "worker", "topic": "t", "output_schema": {"type": "string"}}});
    let checked = TestRun::of(&checked, json!({}));
    assert!(!is_small(&checked, &[result(&checked, 1)]), "a schema");
    assert!(!is_small(&TestRun::of(&json!({"a": worker()}), big()), &[]), "a large run");
    let each = json!({"a": {"type": "worker", "topic": "t", "for_each": "input"}});
    let items: Vec<u32> = (0..65).collect();
    assert!(!is_small(&TestRun::of(&each, json!(items)), &[]), "many items");
}
