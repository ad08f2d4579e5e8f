//! Large fan-outs, in pieces.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::super::{Head, InboxEvent, Run, RunStatus};
use super::super::PIECE_MAX;
use super::TestRun;
use crate::dead_letter::{DeadLetter, LetterCode};
use crate::job::JobOutcome;
use crate::step::StepStatus;

const ITEMS: usize = 2 * PIECE_MAX + 100;

fn steps(more: &Value) -> Value {
    let mut each = json!({"type": "worker", "topic": "t", "for_each": "input", "input": {"v": "${item}"}});
    each.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"each": each})
}

fn items() -> Value {
    json!((0..ITEMS).collect::<Vec<_>>())
}

/// The run before its first turn.
fn fresh(more: &Value) -> TestRun {
    let TestRun { workflow, run, now, .. } = TestRun::of(&steps(more), items());
    let run = Run { start: run.start, head: Head::admitted(now), steps: BTreeMap::new() };
    TestRun::before_first_turn(workflow, run)
}

fn cancel() -> InboxEvent {
    InboxEvent::Cancel { by: "ann".to_owned() }
}

#[test]
fn a_large_fan_out_is_dispatched_in_pieces_in_order() {
    let mut test = fresh(&json!({}));
    assert!(test.piece(&[]));
    assert_eq!((test.jobs.len(), test.run.steps.len()), (PIECE_MAX, PIECE_MAX + 1));
    assert!(test.piece(&[]));
    assert!(!test.piece(&[]));
    let inputs: Vec<_> = test.jobs.iter().map(|job| job.input["v"].clone()).collect();
    assert_eq!(json!(inputs), items());
    assert!(test.largest_piece <= PIECE_MAX + 1, "{}", test.largest_piece);
    assert_eq!(test.step("each").pending_items, [] as [Value; 0]);
    while !test.jobs.is_empty() {
        test.complete(json!(1));
    }
    assert_eq!(test.status(), RunStatus::Succeeded);
}

#[test]
fn a_limit_of_parallel_items_holds_over_the_pieces() {
    let mut test = fresh(&json!({"max_parallel": PIECE_MAX + 7}));
    test.turn(&[]);
    assert_eq!(test.jobs.len(), PIECE_MAX + 7);
    assert_eq!(test.run.steps.len(), ITEMS + 1, "the others have their rows");
    assert!(test.largest_piece <= PIECE_MAX + 1, "{}", test.largest_piece);
    let mut most = 0;
    while !test.jobs.is_empty() {
        most = most.max(test.jobs.len());
        test.complete(json!(1));
    }
    assert_eq!((test.status(), most), (RunStatus::Succeeded, PIECE_MAX + 7));
}

#[test]
fn results_between_two_pieces_are_taken_into_account() {
    let mut test = fresh(&json!({}));
    test.piece(&[]);
    let outcome = JobOutcome::completed(json!("early"));
    let job = test.jobs.remove(0);
    test.turn(&[InboxEvent::Job { at: test.now, job: job.id, outcome }]);
    assert_eq!(test.jobs.len(), ITEMS - 1);
    assert_eq!(test.step("each[0]").output, Some(json!("early")));
}

#[test]
fn a_run_that_is_cancelled_between_two_pieces_dispatches_nothing_more() {
    let mut test = fresh(&json!({}));
    test.piece(&[]);
    assert!(!test.piece(&[cancel()]), "nothing continues");
    assert_eq!((test.status(), test.jobs.len()), (RunStatus::Cancelled, 0));
    assert_eq!(test.effects.dispatched.len(), PIECE_MAX);
    assert_eq!(test.step("each").pending_items, [] as [Value; 0]);
}

#[test]
fn an_item_that_fails_between_two_pieces_stops_the_others_and_a_retry_continues_all() {
    let mut test = TestRun::of(
        &json!({
            "each": {"type": "worker", "topic": "t", "for_each": "input", "on_error": "tell"},
            "tell": {"type": "worker", "topic": "t"},
        }),
        json!([]),
    );
    test = {
        let mut start = test.run.start.clone();
        start.input = items();
        let run = Run { start, head: Head::admitted(test.now), steps: BTreeMap::new() };
        TestRun::before_first_turn(test.workflow, run)
    };
    test.piece(&[]);
    test.fail(false);
    assert_eq!(test.step("each").status, StepStatus::Failed);
    assert_eq!(test.jobs.iter().map(|job| job.id.step.to_string()).collect::<Vec<_>>(), ["tell"]);
    let letter = DeadLetter {
        job: test.effects.dispatched[0].id.clone(),
        topic: None,
        code: LetterCode::WorkerLost,
        reason: String::new(),
        attempts: 1,
        last_error: None,
        buried_at: test.now,
        result: None,
    };
    test.turn(&[InboxEvent::Retry { by: "ann".to_owned(), letter: Box::new(letter) }]);
    let open = test.jobs.iter().filter(|job| job.id.step.item.is_some()).count();
    assert_eq!((test.step("each").status, open), (StepStatus::Running, ITEMS));
}

#[test]
fn retries_that_are_due_together_are_dispatched_in_pieces() {
    let retry = json!({"max_retries": 1, "initial_backoff_sec": 1, "multiplier": 1, "max_backoff_sec": 1});
    let mut test = fresh(&json!({"retry": retry}));
    test.turn(&[]);
    let failed = || JobOutcome::failed("boom".to_owned(), true);
    let jobs = std::mem::take(&mut test.jobs);
    let failures: Vec<_> = jobs
        .into_iter()
        .map(|job| InboxEvent::Job { at: test.now, job: job.id, outcome: failed() })
        .collect();
    failures.chunks(PIECE_MAX).for_each(|some| test.turn(some));
    test.pass(Duration::from_secs(2));
    assert_eq!(test.jobs.len(), ITEMS);
    assert!(test.largest_piece <= PIECE_MAX + 1, "{}", test.largest_piece);
}

#[test]
fn many_steps_that_begin_together_begin_in_pieces() {
    let step = |at| (format!("s{at}"), json!({"type": "worker", "topic": "t"}));
    let steps: serde_json::Map<String, Value> = (0..PIECE_MAX + 20).map(step).collect();
    let test = TestRun::of(&json!(steps), json!({}));
    assert_eq!((test.jobs.len(), test.largest_piece), (PIECE_MAX + 20, PIECE_MAX));
}
