//! Runs: starting them, and their state.

use std::collections::BTreeMap;

use interlock_model::run::RunStatus;
use interlock_model::step::StepStatus;
use interlock_model::{IdempotencyKey, JobId, RunId, StepId, StepKey, TenantId, WorkflowId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::{PageQuery, Time, schema};

/// The answer to a start or a rerun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StartedRun {
    pub run_id: RunId,
    /// The run's status now; `deleted` for a replay whose run was deleted since.
    #[schema(schema_with = schema::start_status)]
    pub status: String,
    /// Whether the idempotency key had started this run before.
    pub replayed: bool,
    /// Its place in the queue, if a limit queued it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
}

/// Starts the run's workflow again with the same input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RerunRequest {
    /// Begin at this step and keep the outputs of the steps before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<StepId>,
}

/// A run in a list, without its documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunSummary {
    pub id: RunId,
    pub workflow_id: WorkflowId,
    /// The version that the run is pinned to.
    pub workflow_version: u32,
    /// The tenant.
    pub org_id: TenantId,
    pub status: RunStatus,
    #[schema(required)]
    pub error: Option<FailureView>,
    pub created_at: Time,
    #[schema(required)]
    pub started_at: Option<Time>,
    #[schema(required)]
    pub completed_at: Option<Time>,
    pub updated_at: Time,
    #[schema(required)]
    pub idempotency_key: Option<IdempotencyKey>,
    /// The run that this one reruns.
    #[schema(required)]
    pub rerun_of: Option<RunId>,
    /// The fence of the last write; it only grows.
    pub fence: u64,
}

/// A run with its documents and steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunView {
    #[serde(flatten)]
    pub summary: RunSummary,
    pub input: Value,
    /// What expressions see as `ctx`.
    pub context: Value,
    #[schema(required)]
    pub output: Option<Value>,
    pub steps: BTreeMap<StepId, StepView>,
}

/// The state of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StepView {
    pub status: StepStatus,
    /// Dispatches so far.
    pub attempts: u32,
    /// The last dispatch.
    #[schema(required)]
    pub job_id: Option<JobId>,
    #[schema(required)]
    pub started_at: Option<Time>,
    #[schema(required)]
    pub completed_at: Option<Time>,
    #[schema(required)]
    pub output: Option<Value>,
    #[schema(required)]
    pub error: Option<FailureView>,
    /// The items of a step that fans out, as `<step>[i]`; null for other steps.
    #[schema(required, no_recursion)]
    pub children: Option<BTreeMap<StepKey, StepView>>,
}

/// Why a step or a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailureView {
    /// Such as `worker_failed`, `timed_out`, `output_invalid`.
    pub code: String,
    pub message: String,
    /// The step that failed.
    #[schema(required)]
    pub step_id: Option<String>,
}

/// Which runs a list shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RunQuery {
    pub status: Option<RunStatus>,
    pub workflow_id: Option<WorkflowId>,
    #[serde(flatten)]
    #[param(ignore)]
    pub page: PageQuery,
}
