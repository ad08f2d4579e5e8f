//! A run that is started, or that has something to take into account.

use std::time::Duration;

use interlock_backend::Wake;
use interlock_backend::dead_letters::DeadLetterRetry;
use interlock_backend::jobs::Claimed;
use interlock_backend::tenants::{LimitScope, SetLimits};
use interlock_control::reconcile::ticking::{Tick, TickReport};
use interlock_model::Timestamp;
use interlock_model::dead_letter::{DeadLetter, LetterCode};
use interlock_model::limit::Limits;
use interlock_model::lock::StageLock;
use interlock_model::scheduling::Edge;
use serde_json::json;
use tokio::time::sleep;

use crate::scene::{AN_HOUR, Scene, acme, completed, jobs_ready, run_ready, work};

/// Its worker may still be at work.
fn revoked(claimed: &[Claimed]) -> Wake {
    Wake::JobsRevoked { jobs: claimed.iter().map(|claimed| claimed.job.id.clone()).collect() }
}

pub(crate) async fn tick(scene: &Scene, stage: StageLock) -> TickReport {
    let mut lock = scene.control.reconcilers.loop_lock(stage);
    match scene.control.reconcilers.tick(&mut lock, stage).await.unwrap() {
        Tick::Done(report) => report,
        other @ (Tick::NotOurs | Tick::Dropped(_)) => panic!("no tick: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_announces_its_first_jobs_once_per_topic() {
    let scene = Scene::new();
    let step = |topic: &str| json!({"type": "worker", "topic": topic});
    scene.save(json!({"a": step("work"), "b": step("fetch"), "c": step("work")})).await;
    scene.start(json!({})).await;
    assert_eq!(scene.woken(), [jobs_ready("fetch", 1), jobs_ready("work", 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_left_to_the_engine_wakes_the_engine() {
    let scene = Scene::new();
    scene.save(json!({"a": {"type": "worker", "topic": "work", "for_each": "input.items"}})).await;
    scene.start(json!({"items": vec![0; 100]})).await;
    assert_eq!(scene.woken(), [run_ready()]);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_answered_from_its_key_wakes_no_one() {
    let scene = Scene::new();
    scene.save(json!({"a": {"type": "worker", "topic": "work"}})).await;
    let key = Some("once".parse().unwrap());
    let _ = scene.try_start(json!({}), key.clone()).await;
    assert_eq!(scene.woken(), [jobs_ready("work", 1)]);
    let _ = scene.try_start(json!({}), key).await;
    assert_eq!(scene.woken(), []);
}

#[tokio::test(start_paused = true)]
async fn a_result_wakes_the_engine() {
    let scene = Scene::new();
    scene.run(json!({"a": {"type": "worker", "topic": "work"}})).await;
    let job = scene.claim_one().await;
    scene.submit(&job, completed()).await;
    assert_eq!(scene.woken(), [run_ready()]);
    scene.submit(&job, completed()).await;
    assert_eq!(scene.woken(), [run_ready()], "a repeat: the first wake-up may have died with its process");
}

#[tokio::test(start_paused = true)]
async fn a_released_job_wakes_the_engine() {
    let scene = Scene::new();
    scene.run(json!({"a": {"type": "worker", "topic": "work"}})).await;
    let job = scene.claim_one().await;
    scene.control.results.release(&acme(), &job.job.id, job.lease.fence).await.unwrap();
    assert_eq!(scene.woken(), [run_ready()]);
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_fires_wakes_the_engine() {
    let scene = Scene::new();
    scene.run(json!({"a": {"type": "delay", "delay_sec": 5}})).await;
    scene.control.reconcilers.run_once().await.unwrap();
    assert_eq!(scene.woken(), [], "it is not due");
    sleep(Duration::from_secs(5)).await;
    assert_eq!(scene.control.reconcilers.run_once().await.unwrap().runs_fired, 1);
    assert_eq!(scene.woken(), [run_ready()]);
    scene.control.reconcilers.run_once().await.unwrap();
    assert_eq!(scene.woken(), [run_ready()], "it is still ready: the wake-up may have been lost");
}

#[tokio::test(start_paused = true)]
async fn the_loop_over_timers_wakes_the_engine_for_one_that_was_missed() {
    let scene = Scene::new();
    scene.run(json!({"a": {"type": "delay", "delay_sec": 5}})).await;
    assert_eq!(tick(&scene, StageLock::TimerReconciler).await.runs_fired, 0);
    assert_eq!(scene.woken(), [], "it is not due");
    sleep(AN_HOUR).await;
    assert_eq!(tick(&scene, StageLock::TimerReconciler).await.runs_fired, 1);
    assert_eq!(scene.woken(), [run_ready()]);
}

#[tokio::test(start_paused = true)]
async fn the_loop_over_ready_runs_wakes_the_engine_once_per_tenant() {
    let scene = Scene::new();
    scene.save(json!({"a": {"type": "worker", "topic": "work"}})).await;
    for _ in 0..3 {
        scene.start(json!({})).await;
    }
    for job in scene.claim(AN_HOUR, Edge::Http).await {
        scene.submit(&job, completed()).await;
    }
    scene.woken();
    assert_eq!(tick(&scene, StageLock::EngineReconciler).await.tenants_ready, 1);
    assert_eq!(scene.woken(), [run_ready()]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_lease_wakes_the_engine() {
    let scene = Scene::new();
    scene.run(json!({"a": {"type": "worker", "topic": "work"}})).await;
    let claimed = scene.claim(Duration::from_secs(1), Edge::Http).await;
    scene.control.reconcilers.run_once().await.unwrap();
    assert_eq!(scene.woken(), [], "the lease is alive");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(scene.control.reconcilers.run_once().await.unwrap().jobs_lost, 1);
    assert_eq!(scene.woken(), [run_ready(), revoked(&claimed)]);
}

#[tokio::test(start_paused = true)]
async fn the_loop_over_stale_jobs_wakes_the_engine_for_those_that_it_ends() {
    let scene = Scene::new();
    scene.run(json!({"a": {"type": "worker", "topic": "work"}})).await;
    let claimed = scene.claim(Duration::from_secs(1), Edge::Http).await;
    assert_eq!(tick(&scene, StageLock::Reconciler).await.jobs_lost, 0);
    assert_eq!(scene.woken(), []);
    sleep(AN_HOUR).await;
    assert_eq!(tick(&scene, StageLock::Reconciler).await.jobs_lost, 1);
    assert_eq!(scene.woken(), [run_ready(), revoked(&claimed)]);
}

#[tokio::test(start_paused = true)]
async fn an_offline_worker_that_is_abandoned_wakes_the_engine() {
    let scene = Scene::new();
    scene.run(json!({"a": {"type": "worker", "topic": "work"}})).await;
    let worker = "w".parse().unwrap();
    assert_eq!(scene.control.workers.abandon(&worker).await.unwrap(), 0);
    assert_eq!(scene.woken(), [], "it has no job");
    scene.claim(AN_HOUR, Edge::Nats).await;
    assert_eq!(scene.control.workers.abandon(&worker).await.unwrap(), 1);
    assert_eq!(scene.woken(), [run_ready()]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_is_retried_wakes_the_engine_unless_its_run_has_ended() {
    let scene = Scene::new();
    let run = scene.run(json!({"a": {"type": "worker", "topic": "work"}})).await;
    let job = scene.claim_one().await.job.id;
    let letter = DeadLetter {
        job: job.clone(),
        topic: Some(work()),
        code: LetterCode::WorkerLost,
        reason: "lost".to_owned(),
        attempts: 1,
        last_error: None,
        buried_at: Timestamp::ZERO,
        result: None,
    };
    scene.control.dead_letters.add(&acme(), &letter).await.unwrap();
    assert_eq!(scene.woken(), []);
    let retry = async || scene.control.dead_letters.retry(&acme(), &job, "me").await;
    assert_eq!(retry().await.unwrap(), DeadLetterRetry::Posted);
    assert_eq!(scene.woken(), [run_ready()]);
    scene.control.runs.cancel(&acme(), run, "me").await.unwrap();
    scene.control.dead_letters.add(&acme(), &letter).await.unwrap();
    scene.woken();
    assert_eq!(retry().await.unwrap(), DeadLetterRetry::RunEnded);
    assert_eq!(scene.woken(), []);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_run_wakes_those_who_watch_it_and_the_engine_for_those_that_wait_for_its_slots() {
    let scene = Scene::new();
    let run = scene.run(json!({"a": {"type": "worker", "topic": "work"}})).await;
    scene.control.runs.delete(&acme(), run).await.unwrap();
    assert_eq!(scene.woken(), [Wake::RunChanged { run }, run_ready()]);
}

#[tokio::test(start_paused = true)]
async fn an_offline_worker_loses_all_of_its_jobs_however_many() {
    let scene = Scene::new();
    scene.save(json!({"a": {"type": "worker", "topic": "work"}})).await;
    let limits = Limits { runs_max: Some(1_000), ..Limits::default() };
    let set = SetLimits { scope: LimitScope::Tenant(acme()), limits, keeps_quotas: false };
    scene.control.documents.set_limits(set).await.unwrap();
    for _ in 0..501 {
        scene.start(json!({})).await;
    }
    while !scene.claim(AN_HOUR, Edge::Nats).await.is_empty() {}
    scene.woken();
    assert_eq!(scene.control.workers.abandon(&"w".parse().unwrap()).await.unwrap(), 501);
    assert_eq!(scene.woken(), [run_ready(), run_ready()], "one for each step of the store");
}
