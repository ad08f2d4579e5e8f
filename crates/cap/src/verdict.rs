//! One result: what it says, and whether it counts.

use std::time::Duration;

use interlock_control::results::{Delivered, Delivery};
use interlock_model::job::JobOutcome;
use serde_json::Value;

use crate::edge::Shared;
use crate::holder::{self, Spoken, Unheld};
use crate::wire::{self, JobResult, JobStatus, Payload};

/// Levels of arrays and objects in an output, as everywhere else.
const NESTING_MAX: usize = 64;

/// What is kept of a worker's words about a failure.
const ERROR_MAX: usize = 4_096;

/// How a result ends its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The output lies at the result's pointer.
    Succeeded,
    Failed {
        error: String,
        retryable: bool,
    },
}

/// Which delivery of a result this is, and how long ago the first was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) attempt: u32,
    pub(crate) waited: Duration,
}

/// Reads a result and puts it into the store, if it counts. Nothing is acknowledged before this has answered.
pub(crate) async fn handle(shared: &Shared, payload: &[u8], arrival: Arrival) -> Result<(), Unheld> {
    let result = read(payload)?;
    let Some(ending) = ending(&result) else {
        // Work that goes on ends nothing.
        return Err(Unheld::Recorded);
    };
    let spoken = holder::find(shared, &result.job_id).await?;
    if spoken.was_ended_by(&result.worker_id, ending.cause()) {
        return Err(Unheld::Recorded);
    }
    let fence = spoken.held_by(&result.worker_id, result.dispatch.as_ref())?;
    let outcome = match ending {
        Ending::Succeeded => JobOutcome::Completed { output: output(shared, &result.result_ptr).await? },
        Ending::Failed { error, retryable } => JobOutcome::Failed { error, retryable },
    };
    let Arrival { attempt, waited } = arrival;
    let Spoken { tenant, id: job, .. } = spoken;
    let delivery = Delivery { tenant, job, fence, outcome, attempt, waited };
    match shared.results.deliver(&delivery).await {
        Ok(Delivered::Recorded | Delivered::AlreadyRecorded) => Ok(()),
        Ok(Delivered::Busy) => Err(Unheld::Busy(delivery.job)),
        Err(error) => Err(Unheld::from_store(&error)),
    }
}

/// The result in a packet.
pub(crate) fn read(payload: &[u8]) -> Result<JobResult, Unheld> {
    let unreadable = |reason: &dyn std::fmt::Display| Unheld::Unreadable(reason.to_string());
    let received = wire::read(payload).map_err(|error| unreadable(&error))?;
    let Payload::JobResult(result) = received.payload else {
        return Err(unreadable(&"it is no result"));
    };
    wire::same_name(&received.sender, &result.worker_id).map_err(|error| unreadable(&error))?;
    Ok(result)
}

/// How the result ends its job; none if it does not.
pub(crate) fn ending(result: &JobResult) -> Option<Ending> {
    let failed = |retryable| Some(Ending::Failed { error: error_of(result), retryable });
    match result.status() {
        JobStatus::Succeeded => Some(Ending::Succeeded),
        JobStatus::Failed | JobStatus::Timeout | JobStatus::FailedRetryable => failed(true),
        JobStatus::FailedFatal | JobStatus::Denied | JobStatus::Cancelled => failed(false),
        JobStatus::Unspecified
        | JobStatus::Pending
        | JobStatus::Scheduled
        | JobStatus::Dispatched
        | JobStatus::Running => None,
    }
}

impl Ending {
    fn cause(&self) -> interlock_model::job::EndCause {
        match self {
            Self::Succeeded => interlock_model::job::EndCause::Completed,
            Self::Failed { .. } => interlock_model::job::EndCause::Failed,
        }
    }
}

fn error_of(result: &JobResult) -> String {
    let status = result.status().as_str_name();
    let words = [result.error_code.as_str(), result.error_message.as_str()];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    if words.is_empty() {
        return format!("the worker gave no reason ({status})");
    }
    wire::shortened(&words.join(": "), ERROR_MAX)
}

/// What the worker laid down. It may not be there yet, or not be readable yet.
async fn output(shared: &Shared, pointer: &str) -> Result<Value, Unheld> {
    if pointer.is_empty() {
        return Ok(Value::Null);
    }
    let found = shared.mailbox.result(pointer).await;
    // Whatever the mailbox says about it, the worker may still put it right.
    let found = found.map_err(|error| Unheld::NotNow(error.to_string()))?;
    let shown = wire::shortened(pointer, 256);
    let bytes = found.ok_or_else(|| Unheld::NotNow(format!("there is nothing at {shown}")))?;
    let output: Value = serde_json::from_slice(&bytes)
        .map_err(|error| Unheld::NotNow(format!("what is at {shown} is no JSON: {error}")))?;
    if levels(&output) > NESTING_MAX {
        return Err(Unheld::NotNow(format!(
            "what is at {shown} is nested more than {NESTING_MAX} levels deep"
        )));
    }
    Ok(output)
}

fn levels(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(levels).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(status: JobStatus, message: &str) -> JobResult {
        JobResult { status: status.into(), error_message: message.to_owned(), ..JobResult::default() }
    }

    #[test]
    fn every_status_ends_the_job_or_does_not() {
        let retryable = |status| match ending(&result(status, "no")) {
            Some(Ending::Failed { retryable, .. }) => Some(retryable),
            Some(Ending::Succeeded) | None => None,
        };
        for status in [JobStatus::Failed, JobStatus::Timeout, JobStatus::FailedRetryable] {
            assert_eq!(retryable(status), Some(true), "{status:?}");
        }
        for status in [JobStatus::FailedFatal, JobStatus::Denied, JobStatus::Cancelled] {
            assert_eq!(retryable(status), Some(false), "{status:?}");
        }
        assert_eq!(ending(&result(JobStatus::Succeeded, "")), Some(Ending::Succeeded));
        for status in [JobStatus::Unspecified, JobStatus::Pending, JobStatus::Running, JobStatus::Dispatched]
        {
            assert_eq!(ending(&result(status, "")), None, "{status:?}");
        }
        assert_eq!(ending(&JobResult { status: 99, ..JobResult::default() }), None);
    }

    #[test]
    fn a_failure_without_words_says_so() {
        assert_eq!(
            error_of(&result(JobStatus::Timeout, "")),
            "the worker gave no reason (JOB_STATUS_TIMEOUT)"
        );
        assert_eq!(error_of(&result(JobStatus::Failed, "boom")), "boom");
        assert_eq!(error_of(&result(JobStatus::Failed, &"x".repeat(9_000))).len(), ERROR_MAX);
    }

    #[test]
    fn levels_are_counted() {
        assert_eq!(levels(&serde_json::json!({"a": [1, {"b": []}]})), 4);
        assert_eq!(levels(&Value::Null), 0);
    }
}
