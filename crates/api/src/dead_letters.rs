//! Dead letters: jobs that nobody tries again by themselves, with why.

use interlock_model::{JobId, RunId, Topic};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;

/// A job that was given up on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeadLetterView {
    #[schema(value_type = String)]
    pub job_id: JobId,
    #[schema(value_type = String)]
    pub run_id: RunId,
    /// Where the job was queued; null if that is not known.
    #[schema(required, value_type = Option<String>)]
    pub topic: Option<Topic>,
    /// One sentence for people.
    pub reason: String,
    /// `worker_lost` or `result_unhandled`. A text, so that a client outlives the codes that come later.
    pub reason_code: String,
    /// How often it was tried.
    pub attempts: u32,
    #[schema(required)]
    pub last_error: Option<String>,
    pub created_at: Time,
    /// What the worker had said, where nobody else keeps it: `output`, or `error` and `retryable`. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub result: Option<serde_json::Value>,
    /// What to do for another attempt, as the run stands now. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how_to_retry: Option<String>,
}

/// The letter was handed to its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetriedLetter {
    /// The job of the letter; the new attempt has an id of its own, which the run shows.
    #[schema(value_type = String)]
    pub job_id: JobId,
}

/// Which letters are meant. At least one of the filters, or `all`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LettersRequest {
    /// `worker_lost` or `result_unhandled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason_code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub topic: Option<Topic>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub run_id: Option<RunId>,
    /// Given up before then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Time>,
    /// All that there are.
    #[serde(default)]
    pub all: bool,
    /// Change nothing, and tell what would be done.
    #[serde(default)]
    pub dry_run: bool,
    /// 1 to 500; 100 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
}

/// What became of the letters; with `dry_run`, what would.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LettersAnswer {
    /// Letters that were meant, up to the limit.
    pub matched: u64,
    #[schema(value_type = Vec<String>)]
    pub done: Vec<JobId>,
    pub refused: Vec<RefusedLetter>,
    pub dry_run: bool,
    /// There are more: ask again.
    pub more: bool,
}

/// A letter that stayed as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedLetter {
    #[schema(value_type = String)]
    pub job_id: JobId,
    pub reason: String,
}
