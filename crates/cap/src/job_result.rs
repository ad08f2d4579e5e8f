//! One result: what it says, and whether it counts.

use std::time::Duration;

use interlock_control::results::{Delivered, Delivery};
use interlock_model::JobId;
use interlock_model::budget::JobUsage;
use interlock_model::dead_letter::{DeadLetter, LetterCode};
use interlock_model::job::{EndCause, JobOutcome};
use interlock_model::json_text;
use interlock_model::scheduling::Edge;
use serde_json::Value;

use crate::edge::Shared;
use crate::lease_check::{NamedJob, Rejection};
use crate::usage;
use crate::wire::{self, JobResult, JobStatus, Payload};

/// The deepest output, in levels of arrays and objects, as over HTTP.
const NESTING_MAX: usize = 64;

/// The longest wait for another attempt that a worker may ask for, as over HTTP: a day.
const RETRY_AFTER_MS_MAX: u64 = 86_400_000;

/// The longest error of a worker, in characters.
pub(crate) const ERROR_MAX: usize = 4_096;

/// The longest pointer in an error, in characters.
const POINTER_MAX: usize = 256;

/// How a result ends its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The output is at the result's pointer.
    Succeeded,
    Failed {
        retryable: bool,
    },
}

/// Which delivery of a result this is, and how long ago the first was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) attempt: u32,
    pub(crate) waited: Duration,
}

/// Puts a result into the store, if it counts. NATS must not be acknowledged before this has returned.
pub(crate) async fn record(shared: &Shared, result: &JobResult, arrival: Arrival) -> Result<(), Rejection> {
    let found = NamedJob::find(shared, &result.job_id).await;
    let Some(ending) = ending(result.status()) else {
        if let Ok(job) = found {
            job.confirm(shared, &result.worker_id, result.dispatch.as_ref()).await;
        }
        return Err(Rejection::Recorded);
    };
    let job = found?;
    let recorded = record_end(shared, &job, result, (ending, arrival)).await;
    if matches!(recorded, Err(Rejection::NotNow(_) | Rejection::Busy(_))) {
        // Its lease must last until another delivery.
        job.confirm(shared, &result.worker_id, result.dispatch.as_ref()).await;
    }
    recorded
}

async fn record_end(
    shared: &Shared,
    job: &NamedJob,
    result: &JobResult,
    (ending, arrival): (Ending, Arrival),
) -> Result<(), Rejection> {
    let cause = match ending {
        Ending::Succeeded => EndCause::Completed,
        Ending::Failed { .. } => EndCause::Failed,
    };
    if let Some(end) = job.end_by(&result.worker_id, cause) {
        return match outcome(shared, job, result, ending).await {
            Ok(other) if !end.is_of(&other) => {
                Err(Rejection::Refused(format!("job {} has ended with another result", job.id)))
            }
            // Also if the output is not there any more: then it was read before.
            Ok(_) | Err(_) => Err(Rejection::Recorded),
        };
    }
    let fence = job.fence_of(&result.worker_id, result.dispatch.as_ref())?;
    let outcome = outcome(shared, job, result, ending).await?;
    let Arrival { attempt, waited } = arrival;
    let edge = Some(Edge::Nats);
    let (tenant, job) = (job.tenant.clone(), job.id.clone());
    let delivery = Delivery { tenant, job, fence, edge, outcome, attempt, waited };
    match shared.control.results.deliver(&delivery).await? {
        Delivered::Recorded | Delivered::AlreadyRecorded => Ok(()),
        Delivered::Busy => Err(Rejection::Busy(delivery.job)),
    }
}

async fn outcome(
    shared: &Shared,
    job: &NamedJob,
    result: &JobResult,
    ending: Ending,
) -> Result<JobOutcome, Rejection> {
    let spends = job.view.job.new.budget.is_some();
    let mut output = match ending {
        Ending::Succeeded => output(shared, &job.id, &result.result_ptr).await?,
        // It only says what was spent, and the failure counts without it.
        Ending::Failed { .. } if spends => {
            output(shared, &job.id, &result.result_ptr).await.unwrap_or(Value::Null)
        }
        Ending::Failed { .. } => Value::Null,
    };
    let usage = if spends { usage::take(&mut output) } else { Ok(JobUsage::new()) };
    let usage = usage.map_err(|error| {
        let shown = wire::shortened(&result.result_ptr, POINTER_MAX);
        Rejection::NotNow(format!("what is at {shown} is not accepted: {error}"))
    })?;
    Ok(match ending {
        Ending::Succeeded => JobOutcome::completed(output),
        Ending::Failed { retryable } => {
            JobOutcome::failed(error_of(result), retryable).retried_after(retry_after_ms(result))
        }
    }
    .with_usage(usage))
}

/// Makes the result a dead letter and ends its job, after the last delivery. Must be retried after an error.
pub(crate) async fn bury(
    shared: &Shared,
    result: &JobResult,
    deliveries: u32,
    reason: &str,
) -> Result<(), Rejection> {
    let job = NamedJob::find(shared, &result.job_id).await?;
    let letter = DeadLetter {
        job: job.id.clone(),
        topic: Some(job.view.job.new.topic.clone()),
        code: LetterCode::ResultUnhandled,
        reason: format!("the result of worker {} could not be handled", result.worker_id),
        attempts: deliveries,
        last_error: Some(reason.to_owned()),
        buried_at: shared.control.process.now(),
        // It stays where the worker has put it.
        result: None,
    };
    shared.control.dead_letters.add(&job.tenant, &letter).await?;
    shared.counts.results_buried.up();
    let NamedJob { tenant, id, .. } = &job;
    tracing::warn!(%tenant, run = %id.run, job = %id, deliveries, reason, "a result became a dead letter");
    announce_letter(shared, id, result).await;
    // If the job has ended meanwhile, the dead letter is all that is left to do.
    let Ok(fence) = job.fence_of(&result.worker_id, result.dispatch.as_ref()) else { return Ok(()) };
    let error = format!("the result could not be handled in {deliveries} deliveries: {reason}");
    let failed = JobOutcome::failed(error, true);
    match shared
        .control
        .results
        .report(tenant, id, (fence, Some(Edge::Nats)), failed)
        .await
        .map_err(Rejection::from)
    {
        Ok(_) | Err(Rejection::Refused(_)) => Ok(()),
        Err(unknown) => Err(unknown),
    }
}

/// Publishes the result for programs that listen for dead letters. The letter itself is in the store.
async fn announce_letter(shared: &Shared, job: &JobId, result: &JobResult) {
    let now = shared.control.process.now();
    let packet = wire::write(&job.run.to_string(), now, Payload::JobResult(result.clone()));
    if let Err(error) = shared.client.publish(wire::DEAD_LETTERS, packet).await {
        tracing::warn!(run = %job.run, %job, %error, "a dead letter was not published");
    }
}

/// The result in a packet.
pub(crate) fn read(payload: &[u8]) -> Result<JobResult, Rejection> {
    let received = wire::read(payload)?;
    let Payload::JobResult(result) = received.payload else {
        return Err(Rejection::Unreadable("the packet is not a result".to_owned()));
    };
    wire::same_name(&received.sender, &result.worker_id)?;
    Ok(result)
}

/// How a result with this status ends its job; none if it does not.
pub(crate) fn ending(status: JobStatus) -> Option<Ending> {
    match status {
        JobStatus::Succeeded => Some(Ending::Succeeded),
        JobStatus::Failed | JobStatus::Timeout | JobStatus::FailedRetryable => {
            Some(Ending::Failed { retryable: true })
        }
        JobStatus::FailedFatal | JobStatus::Denied | JobStatus::Cancelled => {
            Some(Ending::Failed { retryable: false })
        }
        JobStatus::Unspecified
        | JobStatus::Pending
        | JobStatus::Scheduled
        | JobStatus::Dispatched
        | JobStatus::Running => None,
    }
}

pub(crate) fn error_of(result: &JobResult) -> String {
    let parts = [result.error_code.as_str(), result.error_message.as_str()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        return format!("the worker gave no reason ({})", result.status().as_str_name());
    }
    wire::shortened(&parts.join(": "), ERROR_MAX)
}

/// When another attempt may help: the protocol has no field for it, so a worker writes `retry_after_ms=5000` as a word of
/// its error.
fn retry_after_ms(result: &JobResult) -> Option<u64> {
    let mut words = result.error_code.split_whitespace().chain(result.error_message.split_whitespace());
    let value = |word: &str| word.strip_prefix("retry_after_ms=")?.parse().ok();
    words.find_map(value).filter(|wait| *wait <= RETRY_AFTER_MS_MAX)
}

/// The output at the pointer. Whatever is wrong with it, the worker may still correct it.
async fn output(shared: &Shared, job: &JobId, pointer: &str) -> Result<Value, Rejection> {
    if pointer.is_empty() {
        return Ok(Value::Null);
    }
    let found = shared.mailbox.result(job, pointer).await;
    let found = found.map_err(|error| Rejection::NotNow(error.to_string()))?;
    let shown = wire::shortened(pointer, POINTER_MAX);
    let bytes = found.ok_or_else(|| Rejection::NotNow(format!("there is nothing at {shown}")))?;
    json_text::check(&bytes, NESTING_MAX)
        .map_err(|refused| Rejection::NotNow(format!("what is at {shown} is not accepted: {refused}")))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Rejection::NotNow(format!("what is at {shown} is not JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(status: JobStatus, message: &str) -> JobResult {
        JobResult { status: status.into(), error_message: message.to_owned(), ..JobResult::default() }
    }

    #[test]
    fn a_failure_may_say_when_to_try_again() {
        let asked = |message| retry_after_ms(&result(JobStatus::FailedRetryable, message));
        assert_eq!(asked("429 from the model: retry_after_ms=5000"), Some(5_000));
        assert_eq!(asked("retry_after_ms=0"), Some(0));
        for message in ["", "429", "retry_after_ms=soon", "retry_after_ms=-1", "retry_after_ms=86400001"] {
            assert_eq!(asked(message), None, "{message}");
        }
    }

    #[test]
    fn every_status_ends_the_job_or_does_not() {
        for status in [JobStatus::Failed, JobStatus::Timeout, JobStatus::FailedRetryable] {
            assert_eq!(ending(status), Some(Ending::Failed { retryable: true }), "{status:?}");
        }
        for status in [JobStatus::FailedFatal, JobStatus::Denied, JobStatus::Cancelled] {
            assert_eq!(ending(status), Some(Ending::Failed { retryable: false }), "{status:?}");
        }
        assert_eq!(ending(JobStatus::Succeeded), Some(Ending::Succeeded));
        for status in [JobStatus::Unspecified, JobStatus::Pending, JobStatus::Running, JobStatus::Dispatched]
        {
            assert_eq!(ending(status), None, "{status:?}");
        }
        assert_eq!(ending(JobResult { status: 99, ..JobResult::default() }.status()), None);
    }

    #[test]
    fn a_failure_without_a_reason_says_so() {
        assert_eq!(
            error_of(&result(JobStatus::Timeout, "")),
            "the worker gave no reason (JOB_STATUS_TIMEOUT)"
        );
        assert_eq!(error_of(&result(JobStatus::Failed, "boom")), "boom");
        assert_eq!(error_of(&result(JobStatus::Failed, &"x".repeat(9_000))).len(), ERROR_MAX);
    }
}
