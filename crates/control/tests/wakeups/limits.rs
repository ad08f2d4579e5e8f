//! A run that waits for slots, and what lets it start.

use interlock_backend::Wake;
use interlock_model::admission::StartOutcome;
use interlock_model::limit::document::{LimitDocument, Pause};
use interlock_model::{LimitName, RunId, Timestamp};
use serde_json::{Value, json};

use crate::scene::{Scene, acme, run_ready};

fn one() -> LimitName {
    "one".parse().unwrap()
}

async fn save(scene: &Scene, document: Value) {
    let document: LimitDocument = serde_json::from_value(document).unwrap();
    scene.control.limits.save(&acme(), one(), document, None).await.unwrap();
}

/// A run that holds the only slot of a limit, with its job queued.
async fn full(scene: &Scene) -> RunId {
    save(scene, json!({"max_runs": 1, "on_full": "queue"})).await;
    scene.run(json!({"a": {"type": "worker", "topic": "work"}})).await
}

async fn queued(scene: &Scene) {
    let started = scene.try_start(json!({}), None).await;
    assert!(matches!(started, StartOutcome::Queued { .. }), "{started:?}");
}

#[tokio::test(start_paused = true)]
async fn a_start_that_waits_wakes_the_engine_for_the_run_that_it_may_replace() {
    let scene = Scene::new();
    full(&scene).await;
    queued(&scene).await;
    assert_eq!(scene.woken(), [run_ready()]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_wakes_the_engine_for_the_one_that_gets_its_slot() {
    let scene = Scene::new();
    let run = full(&scene).await;
    queued(&scene).await;
    let jobs = vec![scene.claim_one().await.job.id];
    scene.woken();
    scene.control.runs.cancel(&acme(), run, "me").await.unwrap();
    assert_eq!(scene.woken(), [run_ready(), Wake::JobsRevoked { jobs }, Wake::RunChanged { run }]);
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_lets_runs_start_wakes_the_engine_and_another_one_does_not() {
    let scene = Scene::new();
    full(&scene).await;
    queued(&scene).await;
    scene.woken();
    save(&scene, json!({"max_runs": 1, "on_full": "queue", "queue": {"max": 5}})).await;
    let pause = Pause { by: "ann".to_owned(), at: Timestamp::ZERO, reason: None };
    scene.control.limits.pause(&acme(), one(), Some(pause)).await.unwrap();
    save(&scene, json!({"max_runs": 2, "on_full": "queue"})).await;
    assert_eq!(scene.woken(), [], "nothing starts in a paused limit");
    scene.control.limits.pause(&acme(), one(), None).await.unwrap();
    assert_eq!(scene.woken(), [run_ready()]);
    queued(&scene).await;
    scene.woken();
    scene.control.limits.delete(&acme(), one(), None).await.unwrap();
    assert_eq!(scene.woken(), [run_ready()]);
}
