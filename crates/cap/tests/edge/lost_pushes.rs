//! Pushes that NATS or the worker's connection loses.

use std::time::Duration;

use futures_util::StreamExt as _;
use interlock_backend::verbs::ReadJob;
use interlock_cap::CapSettings;
use interlock_control::doctor::{DoctorScope, DoctorTenants};
use interlock_model::doctor::Invariant;
use interlock_model::job::JobLease;
use interlock_model::run::RunStatus;
use interlock_model::{JobId, RunId};
use interlock_poll::{LIMIT, until};
use interlock_servers::NatsRelease;
use serde_json::json;
use tokio::time::timeout;

use crate::fixture::{Fixture, JOB_LOCK, acme, fast, output};
use crate::worker::{Worker, WorkerOptions};

crate::on_both_releases!(
    a_push_that_the_worker_never_got_is_dispatched_again,
    a_job_that_heartbeats_count_gets_the_lease_of_its_step,
    a_job_with_progress_gets_the_lease_of_its_step,
    a_worker_that_does_not_count_loses_a_job_once,
    the_doctor_names_the_worker_that_does_not_confirm_a_job,
);

fn quick() -> CapSettings {
    CapSettings { settling: Duration::from_millis(200), ..fast() }
}

async fn lease(fixture: &Fixture, job: &JobId) -> Option<JobLease> {
    let view = fixture.control.process.reader().call(ReadJob { tenant: acme(), job: job.clone() }).await;
    view.unwrap().and_then(|view| view.lease)
}

/// Returns when the job has the lease of its step.
async fn confirmed(fixture: &Fixture, job: &JobId) {
    until("the job is confirmed", async || {
        lease(fixture, job).await.is_some_and(|lease| lease.ttl == CapSettings::default().lease)
    })
    .await;
}

fn dispatch(run: RunId, attempt: u32) -> JobId {
    JobId { run, step: "work".parse().unwrap(), attempt }
}

async fn a_push_that_the_worker_never_got_is_dispatched_again(release: NatsRelease) {
    let fixture = Fixture::open(release, quick()).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({})).await;
    let kept = fixture.start(&acme()).await;
    let held = worker.next_job().await;
    confirmed(&fixture, &dispatch(kept, 1)).await;
    worker.cut().await;
    let mut pushes = fixture.client.subscribe("worker.w1.jobs").await.unwrap();
    fixture.client.flush().await.unwrap();
    let run = fixture.start(&acme()).await;
    timeout(LIMIT, pushes.next()).await.expect("the job is pushed");
    worker.reconnect().await;
    let first = lease(&fixture, &dispatch(run, 1)).await.expect("it is leased to the worker");
    assert!(fixture.control.process.is_unconfirmed(&first));

    let job = worker.next_job().await;
    assert_eq!(job.job_id, dispatch(run, 2).to_string());
    assert!(job.dispatch.as_ref().unwrap().attempt > first.fence.number(), "the fence was raised");
    worker.succeed(&fixture, &job, &json!("done")).await;
    assert_eq!(output(&fixture.ended(&acme(), run).await), json!("done"));
    assert_eq!(fixture.counts.pushes_lost.get(), 1, "the job that the worker has was not lost");
    worker.succeed(&fixture, &held, &json!("kept")).await;
    assert_eq!(output(&fixture.ended(&acme(), kept).await), json!("kept"));
}

async fn a_job_that_heartbeats_count_gets_the_lease_of_its_step(release: NatsRelease) {
    let fixture = Fixture::open(release, quick()).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    confirmed(&fixture, &dispatch(run, 1)).await;
    worker.succeed(&fixture, &job, &json!("done")).await;
    assert_eq!(fixture.ended(&acme(), run).await.head.status, RunStatus::Succeeded);
    assert_eq!(fixture.counts.pushes_lost.get(), 0);
}

async fn a_job_with_progress_gets_the_lease_of_its_step(release: NatsRelease) {
    let settings = CapSettings { settling: Duration::from_hours(1), ..fast() };
    let fixture = Fixture::open(release, settings).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    assert_eq!(lease(&fixture, &dispatch(run, 1)).await.map(|lease| lease.ttl), Some(JOB_LOCK));
    worker.progress(&job, 10).await;
    confirmed(&fixture, &dispatch(run, 1)).await;
}

async fn the_doctor_names_the_worker_that_does_not_confirm_a_job(release: NatsRelease) {
    // Its heartbeats decide nothing within the test.
    let settings = CapSettings { settling: Duration::from_hours(1), ..fast() };
    let fixture = Fixture::open(release, settings).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    let only = vec![Invariant::PushUnconfirmed];
    let scope = DoctorScope { tenants: DoctorTenants::All, only };
    let found = until("the doctor finds it", async || {
        fixture.control.doctor.examine(&scope).await.findings.into_iter().next()
    })
    .await;
    assert_eq!(found.subject, dispatch(run, 1).to_string());
    assert!(found.detail.contains("worker w1 has not confirmed this job"), "{found:?}");
    assert!(found.detail.contains("dispatched again"), "{found:?}");
    worker.progress(&job, 10).await;
    confirmed(&fixture, &dispatch(run, 1)).await;
    assert_eq!(fixture.control.doctor.examine(&scope).await.findings, []);
}

async fn a_worker_that_does_not_count_loses_a_job_once(release: NatsRelease) {
    let fixture = Fixture::open(release, quick()).await;
    let options = WorkerOptions { counts: false, ..WorkerOptions::default() };
    let mut worker = Worker::join(&fixture, "w1", options).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let lost = worker.next_job().await;
    let again = worker.next_job().await;
    assert_eq!(again.job_id, dispatch(run, 2).to_string());
    worker.succeed(&fixture, &lost, &json!("late")).await;
    until("the late result is refused", async || fixture.counts.results_refused.get() == 1).await;
    worker.succeed(&fixture, &again, &json!("right")).await;
    assert_eq!(output(&fixture.ended(&acme(), run).await), json!("right"));

    // From now on its jobs are trusted to be there.
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    confirmed(&fixture, &dispatch(run, 1)).await;
    worker.succeed(&fixture, &job, &json!("done")).await;
    assert_eq!(output(&fixture.ended(&acme(), run).await), json!("done"));
    assert_eq!(fixture.counts.pushes_lost.get(), 1);
}
