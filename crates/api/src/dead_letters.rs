//! Dead letters: jobs that are not retried automatically any more, with why.

use interlock_model::{JobId, RunId, Topic};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;

/// A job that failed for the last time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeadLetterView {
    pub job_id: JobId,
    pub run_id: RunId,
    /// Where the job was queued; null if that is not known.
    #[schema(required)]
    pub topic: Option<Topic>,
    /// One sentence for people.
    pub reason: String,
    /// `worker_lost`, `result_unhandled` or `run_quarantined`; later servers may have more codes.
    pub reason_code: String,
    /// Number of attempts.
    pub attempts: u32,
    #[schema(required)]
    pub last_error: Option<String>,
    pub created_at: Time,
    /// The worker's result that could not be handled: `output`, or `error` and `retryable`. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub result: Option<serde_json::Value>,
    /// How to get another attempt in the run's current state. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how_to_retry: Option<String>,
}

/// The dead letter was handed to its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetriedDeadLetter {
    /// The job of the dead letter. The new attempt has its own id, which the run shows.
    pub job_id: JobId,
}

/// Selects dead letters by at least one filter, or `all`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadLettersRequest {
    /// `worker_lost`, `result_unhandled` or `run_quarantined`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason_code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Topic>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// Created before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Time>,
    /// All dead letters.
    #[serde(default)]
    pub all: bool,
    /// Report what would be done without doing it.
    #[serde(default)]
    pub dry_run: bool,
    /// 1 to 500; 100 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
}

/// What was done with the dead letters; with `dry_run`, what would be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeadLettersAnswer {
    /// Dead letters that matched, up to the limit.
    pub matched: u64,
    pub done: Vec<JobId>,
    pub refused: Vec<RefusedDeadLetter>,
    pub dry_run: bool,
    /// More dead letters match: repeat the request.
    pub more: bool,
}

/// A dead letter that stayed as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedDeadLetter {
    pub job_id: JobId,
    pub reason: String,
}
