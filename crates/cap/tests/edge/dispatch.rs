//! Which worker gets which job.

use interlock_backend::verbs::ReadRun;
use std::time::Duration;

use futures_util::StreamExt as _;
use interlock_backend::faulty::Faults;
use interlock_backend::jobs::{Claim, LeaseTerm};
use interlock_cap::CapSettings;
use interlock_cap::wire::{self, BusPacket, Payload};
use interlock_model::run::RunStatus;
use interlock_model::scheduling::Edge;
use interlock_poll::{LIMIT, until};
use interlock_servers::NatsRelease;
use prost::Message as _;
use serde_json::json;
use tokio::time::timeout;

use crate::fixture::{Fixture, TOPIC, acme, fast, output};
use crate::worker::{Worker, WorkerOptions};

crate::on_both_releases!(
    a_burst_is_spread_over_the_workers,
    a_worker_gets_its_next_job_with_its_result_and_not_with_its_next_heartbeat,
    waiting_jobs_go_to_a_worker_that_joins,
    a_labelled_worker_serves_its_tenant_only,
    a_job_that_no_worker_on_the_bus_serves_waits_for_a_claim,
    a_failed_push_is_repeated_and_uses_no_retry,
    a_cancellation_is_sent_to_the_worker,
    every_run_ends_while_the_store_loses_requests_and_replies,
);

/// Rarer than any test lasts.
const SELDOM: Duration = Duration::from_mins(10);

async fn a_burst_is_spread_over_the_workers(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let mut one = Worker::join(&fixture, "one", WorkerOptions::default()).await;
    let mut two = Worker::join(&fixture, "two", WorkerOptions::default()).await;
    until("both heartbeats have arrived", async || heard(&fixture).await == 2).await;
    fixture.save(&acme(), json!({"for_each": "[1, 2, 3, 4]"})).await;
    fixture.start(&acme()).await;
    for worker in [&mut one, &mut two] {
        worker.next_job().await;
        worker.next_job().await;
    }
    until("all jobs are pushed", async || fixture.counts.jobs_pushed.get() == 4).await;
    assert_eq!((one.pushed_job().await, two.pushed_job().await), (None, None));
}

/// The number of workers whose handshake and heartbeat have arrived.
async fn heard(fixture: &Fixture) -> usize {
    let registry = fixture.control.workers.registry().await.unwrap();
    registry.workers.iter().filter(|known| known.handshake.is_some() && known.beat.is_some()).count()
}

async fn a_worker_gets_its_next_job_with_its_result_and_not_with_its_next_heartbeat(release: NatsRelease) {
    let settings = CapSettings { silence: SELDOM, default_capacity: 1, poll: SELDOM, ..fast() };
    let fixture = Fixture::open(release, settings).await;
    let mut worker =
        Worker::join(&fixture, "w1", WorkerOptions { every: SELDOM, ..WorkerOptions::default() }).await;
    until("the worker is known", async || fixture.control.workers.registry().await.unwrap().workers.pop())
        .await;
    fixture.save(&acme(), json!({})).await;
    let runs = [fixture.start(&acme()).await, fixture.start(&acme()).await, fixture.start(&acme()).await];
    for _ in runs {
        let job = worker.next_job().await;
        assert_eq!(worker.pushed_job().await, None, "it gets one job at a time");
        worker.succeed(&fixture, &job, &json!(1)).await;
    }
    for run in runs {
        assert_eq!(fixture.ended(&acme(), run).await.head.status, RunStatus::Succeeded);
    }
}

async fn waiting_jobs_go_to_a_worker_that_joins(release: NatsRelease) {
    let fixture = Fixture::open(release, CapSettings { poll: SELDOM, ..fast() }).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    let job = worker.next_job().await;
    worker.succeed(&fixture, &job, &json!("ok")).await;
    assert_eq!(output(&fixture.ended(&acme(), run).await), json!("ok"));
}

async fn a_labelled_worker_serves_its_tenant_only(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let options = WorkerOptions { tenant: Some("globex"), ..WorkerOptions::default() };
    let mut worker = Worker::join(&fixture, "w1", options).await;
    until("its heartbeat has arrived", async || heard(&fixture).await == 1).await;
    let globex = "globex".parse().unwrap();
    for tenant in [&acme(), &globex] {
        fixture.save(tenant, json!({})).await;
    }
    // A job of another tenant, started first.
    let others = fixture.start(&acme()).await;
    let run = fixture.start(&globex).await;
    let job = worker.next_job().await;
    assert_eq!(job.tenant_id, "globex");
    worker.succeed(&fixture, &job, &json!("ok")).await;
    fixture.ended(&globex, run).await;
    assert_eq!(worker.pushed_job().await, None);
    // A worker for all tenants gets the other job.
    let mut general = Worker::join(&fixture, "w2", WorkerOptions::default()).await;
    assert_eq!(general.next_job().await.job_id, format!("{others}:work@1"));
}

async fn a_job_that_no_worker_on_the_bus_serves_waits_for_a_claim(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({"topic": "job.other"})).await;
    let run = fixture.start(&acme()).await;
    fixture.save(&acme(), json!({})).await;
    let served = fixture.start(&acme()).await;
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
    let claimed = fixture
        .control
        .results
        .claim(claim, Duration::ZERO, &tokio_util::sync::CancellationToken::new())
        .await
        .unwrap();
    let ids: Vec<String> = claimed.iter().map(|claimed| claimed.job.id.to_string()).collect();
    assert_eq!(ids, [format!("{run}:work@1")], "each job has one holder");
}

async fn a_failed_push_is_repeated_and_uses_no_retry(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    fixture.mailbox.refuse_inputs(2);
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    assert_eq!(job.job_id, format!("{run}:work@3"));
    worker.succeed(&fixture, &job, &json!("ok")).await;
    let run = fixture.ended(&acme(), run).await;
    assert_eq!((run.head.status, run.steps[&"work".parse().unwrap()].failures), (RunStatus::Succeeded, 0));
    assert_eq!(fixture.counts.jobs_released.get(), 2);
}

async fn a_cancellation_is_sent_to_the_worker(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let mut cancellations = fixture.client.subscribe(wire::CANCEL).await.unwrap();
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    fixture.control.runs.cancel(&acme(), run, "a test").await.unwrap();
    let message = timeout(LIMIT, cancellations.next()).await.unwrap().unwrap();
    let Some(Payload::JobCancel(cancel)) = BusPacket::decode(&*message.payload).unwrap().payload else {
        panic!("not a cancellation");
    };
    assert_eq!((cancel.job_id, cancel.dispatch), (job.job_id.clone(), job.dispatch.clone()));
    worker.succeed(&fixture, &job, &json!("too late")).await;
    until("the late result is refused", async || fixture.counts.results_refused.get() == 1).await;
}

async fn every_run_ends_while_the_store_loses_requests_and_replies(release: NatsRelease) {
    let fixture =
        Fixture::open(release, CapSettings { redelivery_delay: Duration::from_millis(20), ..fast() }).await;
    let mut worker =
        Worker::join(&fixture, "w1", WorkerOptions { capacity: 100, ..WorkerOptions::default() }).await;
    fixture.save(&acme(), json!({})).await;
    until("its heartbeat has arrived", async || heard(&fixture).await == 1).await;
    let mut runs = Vec::new();
    for _ in 0..8 {
        runs.push(fixture.start(&acme()).await);
    }
    let faults = Faults { requests_lost: 100, replies_lost: 250, ..Faults::NONE };
    fixture.store.set_faults(faults);
    // A claim whose answer was lost must not keep its job for its lease of 15 minutes.
    let all_ended = async {
        for run in &runs {
            until("the run ends", async || {
                let run = fixture
                    .control
                    .process
                    .reader()
                    .call(ReadRun { tenant: acme(), run: *run })
                    .await
                    .ok()??;
                run.head.status.is_final().then_some(())
            })
            .await;
        }
    };
    let working = async {
        loop {
            let job = worker.next_job().await;
            worker.succeed(&fixture, &job, &json!(job.job_id)).await;
        }
    };
    tokio::select! {
        () = all_ended => {}
        () = working => unreachable!("the worker never ends"),
    }
    fixture.store.set_faults(Faults::NONE);
    for run in runs {
        let ended = fixture.ended(&acme(), run).await;
        assert_eq!(
            (ended.head.status, ended.steps[&"work".parse().unwrap()].failures),
            (RunStatus::Succeeded, 0)
        );
    }
}
