//! Results of workers.

use interlock_backend::verbs::{ListDeadLetters, ReadTimeline};
use std::time::Duration;

use futures_util::StreamExt as _;
use interlock_backend::PageRequest;
use interlock_backend::jobs::{Claim, LeaseTerm};
use interlock_cap::CapSettings;
use interlock_cap::streams::{RESULTS_CONSUMER, SYSTEM_STREAM};
use interlock_cap::wire::{self, BusPacket, DispatchIdentity, JobRequest, JobResult, JobStatus, Payload};
use interlock_model::dead_letter::{DeadLetter, LetterCode};
use interlock_model::history::EventKind;
use interlock_model::job::JobOutcome;
use interlock_model::run::RunStatus;
use interlock_model::scheduling::Edge;
use interlock_model::{RunId, Timestamp};
use interlock_poll::{LIMIT, until};
use interlock_servers::NatsRelease;
use prost::Message as _;
use serde_json::json;
use tokio::time::timeout;

use crate::fixture::{Fixture, TOPIC, acme, fast, output};
use crate::worker::{Worker, WorkerOptions};

crate::on_both_releases!(
    a_job_ends_with_its_output,
    a_job_without_an_output_ends_with_null,
    an_unhandled_result_becomes_a_dead_letter_after_the_configured_deliveries,
    an_unhandled_result_is_delivered_a_hundred_times_by_default,
    a_result_that_arrives_before_its_output_waits_for_it,
    a_result_of_an_older_attempt_is_refused,
    a_result_of_another_worker_is_refused,
    a_result_that_echoes_another_fence_is_refused,
    a_result_of_a_job_that_an_http_worker_holds_is_refused,
    a_result_elsewhere_is_not_read,
    a_second_result_with_another_output_is_refused,
    a_fatal_failure_is_not_retried,
    an_unreadable_result_is_acknowledged_and_counted,
    progress_is_in_the_timeline,
);

async fn a_job_ends_with_its_output(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({"input": {"n": 20}, "timeout_sec": 60})).await;
    let run = fixture.start(&acme()).await;

    let job = worker.next_job().await;
    assert_eq!(job.job_id, format!("{run}:work@1"));
    assert_eq!(job.context_ptr, format!("redis://ctx:{}", job.job_id));
    assert_eq!((job.tenant_id.as_str(), job.workflow_id.as_str()), ("acme", "flow"));
    assert_eq!(job.labels["run_id"], run.to_string());
    assert!((1..=60_000).contains(&job.budget.unwrap().deadline_ms));
    let input = fixture.redis.command(&["GET", &format!("ctx:{}", job.job_id)]).await.unwrap();
    assert_eq!(input, r#"{"n":20}"#);
    worker.succeed(&fixture, &job, &json!({"answer": 42})).await;

    let run = fixture.ended(&acme(), run).await;
    assert_eq!((run.head.status, output(&run)), (RunStatus::Succeeded, json!({"answer": 42})));
    until("the result is acknowledged", async || unacknowledged(&fixture).await == 0).await;
    assert_eq!(fixture.counts.results_recorded.get(), 1);
}

async fn a_job_without_an_output_ends_with_null(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    worker.report(worker.result(&job, JobStatus::Running)).await;
    worker.report(worker.result(&job, JobStatus::Succeeded)).await;
    let run = fixture.ended(&acme(), run).await;
    assert_eq!((run.head.status, output(&run)), (RunStatus::Succeeded, json!(null)));
}

/// The number of results that are not acknowledged.
async fn unacknowledged(fixture: &Fixture) -> u64 {
    let context = async_nats::jetstream::new(fixture.client.clone());
    let consumer: async_nats::jetstream::consumer::PullConsumer =
        context.get_consumer_from_stream(RESULTS_CONSUMER, SYSTEM_STREAM).await.unwrap();
    let info = consumer.cached_info();
    info.num_pending + u64::try_from(info.num_ack_pending).unwrap()
}

async fn letters(fixture: &Fixture) -> Vec<DeadLetter> {
    let page = PageRequest { limit: 10, after: None };
    fixture
        .control
        .process
        .reader()
        .call(ListDeadLetters { tenant: acme(), page: page.clone() })
        .await
        .unwrap()
        .items
}

/// Reports a result without output until it is given up. Returns the dead letter and the times between deliveries.
async fn give_up(release: NatsRelease, settings: CapSettings) -> (DeadLetter, Vec<Duration>) {
    let fixture = Fixture::open(release, settings).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    let result_ptr = format!("redis://res:{}", job.job_id);
    let mut published = fixture.client.subscribe(wire::DEAD_LETTERS).await.unwrap();
    fixture.client.flush().await.unwrap();
    worker.report(JobResult { result_ptr, ..worker.result(&job, JobStatus::Succeeded) }).await;

    let letter = until("a dead letter", async || letters(&fixture).await.into_iter().next()).await;
    // The step has no retries, so the run fails.
    let run = fixture.ended(&acme(), run).await;
    assert_eq!(run.head.status, RunStatus::Failed);
    assert_eq!(letter.job.to_string(), job.job_id);
    let packet = timeout(LIMIT, published.next()).await.expect("the letter is published").unwrap();
    let packet = BusPacket::decode(&*packet.payload).unwrap();
    assert!(matches!(packet.payload, Some(Payload::JobResult(result)) if result.job_id == job.job_id));
    until("the result is acknowledged", async || unacknowledged(&fixture).await == 0).await;
    assert_eq!((letters(&fixture).await.len(), fixture.counts.results_buried.get()), (1, 1));
    let readings = fixture.mailbox.readings();
    (letter, readings.windows(2).map(|pair| pair[1] - pair[0]).collect())
}

async fn an_unhandled_result_becomes_a_dead_letter_after_the_configured_deliveries(release: NatsRelease) {
    let redelivery_delay = Duration::from_millis(200);
    let (letter, between) =
        give_up(release, CapSettings { max_deliver: 5, redelivery_delay, ..fast() }).await;
    assert_eq!((letter.code, letter.attempts, between.len()), (LetterCode::ResultUnhandled, 5, 4));
    assert!(between.iter().all(|time| *time >= redelivery_delay), "{between:?}");
    assert!(letter.last_error.unwrap().contains("there is nothing at"));
}

async fn an_unhandled_result_is_delivered_a_hundred_times_by_default(release: NatsRelease) {
    let redelivery_delay = Duration::from_millis(5);
    let (letter, between) = give_up(release, CapSettings { redelivery_delay, ..fast() }).await;
    assert_eq!((letter.attempts, between.len()), (100, 99));
    assert!(between.iter().all(|time| *time >= redelivery_delay), "{between:?}");
}

async fn a_result_that_arrives_before_its_output_waits_for_it(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    let key = format!("res:{}", job.job_id);
    fixture.redis.command(&["SET", &key, "{half"]).await.unwrap();
    let result_ptr = format!("redis://{key}");
    worker.report(JobResult { result_ptr, ..worker.result(&job, JobStatus::Succeeded) }).await;
    until("the result is deferred", async || fixture.counts.results_deferred.get() > 1).await;
    fixture.redis.command(&["SET", &key, "[1]"]).await.unwrap();
    let run = fixture.ended(&acme(), run).await;
    assert_eq!((run.head.status, output(&run)), (RunStatus::Succeeded, json!([1])));
}

async fn a_result_of_an_older_attempt_is_refused(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({"retry": {"max_retries": 1, "initial_backoff_sec": 0}})).await;
    let run = fixture.start(&acme()).await;
    let first = worker.next_job().await;
    worker.fail(&first, JobStatus::Failed).await;
    let second = worker.next_job().await;
    assert_eq!(second.job_id, format!("{run}:work@2"));

    worker.succeed(&fixture, &first, &json!("late")).await;
    until("the late result is refused", async || fixture.counts.results_refused.get() == 1).await;
    assert!(!fixture.run(&acme(), run).await.head.status.is_final());

    worker.succeed(&fixture, &second, &json!("right")).await;
    let run = fixture.ended(&acme(), run).await;
    assert_eq!((run.head.status, output(&run)), (RunStatus::Succeeded, json!("right")));
}

async fn a_result_of_another_worker_is_refused(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let mut worker = Worker::join(&fixture, "holder", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    let other = Worker::join(&fixture, "other", WorkerOptions::default()).await;
    other.succeed(&fixture, &job, &json!("stolen")).await;
    until("the other's result is refused", async || fixture.counts.results_refused.get() == 1).await;

    worker.succeed(&fixture, &job, &json!("mine")).await;
    let run = fixture.ended(&acme(), run).await;
    assert_eq!(output(&run), json!("mine"));
}

async fn a_result_that_echoes_another_fence_is_refused(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    let dispatch = job.dispatch.clone().unwrap();
    assert_eq!((dispatch.dispatch_id.as_str(), dispatch.assigned_worker_id.as_str()), (&*job.job_id, "w1"));

    let stale = DispatchIdentity { attempt: dispatch.attempt - 1, ..dispatch.clone() };
    let result = worker.result(&job, JobStatus::Succeeded);
    worker.report(JobResult { dispatch: Some(stale), ..result.clone() }).await;
    until("the stale echo is refused", async || fixture.counts.results_refused.get() == 1).await;
    assert!(!fixture.run(&acme(), run).await.head.status.is_final());

    worker.report(JobResult { dispatch: Some(dispatch), ..result }).await;
    assert_eq!(fixture.ended(&acme(), run).await.head.status, RunStatus::Succeeded);
}

/// The forger has the name of the holder, as anyone on NATS may.
async fn a_result_of_a_job_that_an_http_worker_holds_is_refused(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let claim = Claim {
        tenant: acme(),
        worker: "w1".parse().unwrap(),
        topics: vec![TOPIC.parse().unwrap()],
        capabilities: Vec::new(),
        jobs_max: 1,
        term: LeaseTerm::For(Duration::from_mins(1)),
        edge: Edge::Http,
    };
    let results = &fixture.control.results;
    let held = until("the job waits", async || results.claim_now(claim.clone()).await.unwrap().pop()).await;

    // Twice, because a worker that says hello again has lost its jobs.
    drop(Worker::join(&fixture, "w1", WorkerOptions::default()).await);
    let forger = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    let job = JobRequest { job_id: held.job.id.to_string(), ..JobRequest::default() };
    forger.progress(&job, 50).await;
    forger.succeed(&fixture, &job, &json!("forged")).await;
    until("the forged result is refused", async || fixture.counts.results_refused.get() == 1).await;

    let outcome = JobOutcome::completed(json!("mine"));
    results.submit(&acme(), &held.job.id, held.lease.fence, outcome).await.unwrap();
    let run = fixture.ended(&acme(), run).await;
    assert_eq!(output(&run), json!("mine"));
}

async fn a_result_elsewhere_is_not_read(release: NatsRelease) {
    let fixture = Fixture::open(release, CapSettings { max_deliver: 2, ..fast() }).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    let other = format!("res:{}:work@1", RunId::new(Timestamp::ZERO, [9; 10]));
    fixture.redis.command(&["SET", &other, "\"of another tenant\""]).await.unwrap();
    let result_ptr = format!("redis://{other}");
    worker.report(JobResult { result_ptr, ..worker.result(&job, JobStatus::Succeeded) }).await;
    let letter = until("a dead letter", async || letters(&fixture).await.into_iter().next()).await;
    assert!(letter.last_error.unwrap().contains("does not point to the result of the job"));
    assert_eq!(fixture.ended(&acme(), run).await.head.status, RunStatus::Failed);
}

async fn a_second_result_with_another_output_is_refused(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    worker.succeed(&fixture, &job, &json!("first")).await;
    fixture.ended(&acme(), run).await;
    worker.succeed(&fixture, &job, &json!("first")).await;
    worker.succeed(&fixture, &job, &json!("second")).await;
    until("the second output is refused", async || fixture.counts.results_refused.get() == 1).await;
    until("all are acknowledged", async || unacknowledged(&fixture).await == 0).await;
    assert_eq!((fixture.counts.results_recorded.get(), fixture.counts.results_refused.get()), (1, 1));
    assert_eq!(output(&fixture.run(&acme(), run).await), json!("first"));
}

async fn a_fatal_failure_is_not_retried(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({"retry": {"max_retries": 3, "initial_backoff_sec": 0}})).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    worker.fail(&job, JobStatus::FailedFatal).await;
    let run = fixture.ended(&acme(), run).await;
    assert_eq!(run.head.status, RunStatus::Failed);
    assert_eq!(run.steps[&"work".parse().unwrap()].attempts, 1);
}

async fn an_unreadable_result_is_acknowledged_and_counted(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.client.publish(interlock_cap::wire::RESULT, "\u{ff}nonsense".into()).await.unwrap();
    let nameless =
        JobResult { worker_id: "w1".to_owned(), job_id: "no job".to_owned(), ..JobResult::default() };
    worker.report(JobResult { status: JobStatus::Succeeded.into(), ..nameless }).await;
    until("both are dropped", async || fixture.counts.packets_dropped.get() == 2).await;
    until("both are acknowledged", async || unacknowledged(&fixture).await == 0).await;
}

async fn progress_is_in_the_timeline(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    worker.progress(&job, 101).await;
    worker.progress(&job, 40).await;
    let progress = until("progress in the timeline", async || {
        let timeline = fixture
            .control
            .process
            .reader()
            .call(ReadTimeline { tenant: acme(), run, after: 0, limit: 100 })
            .await
            .unwrap();
        timeline.into_iter().find(|recorded| recorded.event.kind == EventKind::StepProgress)
    })
    .await;
    assert_eq!(
        (progress.event.data, progress.event.message.as_deref()),
        (Some(json!({"percent": 40})), Some("half way"))
    );
}
