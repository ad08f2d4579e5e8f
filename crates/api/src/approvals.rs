//! Approvals: requested by a run, resolved by a person.

use interlock_model::{BudgetName, JobId, RunId, StepKey, WorkflowId};
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
    /// Why a person is asked. Absent where the workflow has the approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The budget that has too little left for the job, as it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<AskedBudgetView>,
}

/// What an approved job would reserve, and what is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AskedBudgetView {
    pub name: BudgetName,
    pub unit: String,
    /// Whose amount it is, if each key has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What the job would reserve.
    pub reserve: String,
    pub remaining: String,
    /// What may be spent in the window.
    pub limit: String,
    /// When the window ends. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Time>,
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
