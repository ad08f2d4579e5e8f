//! Who may have which job: capabilities, pools, draining, and turns.

use std::collections::VecDeque;
use std::time::Duration;

use interlock_cap::CapSettings;
use interlock_cap::wire::JobPriority;
use interlock_model::TenantId;
use interlock_model::run::RunStatus;
use interlock_model::scheduling::{Pool, Pools, WaitReason};
use interlock_servers::NatsRelease;
use serde_json::json;

use crate::scene::{Scene, TOPIC, acme, fast, until};
use crate::worker::{Manner, Worker};

crate::on_both_releases!(
    a_job_goes_to_the_worker_that_is_capable_of_it_however_idle_the_others_are,
    a_heartbeat_that_brings_a_capability_brings_the_job_that_waited_for_it,
    a_draining_worker_keeps_its_job_and_gets_no_other,
    jobs_of_a_pools_topic_go_to_its_workers_only,
    a_single_job_starts_between_two_turns_of_a_flood,
);

/// So seldom that nothing in a test waits for it.
const SELDOM: Duration = Duration::from_mins(10);

fn capable(capabilities: &'static [&'static str]) -> Manner {
    Manner { capabilities, ..Manner::default() }
}

async fn spoken(scene: &Scene, workers: usize) {
    until("all have spoken", async || {
        let registry = scene.control.registry().await.unwrap();
        registry.workers.iter().filter(|known| known.beat.is_some()).count() == workers
    })
    .await;
}

async fn reason(scene: &Scene, job: &str) -> Option<WaitReason> {
    let view = scene.control.store().job(&acme(), &job.parse().unwrap()).await.unwrap()?;
    let waiting = scene.control.waiting_for(&acme(), &view).await.unwrap();
    waiting.map(|waiting| waiting.reason)
}

async fn a_job_goes_to_the_worker_that_is_capable_of_it_however_idle_the_others_are(release: NatsRelease) {
    let scene = Scene::open(release, fast()).await;
    let mut plain = Worker::join(&scene, "plain", Manner { capacity: 100, ..Manner::default() }).await;
    let mut able = Worker::join(&scene, "able", capable(&["linux", "gpu"])).await;
    spoken(&scene, 2).await;
    let meta = json!({"requires": ["gpu"], "priority": "critical", "risk_tags": ["cost"]});
    scene.save(&acme(), json!({"for_each": "[1, 2, 3, 4]", "meta": meta})).await;
    let run = scene.start(&acme()).await;
    for _ in 0..4 {
        let job = able.next_job().await;
        assert_eq!(job.priority(), JobPriority::Critical);
        let told = job.meta.clone().unwrap();
        assert_eq!((told.requires, told.risk_tags), (vec!["gpu".to_owned()], vec!["cost".to_owned()]));
        able.succeed(&scene, &job, &json!(1)).await;
    }
    assert_eq!(scene.ended(&acme(), run).await.head.status, RunStatus::Succeeded);
    assert_eq!(plain.job_at_hand().await, None);
}

async fn a_heartbeat_that_brings_a_capability_brings_the_job_that_waited_for_it(release: NatsRelease) {
    let settings = CapSettings { poll: SELDOM, silence: SELDOM, ..fast() };
    let scene = Scene::open(release, settings).await;
    let mut worker = Worker::join(&scene, "w1", Manner { every: SELDOM, ..Manner::default() }).await;
    worker.beat_as(&Manner::default()).await;
    spoken(&scene, 1).await;
    scene.save(&acme(), json!({"meta": {"requires": ["gpu"]}})).await;
    let run = scene.start(&acme()).await;
    let job = format!("{run}:work@1");
    until("it waits for a capability", async || reason(&scene, &job).await == Some(WaitReason::Capability))
        .await;
    assert_eq!(worker.job_at_hand().await, None);
    worker.beat_as(&capable(&["gpu"])).await;
    assert_eq!(worker.next_job().await.job_id, job);
    assert_eq!(reason(&scene, &job).await, None);
}

async fn a_draining_worker_keeps_its_job_and_gets_no_other(release: NatsRelease) {
    let scene = Scene::open(release, CapSettings { poll: SELDOM, ..fast() }).await;
    let mut worker = Worker::join(&scene, "w1", Manner::default()).await;
    spoken(&scene, 1).await;
    scene.save(&acme(), json!({})).await;
    let first = scene.start(&acme()).await;
    let held = worker.next_job().await;
    let known = scene.control.worker(&acme(), &"w1".parse().unwrap()).await.unwrap().unwrap();
    scene.control.drain(&acme(), &known, true).await.unwrap();
    let second = scene.start(&acme()).await;
    let job = format!("{second}:work@1");
    until("it waits for a worker", async || reason(&scene, &job).await == Some(WaitReason::Draining)).await;
    worker.succeed(&scene, &held, &json!(1)).await;
    assert_eq!(scene.ended(&acme(), first).await.head.status, RunStatus::Succeeded);
    assert_eq!(worker.job_at_hand().await, None);
    scene.control.drain(&acme(), &known, false).await.unwrap();
    assert_eq!(worker.next_job().await.job_id, job);
}

async fn jobs_of_a_pools_topic_go_to_its_workers_only(release: NatsRelease) {
    let pool = Pool { topics: [TOPIC.parse().unwrap()].into(), requires: ["gpu".parse().unwrap()].into() };
    let pools = Pools::new([("large".to_owned(), pool)].into());
    let scene = Scene::open_with(release, fast(), pools).await;
    let mut outside = Worker::join(&scene, "outside", capable(&["gpu"])).await;
    let inside = |capabilities| Manner { pool: "large", ..capable(capabilities) };
    let mut weak = Worker::join(&scene, "weak", inside(&[])).await;
    spoken(&scene, 2).await;
    scene.save(&acme(), json!({})).await;
    let run = scene.start(&acme()).await;
    let job = format!("{run}:work@1");
    until("it waits", async || reason(&scene, &job).await == Some(WaitReason::NoWorker)).await;
    let mut able = Worker::join(&scene, "able", inside(&["gpu"])).await;
    assert_eq!(able.next_job().await.job_id, job);
    assert_eq!((outside.job_at_hand().await, weak.job_at_hand().await), (None, None));
}

async fn a_single_job_starts_between_two_turns_of_a_flood(release: NatsRelease) {
    let scene = Scene::open(release, fast()).await;
    let mut worker = Worker::join(&scene, "w1", Manner::default()).await;
    spoken(&scene, 1).await;
    let modest: TenantId = "modest".parse().unwrap();
    scene.save(&acme(), json!({"for_each": "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]"})).await;
    scene.save(&modest, json!({})).await;
    scene.start(&acme()).await;
    let mut held = VecDeque::new();
    for _ in 0..4 {
        held.push_back(worker.next_job().await);
    }
    scene.start(&modest).await;
    let mut before = 0;
    loop {
        let done = held.pop_front().expect("the worker always has jobs");
        worker.succeed(&scene, &done, &json!(1)).await;
        let job = worker.next_job().await;
        if job.tenant_id == "modest" {
            break;
        }
        before += 1;
        held.push_back(job);
    }
    assert!(before <= 3, "{before} jobs of the flood came before");
}
