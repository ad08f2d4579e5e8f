//! Approvals: requested by a run, resolved by a person.

use interlock_model::{JobId, RunId, StepKey, WorkflowId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::Time;

/// An open approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalView {
    pub job_id: JobId,
    pub run_id: RunId,
    pub step_id: StepKey,
    pub workflow_id: WorkflowId,
    pub requested_at: Time,
    pub input: Value,
}

/// The body of a verdict. The verdict itself is in the path; the body may be absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VerdictRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub reason: Option<String>,
}

/// The answer to a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResolvedApproval {
    pub job_id: JobId,
}
