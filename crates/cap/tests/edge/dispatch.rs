//! Who gets which job.

use std::time::Duration;

use futures_util::StreamExt as _;
use interlock_backend::faulty::Faults;
use interlock_backend::jobs::{Claim, LeaseTerm};
use interlock_cap::CapSettings;
use interlock_cap::wire::{self, BusPacket, Payload};
use interlock_model::run::RunStatus;
use interlock_model::scheduling::Edge;
use interlock_servers::NatsRelease;
use prost::Message as _;
use serde_json::json;
use tokio::time::timeout;

use crate::scene::{Scene, TOPIC, acme, eventually, fast, output, until};
use crate::worker::{Manner, Worker};

crate::on_both_releases!(
    a_burst_is_spread_over_the_workers,
    a_worker_gets_its_next_job_with_its_result_and_not_with_its_next_heartbeat,
    jobs_that_wait_for_nobody_in_particular_go_to_whoever_joins,
    a_labelled_worker_serves_its_tenant_only,
    a_job_that_no_worker_on_the_bus_serves_waits_for_a_claim,
    a_job_that_could_not_be_pushed_is_pushed_again_and_costs_no_retry,
    a_cancelled_run_is_told_to_its_worker,
    every_run_ends_although_the_store_loses_requests_and_replies,
);

/// So seldom that nothing in a test waits for it.
const SELDOM: Duration = Duration::from_mins(10);

async fn a_burst_is_spread_over_the_workers(release: NatsRelease) {
    let scene = Scene::open(release, fast()).await;
    let mut one = Worker::join(&scene, "one", Manner::default()).await;
    let mut two = Worker::join(&scene, "two", Manner::default()).await;
    until("both have spoken", async || spoken(&scene).await == 2).await;
    scene.save(&acme(), json!({"for_each": "[1, 2, 3, 4]"})).await;
    scene.start(&acme()).await;
    for worker in [&mut one, &mut two] {
        worker.next_job().await;
        worker.next_job().await;
    }
    until("all are out", async || scene.tally.jobs_pushed.get() == 4).await;
    assert_eq!((one.job_at_hand().await, two.job_at_hand().await), (None, None));
}

/// Workers that have introduced themselves and whose heartbeat has come.
async fn spoken(scene: &Scene) -> usize {
    let registry = scene.control.registry().await.unwrap();
    registry.workers.iter().filter(|known| known.handshake.is_some() && known.beat.is_some()).count()
}

async fn a_worker_gets_its_next_job_with_its_result_and_not_with_its_next_heartbeat(release: NatsRelease) {
    let settings = CapSettings { silence: SELDOM, default_capacity: 1, poll: SELDOM, ..fast() };
    let scene = Scene::open(release, settings).await;
    let mut worker = Worker::join(&scene, "w1", Manner { every: SELDOM, ..Manner::default() }).await;
    eventually("it is known", async || scene.control.registry().await.unwrap().workers.pop()).await;
    scene.save(&acme(), json!({})).await;
    let runs = [scene.start(&acme()).await, scene.start(&acme()).await, scene.start(&acme()).await];
    for _ in runs {
        let job = worker.next_job().await;
        assert_eq!(worker.job_at_hand().await, None, "it takes one at a time");
        worker.succeed(&scene, &job, &json!(1)).await;
    }
    for run in runs {
        assert_eq!(scene.ended(&acme(), run).await.head.status, RunStatus::Succeeded);
    }
}

async fn jobs_that_wait_for_nobody_in_particular_go_to_whoever_joins(release: NatsRelease) {
    let scene = Scene::open(release, CapSettings { poll: SELDOM, ..fast() }).await;
    scene.save(&acme(), json!({})).await;
    let run = scene.start(&acme()).await;
    let mut worker = Worker::join(&scene, "w1", Manner::default()).await;
    let job = worker.next_job().await;
    worker.succeed(&scene, &job, &json!("ok")).await;
    assert_eq!(output(&scene.ended(&acme(), run).await), json!("ok"));
}

async fn a_labelled_worker_serves_its_tenant_only(release: NatsRelease) {
    let scene = Scene::open(release, CapSettings { push_before_beat: false, ..fast() }).await;
    let manner = Manner { tenant: Some("globex"), ..Manner::default() };
    let mut worker = Worker::join(&scene, "w1", manner).await;
    let globex = "globex".parse().unwrap();
    for tenant in [&acme(), &globex] {
        scene.save(tenant, json!({})).await;
    }
    // Not its tenant's, and asked for first.
    let others = scene.start(&acme()).await;
    let run = scene.start(&globex).await;
    let job = worker.next_job().await;
    assert_eq!(job.tenant_id, "globex");
    worker.succeed(&scene, &job, &json!("ok")).await;
    scene.ended(&globex, run).await;
    assert_eq!(worker.job_at_hand().await, None);
    // Somebody who serves everybody gets the other.
    let mut everybody = Worker::join(&scene, "w2", Manner::default()).await;
    assert_eq!(everybody.next_job().await.job_id, format!("{others}:work@1"));
}

async fn a_job_that_no_worker_on_the_bus_serves_waits_for_a_claim(release: NatsRelease) {
    let scene = Scene::open(release, fast()).await;
    let mut worker = Worker::join(&scene, "w1", Manner::default()).await;
    scene.save(&acme(), json!({"topic": "job.other"})).await;
    let run = scene.start(&acme()).await;
    scene.save(&acme(), json!({})).await;
    let served = scene.start(&acme()).await;
    assert_eq!(worker.next_job().await.job_id, format!("{served}:work@1"));
    let claim = Claim {
        tenant: acme(),
        worker: "over-http".parse().unwrap(),
        topics: vec!["job.other".parse().unwrap(), TOPIC.parse().unwrap()],
        capabilities: Vec::new(),
        jobs_max: 10,
        term: LeaseTerm::For(Duration::from_secs(15)),
        edge: Edge::Http,
    };
    let claimed = scene.control.claim(claim, Duration::ZERO).await.unwrap();
    let ids: Vec<String> = claimed.iter().map(|claimed| claimed.job.id.to_string()).collect();
    assert_eq!(ids, [format!("{run}:work@1")], "each job has one holder, however it was taken");
}

async fn a_job_that_could_not_be_pushed_is_pushed_again_and_costs_no_retry(release: NatsRelease) {
    let scene = Scene::open(release, fast()).await;
    scene.mailbox.refuse_inputs(2);
    let mut worker = Worker::join(&scene, "w1", Manner::default()).await;
    scene.save(&acme(), json!({})).await;
    let run = scene.start(&acme()).await;
    let job = worker.next_job().await;
    assert_eq!(job.job_id, format!("{run}:work@3"));
    worker.succeed(&scene, &job, &json!("ok")).await;
    let run = scene.ended(&acme(), run).await;
    assert_eq!((run.head.status, run.steps[&"work".parse().unwrap()].failures), (RunStatus::Succeeded, 0));
    assert_eq!(scene.tally.jobs_given_back.get(), 2);
}

async fn a_cancelled_run_is_told_to_its_worker(release: NatsRelease) {
    let scene = Scene::open(release, fast()).await;
    let mut cancellations = scene.client.subscribe(wire::CANCEL).await.unwrap();
    let mut worker = Worker::join(&scene, "w1", Manner::default()).await;
    scene.save(&acme(), json!({})).await;
    let run = scene.start(&acme()).await;
    let job = worker.next_job().await;
    scene.control.cancel_run(&acme(), run, "a test").await.unwrap();
    let message = timeout(Duration::from_secs(20), cancellations.next()).await.unwrap().unwrap();
    let Some(Payload::JobCancel(cancel)) = BusPacket::decode(&*message.payload).unwrap().payload else {
        panic!("not a cancellation");
    };
    assert_eq!((cancel.job_id, cancel.dispatch), (job.job_id.clone(), job.dispatch.clone()));
    worker.succeed(&scene, &job, &json!("too late")).await;
    until("its result is refused", async || scene.tally.results_refused.get() == 1).await;
}

async fn every_run_ends_although_the_store_loses_requests_and_replies(release: NatsRelease) {
    let scene =
        Scene::open(release, CapSettings { redelivery_delay: Duration::from_millis(20), ..fast() }).await;
    let mut worker = Worker::join(&scene, "w1", Manner { capacity: 100, ..Manner::default() }).await;
    scene.save(&acme(), json!({})).await;
    until("it has spoken", async || spoken(&scene).await == 1).await;
    let mut runs = Vec::new();
    for _ in 0..8 {
        runs.push(scene.start(&acme()).await);
    }
    let faults = Faults { requests_lost: 100, replies_lost: 250, ..Faults::NONE };
    scene.store.set_faults(faults);
    // A lease is for 15 minutes: a claim whose answer was lost would keep its job for longer than this test waits.
    let all_ended = async {
        for run in &runs {
            eventually("the run ends", async || {
                let run = scene.control.store().run(&acme(), *run).await.ok()??;
                run.head.status.is_final().then_some(())
            })
            .await;
        }
    };
    let working = async {
        loop {
            let job = worker.next_job().await;
            worker.succeed(&scene, &job, &json!(job.job_id)).await;
        }
    };
    tokio::select! {
        () = all_ended => {}
        () = working => unreachable!("it works for ever"),
    }
    scene.store.set_faults(Faults::NONE);
    for run in runs {
        let ended = scene.ended(&acme(), run).await;
        assert_eq!(
            (ended.head.status, ended.steps[&"work".parse().unwrap()].failures),
            (RunStatus::Succeeded, 0)
        );
    }
}
