//! Silent workers, and an unreachable NATS.

use interlock_backend::verbs::ReadJob;
use std::time::Duration;

use async_nats::connection::State;
use interlock_backend::jobs::{Claim, LeaseTerm};
use interlock_cap::CapSettings;
use interlock_cap::streams::{RESULTS_CONSUMER, SYSTEM_STREAM};
use interlock_model::JobId;
use interlock_model::run::RunStatus;
use interlock_model::scheduling::Edge;
use interlock_poll::until;
use interlock_servers::NatsRelease;
use serde_json::json;

use crate::fixture::{Fixture, JOB_LOCK, TOPIC, acme, fast, output};
use crate::worker::{Worker, WorkerOptions};

crate::on_both_releases!(
    a_silent_workers_job_goes_to_another_and_its_late_result_is_refused,
    a_worker_that_returns_needs_no_new_handshake,
    a_worker_that_stays_silent_is_forgotten,
    a_restarted_worker_loses_its_jobs,
    a_pushed_job_is_leased_to_its_worker_for_the_whole_step,
    a_job_whose_push_was_interrupted_is_dispatched_again,
    an_outage_of_nats_loses_no_job,
    a_missing_consumer_is_created_again,
);

async fn a_silent_workers_job_goes_to_another_and_its_late_result_is_refused(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let mut first = Worker::join(
        &fixture,
        "first",
        WorkerOptions { every: Duration::from_hours(1), ..WorkerOptions::default() },
    )
    .await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let lost = first.next_job().await;
    let mut second = Worker::join(&fixture, "second", WorkerOptions::default()).await;
    let job = second.next_job().await;
    assert_eq!(job.job_id, format!("{run}:work@2"));
    assert!(job.dispatch.as_ref().unwrap().attempt > lost.dispatch.as_ref().unwrap().attempt);

    first.succeed(&fixture, &lost, &json!("late")).await;
    until("the late result is refused", async || fixture.counts.results_refused.get() == 1).await;
    second.succeed(&fixture, &job, &json!("right")).await;
    let run = fixture.ended(&acme(), run).await;
    assert_eq!((run.head.status, output(&run)), (RunStatus::Succeeded, json!("right")));
    assert_eq!((run.steps[&"work".parse().unwrap()].losses, fixture.counts.jobs_abandoned.get()), (1, 1));
}

async fn a_restarted_worker_loses_its_jobs(release: NatsRelease) {
    let fixture = Fixture::open(release, CapSettings { silence: Duration::from_mins(10), ..fast() }).await;
    fixture.save(&acme(), json!({})).await;
    let mut former =
        Worker::join(&fixture, "w", WorkerOptions { tenant: Some("acme"), ..WorkerOptions::default() }).await;
    let run = fixture.start(&acme()).await;
    assert_eq!(former.next_job().await.job_id, format!("{run}:work@1"));
    drop(former);
    // Restarted under the same name before its silence was noticed.
    let mut again = Worker::join(&fixture, "w", WorkerOptions::default()).await;
    let job = again.next_job().await;
    assert_eq!(job.job_id, format!("{run}:work@2"));
    again.succeed(&fixture, &job, &json!("ok")).await;
    assert_eq!(output(&fixture.ended(&acme(), run).await), json!("ok"));
}

async fn a_pushed_job_is_leased_to_its_worker_for_the_whole_step(release: NatsRelease) {
    let lease = Duration::from_mins(7);
    let fixture = Fixture::open(release, CapSettings { lease, ..fast() }).await;
    fixture.save(&acme(), json!({})).await;
    let mut worker = Worker::join(&fixture, "w", WorkerOptions::default()).await;
    fixture.start(&acme()).await;
    let job: JobId = worker.next_job().await.job_id.parse().unwrap();
    until("the lease is the worker's", async || {
        let view = fixture
            .control
            .process
            .reader()
            .call(ReadJob { tenant: acme(), job: job.clone() })
            .await
            .unwrap()
            .unwrap();
        view.lease.is_some_and(|held| held.ttl == lease)
    })
    .await;
}

/// A process dies between the claim and the push.
async fn a_job_whose_push_was_interrupted_is_dispatched_again(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let claim = Claim {
        tenant: acme(),
        worker: "w".parse().unwrap(),
        topics: vec![TOPIC.parse().unwrap()],
        capabilities: Vec::new(),
        jobs_max: 1,
        term: LeaseTerm::For(JOB_LOCK),
        edge: Edge::Http,
    };
    assert_eq!(fixture.control.results.claim_now(claim).await.unwrap().len(), 1);
    let mut worker = Worker::join(&fixture, "w", WorkerOptions::default()).await;
    assert_eq!(worker.next_job().await.job_id, format!("{run}:work@2"));
}

async fn a_worker_that_returns_needs_no_new_handshake(release: NatsRelease) {
    let silence = Duration::from_millis(300);
    let fixture = Fixture::open(release, CapSettings { silence, ..fast() }).await;
    let mut worker = Worker::join(
        &fixture,
        "w1",
        WorkerOptions { every: Duration::from_hours(1), ..WorkerOptions::default() },
    )
    .await;
    until("the worker is known", async || known(&fixture).await == 1).await;
    let seen = fixture.control.workers.registry().await.unwrap().workers[0].last_seen_at;
    until("the worker is silent", async || {
        fixture.control.workers.registry().await.unwrap().now.since(seen) > silence * 4
    })
    .await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    // The SDK sends its handshake only at its start, so this is a heartbeat alone.
    worker.beat_once().await;
    let job = worker.next_job().await;
    assert_eq!(job.job_id, format!("{run}:work@1"), "a job was pushed to a silent worker");
    worker.succeed(&fixture, &job, &json!("ok")).await;
    assert_eq!(output(&fixture.ended(&acme(), run).await), json!("ok"));
}

async fn a_worker_that_stays_silent_is_forgotten(release: NatsRelease) {
    let forget_after = Duration::from_secs(1);
    let fixture =
        Fixture::open(release, CapSettings { silence: forget_after / 4, forget_after, ..fast() }).await;
    let worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    until("the worker is known", async || known(&fixture).await == 1).await;
    drop(worker);
    until("the worker is forgotten", async || known(&fixture).await == 0).await;
}

async fn known(fixture: &Fixture) -> usize {
    fixture.control.workers.registry().await.unwrap().workers.len()
}

async fn an_outage_of_nats_loses_no_job(release: NatsRelease) {
    let silence = Duration::from_millis(1_500);
    let mut fixture = Fixture::open(release, CapSettings { silence, ..fast() }).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;

    fixture.nats.kill().await.unwrap();
    until("the connection is down", async || fixture.client.connection_state() != State::Connected).await;
    // No heartbeat arrives for longer than the bound.
    let registry = fixture.control.workers.registry().await.unwrap();
    let last_seen = registry.workers[0].last_seen_at;
    until("the worker looks silent", async || {
        fixture.control.workers.registry().await.unwrap().now.since(last_seen) > silence * 2
    })
    .await;
    fixture.nats.start_again().await.unwrap();
    until("the connection is up", async || fixture.client.connection_state() == State::Connected).await;
    until("a heartbeat of the worker arrives", async || {
        fixture.control.workers.registry().await.unwrap().workers[0].last_seen_at > last_seen
    })
    .await;

    worker.succeed(&fixture, &job, &json!("survived")).await;
    let run = fixture.ended(&acme(), run).await;
    assert_eq!((output(&run), run.steps[&"work".parse().unwrap()].attempts), (json!("survived"), 1));
    assert_eq!(fixture.counts.jobs_abandoned.get(), 0);
    // The next job works as before.
    let next = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    worker.succeed(&fixture, &job, &json!("next")).await;
    assert_eq!(output(&fixture.ended(&acme(), next).await), json!("next"));
}

async fn a_missing_consumer_is_created_again(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({})).await;
    let context = async_nats::jetstream::new(fixture.client.clone());
    context.delete_consumer_from_stream(RESULTS_CONSUMER, SYSTEM_STREAM).await.unwrap();
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    worker.succeed(&fixture, &job, &json!("ok")).await;
    assert_eq!(output(&fixture.ended(&acme(), run).await), json!("ok"));
    // A missing stream is created again as well.
    context.delete_stream(SYSTEM_STREAM).await.unwrap();
    until("the stream exists", async || context.get_stream(SYSTEM_STREAM).await.is_ok()).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    worker.succeed(&fixture, &job, &json!("ok")).await;
    assert_eq!(output(&fixture.ended(&acme(), run).await), json!("ok"));
}
