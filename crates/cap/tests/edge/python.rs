//! Workers on the public SDK, unchanged.

use std::process::Stdio;

use interlock_cap::wire::{self, JobResult, JobStatus, Payload};
use interlock_model::run::RunStatus;
use interlock_poll::until;
use interlock_servers::NatsRelease;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::fixture::{Fixture, TOPIC, acme, fast, output};
use crate::worker::publish;

crate::on_both_releases!(
    a_job_ends_with_the_output_of_its_python_worker,
    a_job_whose_python_worker_raises_is_retried,
    a_killed_python_workers_job_goes_to_another_and_its_late_result_is_refused,
);

/// A Python process, killed when it is dropped.
fn python_worker(fixture: &Fixture, id: &str) -> Child {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/edge/worker.py");
    Command::new(interlock_servers::python().unwrap())
        .args([script, TOPIC, id])
        .env("NATS_URL", fixture.nats.url())
        .env("REDIS_URL", fixture.redis.url())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

fn step(manner: &str, more: &Value) -> Value {
    let mut step = json!({"input": {"manner": manner, "number": 21}});
    step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    step
}

async fn a_job_ends_with_the_output_of_its_python_worker(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let _worker = python_worker(&fixture, "first");
    fixture.save(&acme(), step("double", &json!({}))).await;
    let run = fixture.start(&acme()).await;
    let run = fixture.ended(&acme(), run).await;
    assert_eq!(run.head.status, RunStatus::Succeeded, "{:?}", run.head.error);
    assert_eq!(output(&run), json!({"doubled": 42, "by": "first", "attempt": 1}));
}

async fn a_job_whose_python_worker_raises_is_retried(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let _worker = python_worker(&fixture, "first");
    let retry = json!({"retry": {"max_retries": 1, "initial_backoff_sec": 0}});
    fixture.save(&acme(), step("fail once", &retry)).await;
    let run = fixture.start(&acme()).await;
    let run = fixture.ended(&acme(), run).await;
    assert_eq!(run.head.status, RunStatus::Succeeded, "{:?}", run.head.error);
    assert_eq!(output(&run), json!({"doubled": 42, "by": "first", "attempt": 2}));
    assert_eq!(run.steps[&"work".parse().unwrap()].failures, 1);
}

async fn a_killed_python_workers_job_goes_to_another_and_its_late_result_is_refused(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let mut first = python_worker(&fixture, "first");
    fixture.save(&acme(), step("hang", &json!({}))).await;
    let run = fixture.start(&acme()).await;
    until("the first worker runs the job", async || {
        let registry = fixture.control.workers.registry().await.unwrap();
        registry
            .workers
            .into_iter()
            .find(|known| known.beat.as_ref().is_some_and(|beat| beat.jobs_active == 1))
    })
    .await;
    first.kill().await.unwrap();
    let _second = python_worker(&fixture, "second");

    let ended = fixture.ended(&acme(), run).await;
    assert_eq!(ended.head.status, RunStatus::Succeeded, "{:?}", ended.head.error);
    assert_eq!(output(&ended), json!({"doubled": 42, "by": "second", "attempt": 2}));

    let late = JobResult {
        job_id: format!("{run}:work@1"),
        status: JobStatus::Succeeded.into(),
        worker_id: "first".to_owned(),
        ..JobResult::default()
    };
    let refused = fixture.counts.results_refused.get();
    publish(&fixture.client, wire::RESULT, "first", Payload::JobResult(late)).await;
    until("the late result is refused", async || fixture.counts.results_refused.get() == refused + 1).await;
    assert_eq!(output(&fixture.run(&acme(), run).await), output(&ended));
}
