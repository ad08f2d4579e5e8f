//! Turns that may wait for more results.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::super::InboxEvent;
use super::super::super::gather::{only_writes_down, wait_for_more};
use super::super::advance;
use super::{Story, worker};
use crate::job::JobOutcome;

const LONGEST: Duration = Duration::from_millis(50);

fn fan_out(items: usize) -> Story {
    let steps = json!({"each": {"type": "worker", "topic": "t", "for_each": "input.items"}, "after": {
        "type": "worker", "topic": "t", "depends_on": ["each"],
    }});
    Story::of(&steps, json!({"items": vec![0; items]}))
}

/// The results of the next so many jobs.
fn results(story: &Story, count: usize) -> Vec<InboxEvent> {
    let jobs = story.jobs.iter().take(count);
    let completed = || JobOutcome::Completed { output: json!({}) };
    jobs.map(|job| InboxEvent::Job { job: job.id.clone(), outcome: completed(), at: story.now }).collect()
}

fn wait(story: &Story, inbox: &[InboxEvent], since: Duration) -> Option<Duration> {
    wait_for_more((&story.run.head, &story.run.steps), inbox, story.now + since, LONGEST)
}

fn writes_down(story: &Story, inbox: &[InboxEvent]) -> bool {
    let turn = advance(&story.workflow, story.run.clone(), inbox, story.now).unwrap();
    only_writes_down(story.status(), inbox, &turn)
}

#[test]
fn turns_are_apart_by_what_the_jobs_that_are_out_are_worth() {
    let story = fan_out(2_000);
    let one = results(&story, 1);
    assert_eq!(wait(&story, &one, Duration::ZERO), Some(LONGEST), "never longer");
    assert_eq!(wait(&story, &one, Duration::from_millis(20)), Some(Duration::from_millis(30)));
    let most = results(&story, 1_900);
    assert_eq!(wait(&story, &most, Duration::ZERO), Some(Duration::from_millis(5)));
    assert_eq!(wait(&story, &most, Duration::from_millis(5)), None);
}

#[test]
fn a_result_after_a_silence_and_the_last_result_are_due_at_once() {
    let story = fan_out(1_000);
    assert_eq!(wait(&story, &results(&story, 1), LONGEST), None);
    assert_eq!(wait(&story, &results(&story, 1_000), Duration::ZERO), None);
    let alone = Story::of(&json!({"work": worker()}), json!({}));
    assert_eq!(wait(&alone, &results(&alone, 1), Duration::ZERO), None);
}

#[test]
fn what_is_no_success_is_due_at_once() {
    let story = fan_out(1_000);
    let failed = JobOutcome::Failed { error: "boom".to_owned(), retryable: true };
    let failure = InboxEvent::Job { job: story.jobs[5].id.clone(), outcome: failed, at: story.now };
    for urgent in [failure, InboxEvent::Cancel { by: "ann".to_owned() }] {
        let mut inbox = results(&story, 3);
        inbox.push(urgent);
        assert_eq!(wait(&story, &inbox, Duration::ZERO), None);
    }
}

#[test]
fn a_turn_that_lets_something_go_on_does_more_than_write_down() {
    let story = fan_out(3);
    assert!(writes_down(&story, &results(&story, 2)));
    assert!(!writes_down(&story, &results(&story, 3)), "the next step begins");
    let refills = |steps: Value| Story::of(&steps, json!({"items": [1, 2, 3]}));
    let narrow = refills(json!({"each": {
        "type": "worker", "topic": "t", "for_each": "input.items", "max_parallel": 2,
    }}));
    assert!(!writes_down(&narrow, &results(&narrow, 1)), "the next item is dispatched");
    let delayed = refills(json!({
        "one": worker(), "other": worker(), "wait": {"type": "delay", "delay_sec": 5, "depends_on": ["one"]},
    }));
    assert!(!writes_down(&delayed, &results(&delayed, 1)), "a delay begins, though nothing is dispatched");
    let side_by_side = refills(json!({"one": worker(), "other": worker()}));
    assert!(writes_down(&side_by_side, &results(&side_by_side, 1)));
    assert!(!writes_down(&side_by_side, &results(&side_by_side, 2)), "the run ends");
}
