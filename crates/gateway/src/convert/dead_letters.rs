//! Dead letters.

use interlock_api::dead_letters::DeadLetterView;
use interlock_backend::dead_letters::DeadLetterRetry;
use interlock_model::JobId;
use interlock_model::dead_letter::DeadLetter;
use interlock_model::job::JobOutcome;
use serde_json::{Value, json};

/// As lists show it: without what may be long.
pub(crate) fn summary(letter: DeadLetter) -> DeadLetterView {
    view(DeadLetter { result: None, ..letter })
}

pub(crate) fn view(letter: DeadLetter) -> DeadLetterView {
    let DeadLetter { job, topic, code, reason, attempts, last_error, buried_at, result } = letter;
    DeadLetterView {
        run_id: job.run,
        job_id: job,
        topic,
        reason,
        reason_code: code.name().to_owned(),
        attempts,
        last_error,
        created_at: buried_at.into(),
        result: result.and_then(said),
        how_to_retry: None,
    }
}

/// What an operator can do for another attempt.
pub(crate) fn how_to_retry(job: &JobId, retry: DeadLetterRetry) -> String {
    match retry {
        DeadLetterRetry::Posted => format!("interlock dlq retry '{job}'"),
        DeadLetterRetry::RunEnded => format!(
            "the run has ended: interlock run rerun {} (with --from-step {}, what came before is kept)",
            job.run, job.step.step
        ),
        DeadLetterRetry::RunGone => "the run is deleted: start another".to_owned(),
    }
}

/// What the worker had said, as it had said it.
fn said(result: JobOutcome) -> Option<Value> {
    match result {
        JobOutcome::Completed { output } => Some(json!({"output": output})),
        JobOutcome::Failed { error, retryable } => Some(json!({"error": error, "retryable": retryable})),
        JobOutcome::Lost | JobOutcome::Cancelled { .. } | JobOutcome::Denied { .. } => None,
    }
}
