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
}
