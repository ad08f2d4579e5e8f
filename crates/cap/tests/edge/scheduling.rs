//! Capabilities, pools, draining and fairness between tenants.

use interlock_backend::verbs::ReadJob;
use std::collections::VecDeque;
use std::time::Duration;

use interlock_cap::CapSettings;
use interlock_cap::wire::JobPriority;
use interlock_model::TenantId;
use interlock_model::run::RunStatus;
use interlock_model::scheduling::{Pool, Pools, WaitReason};
use interlock_poll::until;
use interlock_servers::NatsRelease;
use serde_json::json;

use crate::fixture::{Fixture, TOPIC, acme, fast};
use crate::worker::{Worker, WorkerOptions};

crate::on_both_releases!(
    a_job_goes_to_a_capable_worker_even_if_others_are_idle,
    a_heartbeat_with_a_new_capability_brings_the_waiting_job,
    a_draining_worker_keeps_its_job_and_gets_no_other,
    jobs_of_a_pool_topic_go_to_its_workers_only,
    a_single_job_starts_between_two_turns_of_a_flood,
);

/// Rarer than any test lasts.
const SELDOM: Duration = Duration::from_mins(10);

fn capable(capabilities: &'static [&'static str]) -> WorkerOptions {
    WorkerOptions { capabilities, ..WorkerOptions::default() }
}

/// Waits until this number of heartbeats has arrived.
async fn heard(fixture: &Fixture, workers: usize) {
    until("all heartbeats have arrived", async || {
        let registry = fixture.control.workers.registry().await.unwrap();
        registry.workers.iter().filter(|known| known.beat.is_some()).count() == workers
    })
    .await;
}

async fn reason(fixture: &Fixture, job: &str) -> Option<WaitReason> {
    let view = fixture
        .control
        .process
        .reader()
        .call(ReadJob { tenant: acme(), job: job.parse().unwrap() })
        .await
        .unwrap()?;
    let waiting = fixture.control.worker_directory.waiting_for(&acme(), &view).await.unwrap();
    waiting.map(|waiting| waiting.reason)
}

async fn a_job_goes_to_a_capable_worker_even_if_others_are_idle(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let mut plain =
        Worker::join(&fixture, "plain", WorkerOptions { capacity: 100, ..WorkerOptions::default() }).await;
    let mut able = Worker::join(&fixture, "able", capable(&["linux", "gpu"])).await;
    heard(&fixture, 2).await;
    let meta = json!({"requires": ["gpu"], "priority": "critical", "risk_tags": ["cost"]});
    fixture.save(&acme(), json!({"for_each": "[1, 2, 3, 4]", "meta": meta})).await;
    let run = fixture.start(&acme()).await;
    for _ in 0..4 {
        let job = able.next_job().await;
        assert_eq!(job.priority(), JobPriority::Critical);
        let meta = job.meta.clone().unwrap();
        assert_eq!((meta.requires, meta.risk_tags), (vec!["gpu".to_owned()], vec!["cost".to_owned()]));
        able.succeed(&fixture, &job, &json!(1)).await;
    }
    assert_eq!(fixture.ended(&acme(), run).await.head.status, RunStatus::Succeeded);
    assert_eq!(plain.pushed_job().await, None);
}

async fn a_heartbeat_with_a_new_capability_brings_the_waiting_job(release: NatsRelease) {
    let settings = CapSettings { poll: SELDOM, silence: SELDOM, ..fast() };
    let fixture = Fixture::open(release, settings).await;
    let mut worker =
        Worker::join(&fixture, "w1", WorkerOptions { every: SELDOM, ..WorkerOptions::default() }).await;
    worker.beat_as(&WorkerOptions::default()).await;
    heard(&fixture, 1).await;
    fixture.save(&acme(), json!({"meta": {"requires": ["gpu"]}})).await;
    let run = fixture.start(&acme()).await;
    let job = format!("{run}:work@1");
    until("the job waits for a capability", async || {
        reason(&fixture, &job).await == Some(WaitReason::Capability)
    })
    .await;
    assert_eq!(worker.pushed_job().await, None);
    worker.beat_as(&capable(&["gpu"])).await;
    assert_eq!(worker.next_job().await.job_id, job);
    assert_eq!(reason(&fixture, &job).await, None);
}

async fn a_draining_worker_keeps_its_job_and_gets_no_other(release: NatsRelease) {
    let fixture = Fixture::open(release, CapSettings { poll: SELDOM, ..fast() }).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    heard(&fixture, 1).await;
    fixture.save(&acme(), json!({})).await;
    let first = fixture.start(&acme()).await;
    let held = worker.next_job().await;
    let known =
        fixture.control.worker_directory.find(&acme(), &"w1".parse().unwrap()).await.unwrap().unwrap();
    fixture.control.workers.drain(&acme(), &known, true).await.unwrap();
    let second = fixture.start(&acme()).await;
    let job = format!("{second}:work@1");
    until("the job waits for a worker", async || reason(&fixture, &job).await == Some(WaitReason::Draining))
        .await;
    worker.succeed(&fixture, &held, &json!(1)).await;
    assert_eq!(fixture.ended(&acme(), first).await.head.status, RunStatus::Succeeded);
    assert_eq!(worker.pushed_job().await, None);
    fixture.control.workers.drain(&acme(), &known, false).await.unwrap();
    assert_eq!(worker.next_job().await.job_id, job);
}

async fn jobs_of_a_pool_topic_go_to_its_workers_only(release: NatsRelease) {
    let pool = Pool { topics: [TOPIC.parse().unwrap()].into(), requires: ["gpu".parse().unwrap()].into() };
    let pools = Pools::new([("large".to_owned(), pool)].into());
    let fixture = Fixture::open_with(release, fast(), pools).await;
    let mut outside = Worker::join(&fixture, "outside", capable(&["gpu"])).await;
    let inside = |capabilities| WorkerOptions { pool: "large", ..capable(capabilities) };
    let mut weak = Worker::join(&fixture, "weak", inside(&[])).await;
    heard(&fixture, 2).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let job = format!("{run}:work@1");
    until("the job waits", async || reason(&fixture, &job).await == Some(WaitReason::NoWorker)).await;
    let mut able = Worker::join(&fixture, "able", inside(&["gpu"])).await;
    assert_eq!(able.next_job().await.job_id, job);
    assert_eq!((outside.pushed_job().await, weak.pushed_job().await), (None, None));
}

async fn a_single_job_starts_between_two_turns_of_a_flood(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    heard(&fixture, 1).await;
    let modest: TenantId = "modest".parse().unwrap();
    fixture.save(&acme(), json!({"for_each": "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]"})).await;
    fixture.save(&modest, json!({})).await;
    fixture.start(&acme()).await;
    let mut held = VecDeque::new();
    for _ in 0..4 {
        held.push_back(worker.next_job().await);
    }
    fixture.start(&modest).await;
    let mut before = 0;
    loop {
        let done = held.pop_front().expect("the worker always has jobs");
        worker.succeed(&fixture, &done, &json!(1)).await;
        let job = worker.next_job().await;
        if job.tenant_id == "modest" {
            break;
        }
        before += 1;
        held.push_back(job);
    }
    assert!(before <= 3, "{before} jobs of the flood came before");
}
