//! Fan-out.

use serde_json::json;

use super::super::super::RunStatus;
use super::TestRun;
use crate::step::StepStatus;

#[test]
fn a_fan_out_respects_its_parallel_limit_and_keeps_the_order_of_outputs() {
    let steps = json!({"each": {
        "type": "worker", "topic": "t", "for_each": "input.items", "max_parallel": 2,
        "input": {"v": "${item}", "at": "${index}"},
    }});
    let mut test = TestRun::of(&steps, json!({"items": ["a", "b", "c"]}));
    assert_eq!(test.jobs.len(), 2);
    assert_eq!(test.jobs[1].input, json!({"v": "b", "at": 1}));
    assert_eq!(test.jobs[1].id.to_string(), format!("{}:each[1]@1", test.run.start.run));
    let first = test.jobs.remove(0);
    test.complete(json!("B"));
    assert_eq!(test.jobs.len(), 1);
    test.complete(json!("C"));
    assert_eq!(test.status(), RunStatus::Running);
    test.jobs.push(first);
    test.complete(json!("A"));
    assert_eq!(test.status(), RunStatus::Succeeded);
    assert_eq!(test.step("each").output, Some(json!(["A", "B", "C"])));
}

#[test]
fn an_empty_fan_out_succeeds_and_a_non_list_fails() {
    let steps = json!({"each": {"type": "worker", "topic": "t", "for_each": "input.items"}});
    assert_eq!(TestRun::of(&steps, json!({"items": []})).status(), RunStatus::Succeeded);
    assert_eq!(TestRun::of(&steps, json!({"items": 7})).status(), RunStatus::Failed);
}

#[test]
fn a_failed_item_fails_its_step_and_cancels_its_siblings() {
    let steps = json!({"each": {"type": "worker", "topic": "t", "for_each": "[1, 2, 3]"}});
    let mut test = TestRun::of(&steps, json!({}));
    test.complete(json!(1));
    test.fail(false);
    assert_eq!((test.status(), test.step("each").status), (RunStatus::Failed, StepStatus::Failed));
    assert_eq!(test.step("each[2]").status, StepStatus::Cancelled);
    assert!(test.jobs.is_empty());
    assert!(test.run.head.error.as_ref().unwrap().message.contains("each[1]"));
}

#[test]
fn the_rows_written_for_a_fan_out_grow_linearly_with_its_items() {
    let steps = json!({"each": {"type": "worker", "topic": "t", "for_each": "input", "max_parallel": 8}});
    let items: Vec<u32> = (0..300).collect();
    let mut test = TestRun::of(&steps, json!(items));
    while !test.jobs.is_empty() {
        test.complete(json!(null));
    }
    assert_eq!(test.status(), RunStatus::Succeeded);
    assert!(test.rows_written <= 300 * 5, "{} rows", test.rows_written);
}
