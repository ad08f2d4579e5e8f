//! Reporting a result, repeated while the gateway is unreachable: the same report twice counts once.

use std::collections::BTreeMap;
use std::time::Duration;

use interlock_model::JobId;
use tokio::time::Instant;

use super::{HandlerOutcome, jitter};
use crate::Code;
use crate::client::{Client, Error, Result};
use crate::jobs::{CompleteRequest, FailRequest, ReleaseJobRequest};

/// An error text is for people, who read no more than this.
const ERROR_CHARS_MAX: usize = 16 * 1024;

pub(super) async fn report(
    client: &Client,
    job: &JobId,
    fence: u64,
    outcome: &HandlerOutcome,
    patience: Duration,
) -> Result<()> {
    repeated(patience, || once(client, job, fence, outcome)).await
}

/// Hands the job to the next worker.
pub(super) async fn release(client: &Client, job: &JobId, fence: u64, patience: Duration) -> Result<()> {
    let request = ReleaseJobRequest { fence, reason: "the worker stops".to_owned() };
    repeated(patience, || client.release_job(job, &request)).await
}

async fn repeated<F>(patience: Duration, call: impl Fn() -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let until = Instant::now() + patience;
    let mut failures = 0;
    loop {
        let Err(error) = call().await else { return Ok(()) };
        failures += 1;
        let wait = error.retry_after().unwrap_or_else(|| jitter(failures));
        if !error.is_transient() || Instant::now() + wait > until {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
    }
}

async fn once(client: &Client, job: &JobId, fence: u64, outcome: &HandlerOutcome) -> Result<()> {
    match outcome {
        HandlerOutcome::Completed { output } => {
            let request = CompleteRequest { fence, output: output.clone(), usage: BTreeMap::new() };
            match client.complete(job, &request).await {
                // A retry would be rejected as well, so the step fails now instead of at the lease's end.
                Err(error) if is_rejected(&error) => {
                    let text = format!("the output was rejected: {error}");
                    client.fail(job, &failure(fence, &text, false)).await
                }
                answer => answer,
            }
        }
        HandlerOutcome::Failed { error, retryable } => {
            client.fail(job, &failure(fence, error, *retryable)).await
        }
    }
}

fn is_rejected(error: &Error) -> bool {
    matches!(error.code(), Some(Code::PayloadTooLarge | Code::InvalidRequest))
}

fn failure(fence: u64, error: &str, retryable: bool) -> FailRequest {
    let error = error.chars().take(ERROR_CHARS_MAX).collect();
    FailRequest { fence, error, retryable, retry_after_ms: None, usage: BTreeMap::new() }
}
