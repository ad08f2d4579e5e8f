//! The runbook of idempotent starts: a key that was refused at the cap must be usable again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use interlock_api::client::{Client, Error, Result};
use interlock_api::jobs::CompleteRequest;
use interlock_api::limits::EffectiveConfigQuery;
use interlock_api::runs::StartedRun;
use interlock_model::RunId;
use serde_json::{Value, json};

use super::{LoadGenerator, WORKFLOW, claim, limit_runs, save_workflow};
use crate::contention::report::StepReport;

const KEY: &str = "retry-after-limit";

/// How long the blocking run may take to end after its job is complete.
const END_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);
const CLAIM_WAIT_MS: u64 = 5_000;

#[derive(Default)]
struct Runbook(Vec<StepReport>);

impl Runbook {
    fn add(&mut self, action: &'static str, expected: &'static str, ok: bool, seen: impl Into<String>) {
        self.0.push(StepReport { number: self.0.len() + 1, action, expected, seen: seen.into(), ok });
    }
}

impl LoadGenerator {
    pub(super) async fn runbook(&self) -> Result<Vec<StepReport>> {
        let client = self.client(&self.tenant)?;
        save_workflow(&client, false).await?;
        let mut book = Runbook::default();
        limit_runs(&client, &self.tenant, Some(1)).await?;
        let config = client.effective_config(&EffectiveConfigQuery::default()).await?;
        let limit = config.data.limits.max_concurrent_runs;
        let seen = limit.map_or("no limit".to_owned(), |limit| format!("limit {limit}"));
        book.add("set max_concurrent_runs to 1", "in force", limit == Some(1), seen);

        let blocking = client.start_run(WORKFLOW, &json!({}), None).await;
        book.add("start a run that fills the cap", "200", blocking.is_ok(), status(&blocking));

        let input = json!({"order": self.seed.number()});
        let refused = client.start_run(WORKFLOW, &input, Some(KEY)).await;
        let (ok, seen) = response(&refused);
        book.add("start another with an Idempotency-Key", "a response", ok, seen);
        let is_full = matches!(&refused, Err(Error::Problem(problem)) if problem.status == 429);
        book.add("check its status", "429 max_concurrent_runs", is_full, status(&refused));

        let ended = complete(&client, blocking.ok().map(|run| run.run_id)).await?;
        book.add("complete the blocking run", "succeeded", ended == "succeeded", ended);

        let again = client.start_run(WORKFLOW, &input, Some(KEY)).await;
        let (ok, seen) = response(&again);
        book.add("start again with the same key", "a response", ok, seen);
        let is_new = matches!(&again, Ok(run) if !run.replayed);
        book.add("check its status and run", "200, a new run", is_new, status(&again));

        let (ok, seen) = look_up(&client, &input, again.ok().map(|run| run.run_id)).await?;
        book.add("look up the run of the key", "the new run", ok, seen);
        Ok(book.0)
    }
}

fn response<T>(result: &Result<T>) -> (bool, String) {
    match result {
        Err(Error::Unreachable { reason, .. }) => (false, format!("no response: {reason}")),
        Ok(_) | Err(Error::Problem(_) | Error::Malformed { .. } | Error::Settings(_)) => {
            (true, "a response".to_owned())
        }
    }
}

fn status(result: &Result<StartedRun>) -> String {
    match result {
        Ok(run) if run.replayed => format!("200, replayed {}", run.run_id),
        Ok(run) => format!("200, run {}", run.run_id),
        Err(Error::Problem(problem)) => format!("{} {}", problem.status, problem.code.name()),
        Err(error) => error.to_string(),
    }
}

/// Completes the job of the run and returns the run's final status.
async fn complete(client: &Client, run: Option<RunId>) -> Result<String> {
    let Some(run) = run else { return Ok("no run to complete".to_owned()) };
    for job in claim(client, 0, 1, CLAIM_WAIT_MS, None).await? {
        client
            .complete(
                &job.job_id,
                &CompleteRequest { fence: job.fence, output: json!({}), usage: BTreeMap::new() },
            )
            .await?;
    }
    let until = Instant::now() + END_LIMIT;
    loop {
        let status = client.run(&run.to_string()).await?.summary.status;
        if status.is_final() || Instant::now() >= until {
            return Ok(status.name().to_owned());
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Whether the key leads to the run, and the run to the key.
async fn look_up(client: &Client, input: &Value, run: Option<RunId>) -> Result<(bool, String)> {
    let Some(run) = run else { return Ok((false, "no new run".to_owned())) };
    let replay = client.start_run(WORKFLOW, input, Some(KEY)).await;
    let key = client.run(&run.to_string()).await?.summary.idempotency_key;
    let is_replay = matches!(&replay, Ok(found) if found.run_id == run && found.replayed);
    Ok((is_replay && key.is_some_and(|key| key.as_str() == KEY), status(&replay)))
}
