//! The runbook of idempotent starts: a key that was refused at the cap must be as good as new.

use std::time::{Duration, Instant};

use interlock_api::client::{Client, Error, Result};
use interlock_api::jobs::{ClaimRequest, CompleteRequest};
use interlock_api::runs::StartedRun;
use interlock_model::{RunId, WorkerId};
use serde_json::json;

use super::{Stage, WORKFLOW, limit_runs};
use crate::contention::report::StepReport;

const KEY: &str = "retry-after-limit";

/// How long the blocking run may take to end once its job is done.
const END_LIMIT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);
const CLAIM_WAIT_MS: u64 = 5_000;

const ACTIONS: [(&str, &str); 8] = [
    ("set max_concurrent_runs to 1", "in force"),
    ("start a run that fills the cap", "200"),
    ("start another with an Idempotency-Key", "an answer"),
    ("look at its status", "429 max_concurrent_runs"),
    ("complete the blocking run", "succeeded"),
    ("start again with the same key", "an answer"),
    ("look at its status and run", "200, a new run"),
    ("look up whom the key belongs to", "the new run"),
];

/// The steps as they come.
#[derive(Default)]
struct Book(Vec<StepReport>);

impl Book {
    fn note(&mut self, ok: bool, seen: impl Into<String>) {
        let (action, expected) = ACTIONS[self.0.len().min(ACTIONS.len() - 1)];
        let number = u32::try_from(self.0.len() + 1).unwrap_or(u32::MAX);
        self.0.push(StepReport { number, action, expected: expected.to_owned(), seen: seen.into(), ok });
    }
}

impl Stage {
    pub(super) async fn steps(&self) -> Result<Vec<StepReport>> {
        let client = self.client(&self.tenant)?;
        self.save_workflow(&client, false).await?;
        let mut book = Book::default();
        limit_runs(&client, &self.tenant, Some(1)).await?;
        let limit = client.effective_config(None).await?.data.limits.max_concurrent_runs;
        book.note(limit == Some(1), limit.map_or("no limit".to_owned(), |limit| format!("limit {limit}")));

        let blocking = client.start_run(WORKFLOW, &json!({}), None).await;
        book.note(blocking.is_ok(), status(&blocking));

        let input = json!({"order": self.seed.number()});
        let refused = client.start_run(WORKFLOW, &input, Some(KEY)).await;
        book.note(!matches!(refused, Err(Error::Unreachable { .. })), answered(&refused));
        let is_full = matches!(&refused, Err(Error::Problem(problem)) if problem.status == 429);
        book.note(is_full, status(&refused));

        let ended = complete(&client, blocking.as_ref().ok().map(|run| run.run_id)).await?;
        book.note(ended == "succeeded", ended);

        let again = client.start_run(WORKFLOW, &input, Some(KEY)).await;
        book.note(!matches!(again, Err(Error::Unreachable { .. })), answered(&again));
        let is_new = matches!(&again, Ok(run) if !run.replayed);
        book.note(is_new, status(&again));

        let (is_mapped, seen) = look_up(&client, &input, again.ok().map(|run| run.run_id)).await?;
        book.note(is_mapped, seen);
        Ok(book.0)
    }
}

fn answered<T>(answer: &Result<T>) -> String {
    match answer {
        Err(Error::Unreachable { reason, .. }) => format!("no answer: {reason}"),
        Ok(_) | Err(Error::Problem(_) | Error::Malformed { .. } | Error::Settings(_)) => {
            "an answer".to_owned()
        }
    }
}

fn status(answer: &Result<StartedRun>) -> String {
    match answer {
        Ok(run) if run.replayed => format!("200, replayed {}", run.run_id),
        Ok(run) => format!("200, run {}", run.run_id),
        Err(Error::Problem(problem)) => format!("{} {}", problem.status, problem.code.name()),
        Err(error) => error.to_string(),
    }
}

/// Does the job of the run, and tells how the run has ended.
async fn complete(client: &Client, run: Option<RunId>) -> Result<String> {
    let Some(run) = run else { return Ok("there is no run to complete".to_owned()) };
    let worker: WorkerId = "lab-0".parse().expect("letters make a worker's name");
    let request = ClaimRequest {
        topics: vec![WORKFLOW.parse().expect("letters make a topic")],
        max_jobs: 1,
        wait_ms: CLAIM_WAIT_MS,
        lease_ms: None,
        capabilities: Vec::new(),
    };
    for job in client.claim(&worker, &request).await?.jobs {
        client.complete(&job.job_id, &CompleteRequest { fence: job.fence, output: json!({}) }).await?;
    }
    let until = Instant::now() + END_LIMIT;
    loop {
        let status = client.run(&run.to_string()).await?.status;
        if status.is_final() || Instant::now() >= until {
            return Ok(status.name().to_owned());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether the key leads to the run, and the run to the key.
async fn look_up(client: &Client, input: &serde_json::Value, run: Option<RunId>) -> Result<(bool, String)> {
    let Some(run) = run else { return Ok((false, "there is no new run".to_owned())) };
    let replay = client.start_run(WORKFLOW, input, Some(KEY)).await;
    let key = client.run(&run.to_string()).await?.idempotency_key.map(|key| key.to_string());
    let leads_there = matches!(&replay, Ok(found) if found.run_id == run && found.replayed);
    Ok((leads_there && key.as_deref() == Some(KEY), status(&replay)))
}
