//! Keys that were reserved in vain.

use interlock_backend::Verb as _;
use interlock_backend::verbs::{Admit, CountRuns, ReleaseIdempotencyKey, ReserveIdempotencyKey};
use std::time::Duration;

use interlock_backend::Effect;
use interlock_control::admission::StartError;
use interlock_model::admission::StartOutcome;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::line::Fault;
use crate::scene::{Process, Scene, TTL, acme, deploy};

const RELEASE: &str = ReleaseIdempotencyKey::ACTION;

/// A start with a key that comes to nothing, and the place of its context in the count.
async fn fail_at(process: &Process, what: &str) -> usize {
    match what {
        "count" => {
            process.wire.fault(CountRuns::ACTION, Fault::Fails(1, Effect::NotDone));
            let failed = process.start(Some("k"), json!({})).await;
            assert!(matches!(failed, Err(StartError::NotDone)), "{failed:?}");
            0
        }
        "cap" => {
            let refused = process.start(Some("k"), json!({})).await;
            assert!(matches!(refused, Ok(StartOutcome::AtCapacity { .. })), "{refused:?}");
            1
        }
        "create" => {
            process.wire.fault(Admit::ACTION, Fault::Fails(2, Effect::NotDone));
            let failed = process.start(Some("k"), json!({})).await;
            assert!(matches!(failed, Err(StartError::NotDone)), "{failed:?}");
            2
        }
        _ => {
            process.wire.fault(Admit::ACTION, Fault::Vanishes);
            timeout(Duration::from_millis(1), process.start(Some("k"), json!({}))).await.unwrap_err();
            3
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_started_nothing_is_released_until_it_is_gone_and_failures_are_counted_by_context() {
    for what in ["count", "cap", "create", "client"] {
        let scene = Scene::new(u32::from(what != "cap")).await;
        let process = scene.process(1);
        let run = scene.first_run(1);
        process.wire.fault(RELEASE, Fault::Fails(3, Effect::NotDone));
        let context = fail_at(&process, what).await;
        sleep(TTL / 2).await;
        assert_eq!(process.wire.calls(RELEASE).len(), 4, "{what}: three failures, and then it is released");
        let mut expected = vec![0; 4];
        expected[context] = 3;
        assert_eq!(process.cleanup_failures(), expected, "{what}");
        let is_there = scene
            .store
            .call(ReleaseIdempotencyKey {
                tenant: acme(),
                workflow: deploy(),
                key: "k".parse().unwrap(),
                run,
            })
            .await
            .unwrap();
        assert!(!is_there, "{what}: nothing is reserved any more");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_try_to_release_is_made_at_once_and_those_that_work_are_not_counted() {
    let scene = Scene::new(0).await;
    let process = scene.process(1);
    let began = Instant::now();
    fail_at(&process, "cap").await;
    sleep(Duration::from_millis(1)).await;
    assert_eq!(process.wire.calls(RELEASE), [began]);
    assert_eq!(process.cleanup_failures(), [0, 0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn the_tries_to_release_end_with_the_reservation() {
    let scene = Scene::new(0).await;
    let process = scene.process(1);
    process.wire.fault(RELEASE, Fault::Fails(u32::MAX, Effect::NotDone));
    let began = Instant::now();
    fail_at(&process, "cap").await;
    sleep(TTL * 10).await;
    let tries = process.wire.calls(RELEASE);
    let last = *tries.last().unwrap() - began;
    assert!(last < TTL && last > TTL / 2, "the last try was after {last:?}");
    assert!(tries.len() < 30, "{} tries", tries.len());
    assert_eq!(process.cleanup_failures()[1], tries.len() as u64);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_whose_answer_was_lost_is_released_too() {
    let scene = Scene::new(1).await;
    let process = scene.process(1);
    process.wire.fault(ReserveIdempotencyKey::ACTION, Fault::Fails(1, Effect::Unknown));
    let failed = process.start(Some("k"), json!({})).await;
    assert!(matches!(failed, Err(StartError::NotDone)), "{failed:?}");
    sleep(Duration::from_millis(1)).await;
    let run = scene.active().await;
    assert_eq!((process.wire.calls(RELEASE).len(), run), (1, vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_started_a_run_is_never_released() {
    let scene = Scene::new(1).await;
    let process = scene.process(1);
    let run = process.started(Some("k")).await;
    // The create is done and its answers are lost: the client does not know, and the release must not undo it.
    let other = scene.process(2);
    scene.limit(2).await;
    other.wire.fault(Admit::ACTION, Fault::Fails(2, Effect::Unknown));
    let unknown = other.start(Some("other"), json!({"n": 1})).await;
    assert!(matches!(unknown, Err(StartError::Unknown)), "{unknown:?}");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(process.wire.calls(RELEASE), []);
    assert_eq!(other.wire.calls(RELEASE).len(), 1);
    for (key, expected) in [("k", run), ("other", *scene.active().await.last().unwrap())] {
        let again = scene.process(3).start(Some(key), json!({"n": 1})).await;
        assert!(matches!(again, Ok(StartOutcome::Replayed { run, .. }) if run == expected), "{again:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_was_not_made_is_not_released() {
    let scene = Scene::new(1).await;
    let process = scene.process(1);
    process.wire.fault(ReserveIdempotencyKey::ACTION, Fault::Fails(1, Effect::NotDone));
    let failed = process.start(Some("k"), json!({})).await;
    assert!(matches!(failed, Err(StartError::NotDone)), "{failed:?}");
    sleep(TTL).await;
    assert_eq!(process.wire.calls(RELEASE), []);
}
