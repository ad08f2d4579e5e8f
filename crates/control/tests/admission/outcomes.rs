//! Clients get the same answers with and without the admission lock.

use interlock_backend::Verb as _;
use interlock_backend::verbs::{
    AcquireLock, Admit, CountRuns, ReadRun, ReleaseIdempotencyKey, ReserveIdempotencyKey,
};
use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use interlock_backend::Effect;
use interlock_control::admission::{RerunRequest, StartError};
use interlock_model::admission::StartOutcome;
use interlock_model::contention::AdmissionStrategy;
use serde_json::json;
use tokio::time::sleep;

use crate::line::Fault;
use crate::scene::{Scene, TTL, acme, deploy};

#[tokio::test(start_paused = true)]
async fn ten_starts_at_once_under_a_cap_of_two_are_two_runs_and_eight_refusals() {
    let scene = Scene::new(2).await;
    let processes: Vec<_> = (1..=3).map(|seed| scene.process(seed)).collect();
    let starts = (0..10).map(|number| processes[number % 3].start(None, json!({})));
    let answers = join_all(starts).await;
    let new = answers.iter().filter(|answer| matches!(answer, Ok(StartOutcome::Admitted { .. }))).count();
    let full = answers.iter().filter(|answer| matches!(answer, Ok(StartOutcome::AtCapacity { .. }))).count();
    assert_eq!((new, full), (2, 8), "{answers:?}");
    assert_eq!(scene.active().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn starts_at_once_with_one_key_make_one_run_whatever_the_strategy_of_each() {
    let mut scene = Scene::new(5).await;
    let locked: Vec<_> = (1..=2).map(|seed| scene.process(seed)).collect();
    scene.settings.admission_strategy = AdmissionStrategy::Atomic;
    let atomic = scene.process(3);
    locked[0].wire.fault(CountRuns::ACTION, Fault::Slow(Duration::from_millis(5)));
    atomic.wire.fault(Admit::ACTION, Fault::Slow(Duration::from_millis(3)));
    let starts = (0..9).map(|number| match number % 3 {
        0 => atomic.start(Some("k"), json!({"n": 1})),
        other => locked[other - 1].start(Some("k"), json!({"n": 1})),
    });
    let runs: BTreeSet<_> = join_all(starts)
        .await
        .into_iter()
        .map(|answer| match answer {
            Ok(StartOutcome::Admitted { run, .. } | StartOutcome::Replayed { run, .. }) => run,
            other => panic!("expected one run, got {other:?}"),
        })
        .collect();
    assert_eq!(runs.into_iter().collect::<Vec<_>>(), scene.active().await);
}

#[tokio::test(start_paused = true)]
async fn a_replay_is_answered_at_the_cap_and_another_payload_is_not() {
    let scene = Scene::new(1).await;
    let process = scene.process(1);
    let first = process.started(Some("k")).await;
    let again = process.start(Some("k"), json!({"n": 1})).await;
    assert!(matches!(again, Ok(StartOutcome::Replayed { run, .. }) if run == first), "{again:?}");
    let reused = process.start(Some("k"), json!({"n": 2})).await;
    assert!(matches!(reused, Ok(StartOutcome::KeyReused { run, .. }) if run == first), "{reused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_key_is_free_for_the_next_start_with_whatever_payload() {
    let scene = Scene::new(1).await;
    let process = scene.process(1);
    let blocking = process.started(None).await;
    assert!(matches!(process.start(Some("k"), json!({"n": 1})).await, Ok(StartOutcome::AtCapacity { .. })));
    scene.end(blocking).await.unwrap();
    assert!(matches!(process.start(Some("k"), json!({"n": 2})).await, Ok(StartOutcome::Admitted { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_tells_how_fast_slots_come_free() {
    let scene = Scene::new(1).await;
    let process = scene.process(1);
    for _ in 0..2 {
        let run = process.started(None).await;
        sleep(Duration::from_secs(40)).await;
        scene.end(run).await.unwrap();
    }
    process.started(None).await;
    let refused = process.start(None, json!({})).await;
    let Ok(StartOutcome::AtCapacity { slot_flow, .. }) = refused else { panic!("{refused:?}") };
    let retry_after = process.control.admission.retry_after(Some(slot_flow));
    assert!(retry_after >= Duration::from_secs(20), "{retry_after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_changes_under_a_start_is_loaded_again_within_the_same_hold() {
    let scene = Scene::new(5).await;
    let process = scene.process(1);
    process.started(None).await;
    sleep(Duration::from_millis(1)).await;
    scene.save_workflow().await;
    let before = process.wire.all().len();
    let run = process.started(Some("k")).await;
    let steps = &process.wire.all()[before..];
    let count = |action| steps.iter().filter(|step| **step == action).count();
    assert_eq!(
        (count(AcquireLock::ACTION), count(ReserveIdempotencyKey::ACTION), count(Admit::ACTION)),
        (1, 1, 2)
    );
    let found = process
        .control
        .process
        .reader()
        .call(ReadRun { tenant: "acme".parse().unwrap(), run })
        .await
        .unwrap()
        .unwrap();
    assert_eq!((found.start.workflow, found.start.workflow_version), (deploy(), 2));
}

#[tokio::test(start_paused = true)]
async fn a_start_that_cannot_begin_says_why_and_leaves_no_key_behind() {
    let scene = Scene::new(0).await;
    let process = scene.process(1);
    for key in [None, Some("k")] {
        let refused = process.start(key, json!({"n": "text"})).await;
        assert!(matches!(refused, Err(StartError::InvalidInput(_))), "{refused:?}");
    }
    sleep(Duration::from_millis(1)).await;
    assert_eq!((process.wire.calls(ReleaseIdempotencyKey::ACTION).len(), scene.holder().await), (1, None));
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_pauses_past_its_lease_before_it_creates_does_not_over_admit() {
    for key in [None, Some("k")] {
        let scene = Scene::new(1).await;
        let (paused, other) = (scene.process(1), scene.process(2));
        paused.wire.fault(Admit::ACTION, Fault::Slow(TTL + Duration::from_secs(1)));
        let next = async {
            sleep(TTL * 9 / 10).await;
            other.start(key, json!({})).await
        };
        let (late, next) = tokio::join!(paused.start(key, json!({})), next);
        let Ok(StartOutcome::Admitted { run, .. }) = next else { panic!("the lock had run out: {next:?}") };
        match key {
            None => assert!(matches!(late, Err(StartError::LockBusy { .. })), "{late:?}"),
            // Its key started the other's run meanwhile.
            Some(_) => {
                assert!(
                    matches!(late, Ok(StartOutcome::Replayed { run: other, .. }) if other == run),
                    "{late:?}"
                );
            }
        }
        assert_eq!(scene.active().await, [run]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_is_lost_is_asked_again_and_starts_once() {
    for key in [None, Some("k")] {
        let scene = Scene::new(1).await;
        let process = scene.process(1);
        process.wire.fault(Admit::ACTION, Fault::Fails(1, Effect::Unknown));
        let run = process.started(key).await;
        assert_eq!(scene.active().await, [run]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_start_without_a_key_does_not_reach_the_store() {
    let scene = Scene::new(1).await;
    let process = scene.process(1);
    let refused = process.start(None, json!({"n": "one"})).await;
    assert!(matches!(refused, Err(StartError::InvalidInput(_))), "{refused:?}");
    assert_eq!(process.wire.calls(AcquireLock::ACTION), []);
    assert_eq!(process.wire.calls(Admit::ACTION), []);
}

#[tokio::test(start_paused = true)]
async fn a_rerun_from_a_step_that_does_not_exist_is_refused() {
    let scene = Scene::new(2).await;
    let process = scene.process(1);
    let run = process.started(None).await;
    process.control.runs.cancel(&acme(), run, "me").await.unwrap();
    let from = |step: &str| {
        let from_step = Some(step.parse().unwrap());
        RerunRequest { tenant: acme(), run, from_step, key: None, parent_span: None }
    };
    let refused = process.control.admission.rerun(from("nope")).await;
    assert_eq!(refused, Err(StartError::UnknownStep("nope".parse().unwrap())));
    let again = process.control.admission.rerun(from("work")).await;
    assert!(matches!(again, Ok(StartOutcome::Admitted { .. })), "{again:?}");
}
