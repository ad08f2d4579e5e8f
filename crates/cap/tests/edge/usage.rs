//! What NATS workers have spent, which their outputs say.

use interlock_backend::budgets::BudgetView;
use interlock_backend::verbs::ReadBudget;
use interlock_cap::wire::{JobRequest, JobResult, JobStatus};
use interlock_model::budget::{BudgetDocument, OnExhausted, Period};
use interlock_model::run::RunStatus;
use interlock_poll::until;
use interlock_servers::NatsRelease;
use serde_json::{Value, json};

use crate::fixture::{Fixture, acme, fast, output};
use crate::worker::{Worker, WorkerOptions};

crate::on_both_releases!(
    a_result_settles_with_the_usage_in_its_output,
    a_failure_settles_too,
    a_result_whose_usage_cannot_be_read_waits_for_another,
    the_output_of_a_step_without_a_budget_stays_as_it_is,
);

/// With a budget of 1, of which the step reserves 0.05.
async fn funded(release: NatsRelease) -> (Fixture, Worker) {
    let fixture = Fixture::open(release, fast()).await;
    let worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    let document = BudgetDocument {
        unit: "usd".to_owned(),
        amount: "1".parse().unwrap(),
        per: Period::Total,
        timezone: None,
        key: None,
        warn_at: Vec::new(),
        on_exhausted: OnExhausted::Deny,
    };
    let _ = fixture.control.budgets.save((acme(), "llm".parse().unwrap()), document, None).await.unwrap();
    fixture.save(&acme(), json!({"budget": {"name": "llm", "reserve": "0.05"}})).await;
    (fixture, worker)
}

/// Spent, reserved and unsettled.
async fn counted(fixture: &Fixture) -> [String; 3] {
    let read = ReadBudget { tenant: acme(), name: "llm".parse().unwrap() };
    let found = fixture.control.process.reader().call(read).await.unwrap();
    let BudgetView { total, .. } = found.expect("there is the budget");
    [total.spent, total.reserved, total.unsettled].map(|amount| amount.to_string())
}

async fn a_result_settles_with_the_usage_in_its_output(release: NatsRelease) {
    let (fixture, mut worker) = funded(release).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    assert_eq!(counted(&fixture).await, ["0", "0.05", "0"]);
    let said = json!({"answer": 42, "interlock_usage": {"llm": "0.031", "other": "7"}});
    worker.succeed(&fixture, &job, &said).await;
    let run = fixture.ended(&acme(), run).await;
    assert_eq!((run.head.status, output(&run)), (RunStatus::Succeeded, json!({"answer": 42})));
    assert_eq!(counted(&fixture).await, ["0.031", "0", "0"]);
}

/// Stores the output of a failure, which says what was spent.
async fn fail(fixture: &Fixture, worker: &Worker, job: &JobRequest, said: &Value) {
    let key = format!("res:{}", job.job_id);
    fixture.redis.command(&["SET", &key, &said.to_string()]).await.unwrap();
    let result_ptr = format!("redis://{key}");
    worker.report(JobResult { result_ptr, ..worker.result(job, JobStatus::FailedFatal) }).await;
}

async fn a_failure_settles_too(release: NatsRelease) {
    let (fixture, mut worker) = funded(release).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    fail(&fixture, &worker, &job, &json!({"interlock_usage": {"llm": "0.02"}})).await;
    assert_eq!(fixture.ended(&acme(), run).await.head.status, RunStatus::Failed);
    assert_eq!(counted(&fixture).await, ["0.02", "0", "0"]);

    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    worker.fail(&job, JobStatus::FailedFatal).await;
    assert_eq!(fixture.ended(&acme(), run).await.head.status, RunStatus::Failed);
    assert_eq!(counted(&fixture).await, ["0.02", "0", "0.05"], "it does not say what it spent");
}

async fn a_result_whose_usage_cannot_be_read_waits_for_another(release: NatsRelease) {
    let (fixture, mut worker) = funded(release).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    worker.succeed(&fixture, &job, &json!({"interlock_usage": {"llm": "-1"}})).await;
    until("the result is delivered again", async || fixture.mailbox.readings().len() > 2).await;
    assert_eq!(counted(&fixture).await, ["0", "0.05", "0"]);
    worker.succeed(&fixture, &job, &json!({"interlock_usage": {"llm": "0.01"}})).await;
    assert_eq!(fixture.ended(&acme(), run).await.head.status, RunStatus::Succeeded);
    assert_eq!(counted(&fixture).await, ["0.01", "0", "0"]);
}

async fn the_output_of_a_step_without_a_budget_stays_as_it_is(release: NatsRelease) {
    let fixture = Fixture::open(release, fast()).await;
    let mut worker = Worker::join(&fixture, "w1", WorkerOptions::default()).await;
    fixture.save(&acme(), json!({})).await;
    let run = fixture.start(&acme()).await;
    let job = worker.next_job().await;
    let said = json!({"interlock_usage": "mine"});
    worker.succeed(&fixture, &job, &said).await;
    assert_eq!(output(&fixture.ended(&acme(), run).await), said);
}
