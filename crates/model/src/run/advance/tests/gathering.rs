//! Turns that may wait for more results.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::super::InboxEvent;
use super::super::super::gather::{only_records_results, wait_for_more};
use super::super::advance;
use super::{TestRun, worker};
use crate::job::JobOutcome;

const LONGEST: Duration = Duration::from_millis(50);

fn fan_out(items: usize) -> TestRun {
    let steps = json!({"each": {"type": "worker", "topic": "t", "for_each": "input.items"}, "after": {
        "type": "worker", "topic": "t", "depends_on": ["each"],
    }});
    TestRun::of(&steps, json!({"items": vec![0; items]}))
}

/// The results of the next `count` jobs.
fn results(test: &TestRun, count: usize) -> Vec<InboxEvent> {
    let jobs = test.jobs.iter().take(count);
    let completed = || JobOutcome::completed(json!({}));
    jobs.map(|job| InboxEvent::Job { job: job.id.clone(), outcome: completed(), at: test.now }).collect()
}

fn wait(test: &TestRun, inbox: &[InboxEvent], since: Duration) -> Option<Duration> {
    wait_for_more((&test.run.head, &test.run.steps), inbox, test.now + since, LONGEST)
}

fn only_records(test: &TestRun, inbox: &[InboxEvent]) -> bool {
    let turn = advance(&test.workflow, test.run.clone(), inbox, &test.context()).unwrap();
    only_records_results(test.status(), inbox, &turn)
}

#[test]
fn the_interval_between_turns_grows_with_the_open_jobs() {
    let test = fan_out(2_000);
    let one = results(&test, 1);
    assert_eq!(wait(&test, &one, Duration::ZERO), Some(LONGEST), "never longer");
    assert_eq!(wait(&test, &one, Duration::from_millis(20)), Some(Duration::from_millis(30)));
    let most = results(&test, 1_900);
    assert_eq!(wait(&test, &most, Duration::ZERO), Some(Duration::from_millis(5)));
    assert_eq!(wait(&test, &most, Duration::from_millis(5)), None);
}

#[test]
fn a_result_after_a_quiet_period_and_the_last_result_are_due_at_once() {
    let test = fan_out(1_000);
    assert_eq!(wait(&test, &results(&test, 1), LONGEST), None);
    assert_eq!(wait(&test, &results(&test, 1_000), Duration::ZERO), None);
    let alone = TestRun::of(&json!({"work": worker()}), json!({}));
    assert_eq!(wait(&alone, &results(&alone, 1), Duration::ZERO), None);
}

#[test]
fn an_event_other_than_a_success_is_due_at_once() {
    let test = fan_out(1_000);
    let failed = JobOutcome::failed("boom".to_owned(), true);
    let failure = InboxEvent::Job { job: test.jobs[5].id.clone(), outcome: failed, at: test.now };
    for urgent in [failure, InboxEvent::Cancel { by: "ann".to_owned() }] {
        let mut inbox = results(&test, 3);
        inbox.push(urgent);
        assert_eq!(wait(&test, &inbox, Duration::ZERO), None);
    }
}

#[test]
fn a_turn_that_begins_or_ends_something_does_not_wait() {
    let test = fan_out(3);
    assert!(only_records(&test, &results(&test, 2)));
    assert!(!only_records(&test, &results(&test, 3)), "the next step begins");
    let refills = |steps: Value| TestRun::of(&steps, json!({"items": [1, 2, 3]}));
    let narrow = refills(json!({"each": {
        "type": "worker", "topic": "t", "for_each": "input.items", "max_parallel": 2,
    }}));
    assert!(!only_records(&narrow, &results(&narrow, 1)), "the next item is dispatched");
    let delayed = refills(json!({
        "one": worker(), "other": worker(), "wait": {"type": "delay", "delay_sec": 5, "depends_on": ["one"]},
    }));
    assert!(!only_records(&delayed, &results(&delayed, 1)), "a delay begins, though nothing is dispatched");
    let side_by_side = refills(json!({"one": worker(), "other": worker()}));
    assert!(only_records(&side_by_side, &results(&side_by_side, 1)));
    assert!(!only_records(&side_by_side, &results(&side_by_side, 2)), "the run ends");
}
