//! Runs: starting them, and their state.

use std::collections::BTreeMap;

use interlock_model::limit::document::Labels;
use interlock_model::run::RunStatus;
use interlock_model::step::StepStatus;
use interlock_model::{
    EventKey, EventName, IdempotencyKey, JobId, RunId, StepId, StepKey, TenantId, WorkflowId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::named_limits::{BlockedBy, RunWaitingFor};
use crate::{PageQuery, Time, schema};

/// The answer to a start or a rerun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StartedRun {
    pub run_id: RunId,
    /// The run's status now; `deleted` for a replay whose run was deleted since.
    #[schema(schema_with = schema::start_status)]
    pub status: String,
    /// Whether the idempotency key had started this run before.
    pub replayed: bool,
    /// Whether a limit answers with a run that another start has made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub joined: bool,
    /// 202: its place in the queue; null if that is not counted, as with an order by priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// 202: the limit that it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<BlockedBy>,
    /// 202: one sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// 200 with `Prefer: wait`: the run, which has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Box<RunView>>,
}

/// Moves a waiting run within its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveRequest {
    pub to: QueueEnd,
}

/// Where in its queue a run is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueEnd {
    /// Before all others.
    Front,
    /// Behind all others.
    Back,
}

/// What a start may say about its run, in headers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StartOptions {
    pub key: Option<String>,
    /// From 0 to 9, the highest first; 4 if absent.
    pub priority: Option<u8>,
    pub labels: Labels,
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
    /// What the start was labelled with.
    #[serde(default)]
    pub labels: Labels,
    /// How soon it starts among runs that wait in a queue by priority: 9 first, 4 by default.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 9)]
    pub priority: u8,
    /// The run that this one reruns.
    #[schema(required)]
    pub rerun_of: Option<RunId>,
    /// The step that waits for this run; null if a client started it.
    #[serde(default)]
    #[schema(required)]
    pub parent: Option<ParentView>,
    /// The run above all others: this one, unless a step started it.
    pub root: RunId,
    /// Runs above this one.
    #[serde(default)]
    pub depth: u32,
    /// The fence of the last write; it only grows.
    pub fence: u64,
}

/// A step that waits for a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ParentView {
    pub run_id: RunId,
    /// Of a step that fans out, the item: `<step>[i]`.
    pub step: StepKey,
}

/// A run with its documents and steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunView {
    #[serde(flatten)]
    pub summary: RunSummary,
    /// What a queued run waits for; null for every other run.
    #[serde(default)]
    #[schema(required)]
    pub waiting_for: Option<RunWaitingFor>,
    pub input: Value,
    /// What expressions see as `ctx`: the run, and what its storage steps have written.
    pub context: Value,
    #[schema(required)]
    pub output: Option<Value>,
    pub steps: BTreeMap<StepId, StepView>,
    /// The steps, each after those that it waits for.
    #[serde(default)]
    pub step_order: Vec<StepId>,
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
    /// The run that the last attempt of a subworkflow step started.
    #[serde(default)]
    #[schema(required)]
    pub child_run_id: Option<RunId>,
    /// The event that a step waits for.
    #[serde(default)]
    #[schema(required)]
    pub waiting_for_event: Option<AwaitedEventView>,
    #[schema(required)]
    pub started_at: Option<Time>,
    #[schema(required)]
    pub completed_at: Option<Time>,
    #[schema(required)]
    pub output: Option<Value>,
    #[schema(required)]
    pub error: Option<FailureView>,
    /// How many items a step that fans out has; null for other steps. Those that have not begun yet are not among its
    /// children.
    #[serde(default)]
    #[schema(required)]
    pub items: Option<u32>,
    /// The items of a step that fans out, as `<step>[i]`; null for other steps.
    #[schema(required, no_recursion)]
    pub children: Option<BTreeMap<StepKey, StepView>>,
}

/// An event that a step waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AwaitedEventView {
    pub name: EventName,
    /// The step also takes what is sent to this key.
    #[schema(required)]
    pub key: Option<EventKey>,
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
    /// Only runs that steps of this run have started.
    pub parent: Option<RunId>,
    #[serde(flatten)]
    #[param(ignore)]
    pub page: PageQuery,
}
