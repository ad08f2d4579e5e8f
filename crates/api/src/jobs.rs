//! Jobs: claimed by workers under a lease and a fence, kept by heartbeats, reported once; and as people see them.

use std::collections::BTreeMap;

use interlock_model::job::JobState;
use interlock_model::trace::TraceParent;
use interlock_model::{BudgetName, JobId, PermitId, RunId, StepKey, Topic, WorkerId, WorkflowId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::budgets::Decimal;
use crate::{PageQuery, Time};

/// A worker claims jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    #[schema(min_items = 1, max_items = 64)]
    pub topics: Vec<Topic>,
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 100, default = 1)]
    pub max_jobs: u32,
    /// How long to wait for a job to arrive.
    #[serde(default)]
    #[schema(maximum = 60_000, default = 0)]
    pub wait_ms: u64,
    /// Lease of each job unless a heartbeat renews it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1_000, maximum = 3_600_000, default = 15_000)]
    pub lease_ms: Option<u64>,
    /// Each of at most 128 characters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 64)]
    pub capabilities: Vec<String>,
}

fn one() -> u32 {
    1
}

/// The claimed jobs; empty if none arrived in time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClaimAnswer {
    pub jobs: Vec<ClaimedJob>,
}

/// A job that is now leased to the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClaimedJob {
    pub job_id: JobId,
    pub run_id: RunId,
    pub step_id: StepKey,
    pub topic: Topic,
    pub attempt: u32,
    /// Send it with every call about this job. Larger than the fence of every earlier dispatch.
    pub fence: u64,
    pub input: Value,
    pub lease_ms: u64,
    /// When the attempt times out, in milliseconds since 1970: its `timeout_sec` counts from this claim. The end of the
    /// lease if it has no timeout.
    #[schema(required)]
    pub deadline_ms: Option<u64>,
    /// The labels of the step's document, its `worker_id` among them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// If the run is traced: the parent of the worker's own spans, as a W3C `traceparent` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatRequest {
    #[schema(maximum = 9_007_199_254_740_991u64)]
    pub fence: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatAnswer {
    /// Lease from now.
    pub lease_ms: u64,
    /// The job was cancelled: stop.
    pub cancel_requested: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteRequest {
    #[schema(maximum = 9_007_199_254_740_991u64)]
    pub fence: u64,
    #[serde(default)]
    pub output: Value,
    /// What the worker has spent, by the name of the budget. What the step has reserved is settled with it; without it, all
    /// of that counts as spent, unsettled. Budgets that the step does not reserve from are ignored.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Decimal>, example = json!({"llm": "0.031"}))]
    pub usage: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailRequest {
    #[schema(maximum = 9_007_199_254_740_991u64)]
    pub fence: u64,
    pub error: String,
    /// Whether a retry may help; true if absent.
    #[serde(default = "yes")]
    #[schema(default = true)]
    pub retryable: bool,
    /// When the retry may come, such as what a `Retry-After` says: instead of the step's backoff, and at its deadline at the
    /// latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 86_400_000)]
    pub retry_after_ms: Option<u64>,
    /// What the worker has spent, as when it completes a job.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Decimal>, example = json!({"llm": "0.031"}))]
    pub usage: BTreeMap<String, String>,
}

/// Hands the job to the next worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseJobRequest {
    #[schema(maximum = 9_007_199_254_740_991u64)]
    pub fence: u64,
    /// Such as that the worker drains; the timeline shows it.
    #[schema(min_length = 1, max_length = 4096)]
    pub reason: String,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgressRequest {
    #[schema(maximum = 9_007_199_254_740_991u64)]
    pub fence: u64,
    #[schema(maximum = 100)]
    pub percent: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub message: Option<String>,
}

/// `{}`: done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Accepted {}

/// A job and its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobView {
    pub job_id: JobId,
    pub run_id: RunId,
    pub step_id: StepKey,
    pub workflow_id: WorkflowId,
    pub topic: Topic,
    pub state: JobState,
    pub attempt: u32,
    /// Null until a worker has claimed it.
    #[schema(required)]
    pub fence: Option<u64>,
    #[schema(required)]
    pub worker_id: Option<WorkerId>,
    pub created_at: Time,
    #[schema(required)]
    pub claimed_at: Option<Time>,
    #[schema(required)]
    pub lease_expires_at: Option<Time>,
    #[schema(required)]
    pub ended_at: Option<Time>,
    /// When the attempt times out, in milliseconds since 1970.
    #[schema(required)]
    pub deadline_ms: Option<u64>,
    /// When it times out unless a worker has claimed it, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_deadline_ms: Option<u64>,
    pub input: Value,
    /// What its step reserves for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<JobBudget>,
    /// Why no worker has it yet. Lists leave it out for queued jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitingFor>,
}

/// What a job reserves from a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobBudget {
    pub name: BudgetName,
    pub reserve: Decimal,
    /// Null until it is reserved. The end of the job ends it; if it is unsettled then, settle it with this permit.
    #[schema(required)]
    pub permit: Option<PermitId>,
}

/// Why a job waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitingFor {
    /// For programs. For a queued job: `no_worker`, `capability`, `draining`, `saturated` or `turn`; for a held one:
    /// `policy_pending`, `policy_unavailable`, `policy_throttled`, `approval`, `budget_pending`, `budget_exhausted`,
    /// `budget_approval` or `budget_approved`; for one that was pushed to a worker whose
    /// heartbeats have not confirmed it yet: `dispatched`.
    pub reason: String,
    /// For people.
    pub detail: String,
    /// Jobs before it in its queue; counted up to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// Workers that could do it and are not draining.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
}

/// The answer to a job's cancellation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CancelledJob {
    pub id: JobId,
    /// Its state now; a job that had ended before keeps its state.
    pub state: JobState,
}

/// Which jobs a list shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct JobQuery {
    pub state: Option<JobState>,
    #[serde(flatten)]
    #[param(ignore)]
    pub page: PageQuery,
}
