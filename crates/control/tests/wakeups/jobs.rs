//! Jobs that a policy holds, that are orphans, or whose worker comes back.

use interlock_backend::Wake;
use interlock_backend::local::{Changes, Decision, Executor as _, Pick, Table};
use interlock_backend::{PageRequest, StoreError};
use interlock_control::Settings;
use interlock_control::dispatch_policy::DispatchPolicy;
use interlock_control::policy::SettlingReport;
use interlock_model::JobId;
use interlock_model::dispatch_policy::Rules;
use interlock_model::lock::StageLock;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

use crate::runs::tick;
use crate::scene::{Scene, acme, jobs_ready, run_ready, work};
use crate::turns::approved;

/// Where this rule decides about every job.
fn ruled_by(rule: &Value) -> Scene {
    let mut rule = rule.clone();
    rule["name"] = json!("rule");
    let rules: Rules = serde_json::from_value(json!([rule])).unwrap();
    let dispatch_policy = DispatchPolicy { rules, service: None };
    Scene::with(Settings { dispatch_policy, ..Settings::default() })
}

/// A run whose only job is held, settled once.
async fn settled(scene: &Scene) -> (JobId, SettlingReport) {
    scene.save(json!({"a": {"type": "worker", "topic": "work"}})).await;
    let run = scene.start(json!({})).await;
    assert_eq!(scene.woken(), [Wake::JobsHeld { tenant: acme() }], "by the start");
    scene.control.reconcilers.run_once().await.unwrap();
    let report = scene.control.policy.run_once().await;
    (format!("{run}:a@1").parse().unwrap(), report)
}

#[tokio::test(start_paused = true)]
async fn a_held_job_that_is_released_is_announced() {
    let scene = ruled_by(&json!({"decision": "throttle", "dispatches": 1, "period_ms": 1000}));
    let (job, report) = settled(&scene).await;
    assert_eq!(report.released, 1);
    assert_eq!(scene.woken(), [jobs_ready("work", 1), Wake::RunChanged { run: job.run }]);
}

#[tokio::test(start_paused = true)]
async fn a_held_job_that_must_wait_is_shown_to_those_who_watch_the_run() {
    let scene = ruled_by(&json!({"decision": "throttle", "dispatches": 1, "period_ms": 1000}));
    settled(&scene).await;
    scene.woken();
    let (job, report) = settled(&scene).await;
    assert_eq!(report.waiting, 1, "{report:?}");
    assert_eq!(scene.woken(), [Wake::RunChanged { run: job.run }]);
}

#[tokio::test(start_paused = true)]
async fn a_held_job_that_is_denied_wakes_the_engine() {
    let scene = ruled_by(&json!({"decision": "deny"}));
    settled(&scene).await;
    assert_eq!(scene.woken(), [run_ready()]);
}

#[tokio::test(start_paused = true)]
async fn a_held_job_that_a_person_must_approve_wakes_the_engine_and_then_its_worker() {
    let scene = ruled_by(&json!({"decision": "require_approval"}));
    let (job, _) = settled(&scene).await;
    assert_eq!(scene.woken(), [run_ready()]);
    let _ = scene.control.runs.resolve_approval(&acme(), &job, approved()).await.unwrap();
    assert_eq!(scene.woken(), [jobs_ready("work", 1), Wake::RunChanged { run: job.run }]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_job_is_held_wakes_the_policy() {
    let scene = ruled_by(&json!({"decision": "deny"}));
    let next = json!({"type": "worker", "topic": "work", "depends_on": ["ask"]});
    let run = scene.run(json!({"ask": {"type": "approval"}, "next": next})).await;
    let ask = format!("{run}:ask@1").parse().unwrap();
    let _ = scene.control.runs.resolve_approval(&acme(), &ask, approved()).await.unwrap();
    assert_eq!(scene.woken(), [Wake::JobsHeld { tenant: acme() }, Wake::RunChanged { run }]);
}

#[tokio::test(start_paused = true)]
async fn the_loop_over_waiting_jobs_announces_them_and_the_orphans() {
    let scene = Scene::new();
    scene
        .run(json!({"a": {"type": "worker", "topic": "work"}, "b": {"type": "worker", "topic": "work"}}))
        .await;
    let write = scene.tables.tables().write("plant an orphan", |view, _| {
        let mut changes = Changes::default();
        let queued = view.scan(Table::Queue, "", "~", Pick::First(1))?;
        for row in queued {
            changes.delete(Table::Queue, row.key);
        }
        Ok::<_, StoreError>(Decision { answer: (), changes })
    });
    write.await.unwrap();
    assert_eq!(tick(&scene, StageLock::PendingReplayer).await.jobs_requeued, 1);
    assert_eq!(scene.woken(), [jobs_ready("work", 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_takes_jobs_again_is_woken() {
    let scene = Scene::new();
    scene.run(json!({"a": {"type": "worker", "topic": "work"}})).await;
    scene.claim_one().await;
    let workers = scene.control.worker_directory.list(&acme(), &PageRequest { limit: 2, after: None }).await;
    let worker = workers.unwrap().items.pop().unwrap();
    scene.control.workers.drain(&acme(), &worker, false).await.unwrap();
    assert_eq!(scene.woken(), [Wake::WorkersChanged]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_a_poll_finds_without_a_wake_up_counts_as_an_orphan() {
    let scene = Scene::new();
    let topics = [work()];
    scene.control.results.polled(&acme(), &topics, &[]);
    scene.control.results.polled(&acme(), &topics, &topics);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(scene.control.process.counted().orphans_replayed, 1);
}
