//! A turn of the engine, and what people do to runs: it wakes workers, and those who watch the run.

use interlock_backend::Wake;
use interlock_backend::jobs::Progress;
use interlock_backend::verbs::AcquireRun;
use interlock_control::Settings;
use interlock_control::results::{Delivered, Delivery};
use interlock_model::approval::{Decision, Verdict};
use interlock_model::contention::RunStrategy;
use interlock_model::job::JobOutcome;
use interlock_model::run::RunStatus;
use interlock_model::scheduling::Edge;
use interlock_model::{JobId, RunId};
use serde_json::json;
use std::time::Duration;

use crate::scene::{AN_HOUR, Scene, acme, completed, jobs_ready, run_ready};

/// Turns that the engine makes of one run before it lets the others have theirs.
const TURNS_IN_A_ROW_MAX: usize = 16;

pub(crate) fn approved() -> Decision {
    Decision { verdict: Verdict::Approved, by: "me".to_owned(), reason: None }
}

fn job_of(run: RunId, step: &str) -> JobId {
    format!("{run}:{step}@1").parse().unwrap()
}

/// Where a result makes its run's turn at once.
fn under_lock() -> Scene {
    Scene::with(Settings { run_strategy: RunStrategy::Lock, ..Settings::default() })
}

#[tokio::test(start_paused = true)]
async fn a_verdict_announces_the_next_jobs_and_the_change() {
    let scene = Scene::new();
    let next = json!({"type": "worker", "topic": "work", "depends_on": ["ask"]});
    let run = scene.run(json!({"ask": {"type": "approval"}, "next": next})).await;
    let _ = scene.control.runs.resolve_approval(&acme(), &job_of(run, "ask"), approved()).await.unwrap();
    assert_eq!(scene.woken(), [jobs_ready("work", 1), Wake::RunChanged { run }]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_stops_its_workers() {
    let scene = Scene::new();
    let run = scene.run(json!({"a": {"type": "worker", "topic": "work"}})).await;
    let jobs = vec![scene.claim_one().await.job.id];
    scene.control.runs.cancel(&acme(), run, "me").await.unwrap();
    assert_eq!(scene.status(run).await, RunStatus::Cancelled);
    assert_eq!(scene.woken(), [Wake::JobsRevoked { jobs }, Wake::RunChanged { run }]);
    scene.control.runs.cancel(&acme(), run, "me").await.unwrap();
    assert_eq!(scene.woken(), [], "it has ended already");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_job_stops_its_worker() {
    let scene = Scene::new();
    let run = scene.run(json!({"a": {"type": "worker", "topic": "work"}})).await;
    let job = scene.claim_one().await.job.id;
    scene.control.runs.cancel_job(&acme(), &job, "me").await.unwrap();
    assert_eq!(scene.woken(), [Wake::JobsRevoked { jobs: vec![job] }, Wake::RunChanged { run }]);
}

#[tokio::test(start_paused = true)]
async fn progress_wakes_those_who_watch_the_run() {
    let scene = Scene::new();
    let run = scene.run(json!({"a": {"type": "worker", "topic": "work"}})).await;
    let job = scene.claim_one().await;
    let progress = Progress { percent: 10, message: None };
    scene.control.results.progress(&acme(), &job.job.id, job.lease.fence, progress).await.unwrap();
    assert_eq!(scene.woken(), [Wake::RunChanged { run }]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_left_after_many_turns_in_a_row_wakes_the_engine_again() {
    let scene = Scene::new();
    let each = json!({"type": "worker", "topic": "work", "for_each": "input.items"});
    scene.save(json!({"ask": {"type": "approval"}, "each": each})).await;
    let run = scene.start(json!({"items": vec![0; TURNS_IN_A_ROW_MAX]})).await;
    let jobs = scene.claim(AN_HOUR, Edge::Http).await;
    assert_eq!(jobs.len(), TURNS_IN_A_ROW_MAX);
    scene.woken();
    scene.complete_before_each_commit(jobs);
    let _ = scene.control.runs.resolve_approval(&acme(), &job_of(run, "ask"), approved()).await.unwrap();
    let mut expected = vec![Wake::RunChanged { run }; TURNS_IN_A_ROW_MAX];
    expected.push(run_ready());
    assert_eq!(scene.woken(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_result_under_the_lock_announces_the_next_jobs_and_the_change() {
    let scene = under_lock();
    let next = json!({"type": "worker", "topic": "next", "depends_on": ["a"]});
    let run = scene.run(json!({"a": {"type": "worker", "topic": "work"}, "next": next})).await;
    let job = scene.claim_one().await;
    scene.submit(&job, completed()).await;
    assert_eq!(scene.woken(), [jobs_ready("next", 1), Wake::RunChanged { run }]);
}

#[tokio::test(start_paused = true)]
async fn a_result_under_the_lock_that_is_known_wakes_the_engine() {
    let scene = under_lock();
    let next = json!({"type": "worker", "topic": "next", "depends_on": ["a"]});
    scene.run(json!({"a": {"type": "worker", "topic": "work"}, "next": next})).await;
    let job = scene.claim_one().await;
    scene.submit(&job, completed()).await;
    scene.woken();
    let delivery = Delivery {
        tenant: acme(),
        job: job.job.id.clone(),
        fence: job.lease.fence,
        edge: Some(Edge::Http),
        outcome: completed(),
        attempt: 1,
        waited: Duration::ZERO,
    };
    let delivered = scene.control.results.deliver(&delivery).await.unwrap();
    assert_eq!(delivered, Delivered::AlreadyRecorded);
    assert_eq!(scene.woken(), [run_ready()], "the turn after the first delivery may have been lost");
}

#[tokio::test(start_paused = true)]
async fn a_result_under_the_lock_whose_turn_fails_wakes_the_engine() {
    let scene = under_lock();
    let run = scene.run(json!({"a": {"type": "worker", "topic": "work"}})).await;
    let job = scene.claim_one().await;
    scene.refuse_commits();
    scene.submit(&job, JobOutcome::completed(json!({}))).await;
    assert_eq!(scene.status(run).await, RunStatus::Running);
    assert_eq!(scene.woken(), [run_ready()]);
    let acquire = AcquireRun { tenant: acme(), run, holder: "other".parse().unwrap(), lease: AN_HOUR };
    assert!(
        scene.store.call(acquire).await.unwrap().is_some(),
        "the run is released: any engine may have it"
    );
}
