//! A step for each item.

use serde_json::json;

use super::super::super::RunStatus;
use super::Story;
use crate::step::StepStatus;

#[test]
fn a_fan_out_keeps_to_its_width_and_gathers_outputs_in_order() {
    let steps = json!({"each": {
        "type": "worker", "topic": "t", "for_each": "input.items", "max_parallel": 2,
        "input": {"v": "${item}", "at": "${index}"},
    }});
    let mut story = Story::of(&steps, json!({"items": ["a", "b", "c"]}));
    assert_eq!(story.jobs.len(), 2);
    assert_eq!(story.jobs[1].input, json!({"v": "b", "at": 1}));
    assert_eq!(story.jobs[1].id.to_string(), format!("{}:each[1]@1", story.run.start.run));
    let first = story.jobs.remove(0);
    story.complete(json!("B"));
    assert_eq!(story.jobs.len(), 1);
    story.complete(json!("C"));
    assert_eq!(story.status(), RunStatus::Running);
    story.jobs.push(first);
    story.complete(json!("A"));
    assert_eq!(story.status(), RunStatus::Succeeded);
    assert_eq!(story.step("each").output, Some(json!(["A", "B", "C"])));
}

#[test]
fn an_empty_fan_out_succeeds_and_one_over_no_list_fails() {
    let steps = json!({"each": {"type": "worker", "topic": "t", "for_each": "input.items"}});
    assert_eq!(Story::of(&steps, json!({"items": []})).status(), RunStatus::Succeeded);
    assert_eq!(Story::of(&steps, json!({"items": 7})).status(), RunStatus::Failed);
}

#[test]
fn an_item_that_fails_takes_its_step_and_its_siblings_with_it() {
    let steps = json!({"each": {"type": "worker", "topic": "t", "for_each": "[1, 2, 3]"}});
    let mut story = Story::of(&steps, json!({}));
    story.complete(json!(1));
    story.fail(false);
    assert_eq!((story.status(), story.step("each").status), (RunStatus::Failed, StepStatus::Failed));
    assert_eq!(story.step("each[2]").status, StepStatus::Cancelled);
    assert!(story.jobs.is_empty());
    assert!(story.run.head.error.as_ref().unwrap().message.contains("each[1]"));
}

#[test]
fn the_rows_written_for_a_fan_out_grow_with_its_items_and_not_with_their_square() {
    let steps = json!({"each": {"type": "worker", "topic": "t", "for_each": "input", "max_parallel": 8}});
    let items: Vec<u32> = (0..300).collect();
    let mut story = Story::of(&steps, json!(items));
    while !story.jobs.is_empty() {
        story.complete(json!(null));
    }
    assert_eq!(story.status(), RunStatus::Succeeded);
    assert!(story.rows_written <= 300 * 5, "{} rows", story.rows_written);
}
