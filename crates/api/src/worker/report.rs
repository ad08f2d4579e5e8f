//! Reporting a result: again and again while the gateway cannot be reached, because the same report twice is one.

use std::time::Duration;

use interlock_model::JobId;
use tokio::time::Instant;

use super::{Outcome, jitter};
use crate::Code;
use crate::client::{Client, Error, Result};
use crate::jobs::{CompleteRequest, FailRequest};

/// An error text is for people; a longer one helps nobody.
const ERROR_CHARS_MAX: usize = 16 * 1024;

pub(super) async fn report(
    client: &Client,
    job: &JobId,
    fence: u64,
    outcome: &Outcome,
    patience: Duration,
) -> Result<()> {
    let until = Instant::now() + patience;
    let mut failures = 0;
    loop {
        let Err(error) = once(client, job, fence, outcome).await else { return Ok(()) };
        failures += 1;
        let wait = error.retry_after().unwrap_or_else(|| jitter(failures));
        if !error.is_passing() || Instant::now() + wait > until {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
    }
}

async fn once(client: &Client, job: &JobId, fence: u64, outcome: &Outcome) -> Result<()> {
    match outcome {
        Outcome::Completed { output } => {
            let request = CompleteRequest { fence, output: output.clone() };
            match client.complete(job, &request).await {
                // It would be refused each time it is tried: the step must hear of it now, not when the lease ends.
                Err(error) if is_unfit(&error) => {
                    let text = format!("the output was refused: {error}");
                    client.fail(job, &failure(fence, &text, false)).await
                }
                answer => answer,
            }
        }
        Outcome::Failed { error, retryable } => client.fail(job, &failure(fence, error, *retryable)).await,
    }
}

fn is_unfit(error: &Error) -> bool {
    matches!(error.code(), Some(Code::PayloadTooLarge | Code::InvalidRequest))
}

fn failure(fence: u64, error: &str, retryable: bool) -> FailRequest {
    FailRequest { fence, error: error.chars().take(ERROR_CHARS_MAX).collect(), retryable }
}
