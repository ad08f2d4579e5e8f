//! What something waits for.

use interlock_model::why::CauseCode;
use interlock_model::{JobId, Resource, RunId, StepKey, WorkflowId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::Time;

/// The subject: exactly one of the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct WhyQuery {
    pub run_id: Option<RunId>,
    pub job_id: Option<JobId>,
    /// Name of a lock, or the key of a lock of the control plane.
    pub resource: Option<Resource>,
    /// What a start of this workflow would wait for.
    pub workflow_id: Option<WorkflowId>,
}

/// What something waits for now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhyView {
    /// The run, job, lock or workflow.
    pub subject: String,
    /// Such as `running`, `queued`, `held` or `full`.
    pub state: String,
    pub time: Time,
    /// Never empty; the most important first.
    pub causes: Vec<CauseView>,
    /// Number of causes that are left out.
    pub more: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CauseView {
    pub code: CauseCode,
    /// One sentence: what it waits for, and who holds that.
    pub detail: String,
    /// What can be done about it.
    pub what_to_do: String,
    #[schema(required)]
    pub step_id: Option<StepKey>,
    #[schema(required)]
    pub job_id: Option<JobId>,
    #[schema(required)]
    pub since: Option<Time>,
    /// When it ends by itself.
    #[schema(required)]
    pub until: Option<Time>,
    pub holders: Vec<CauseHolder>,
    /// The first is 1.
    #[schema(required)]
    pub position: Option<u64>,
    /// An estimate; null if there is none.
    #[schema(required)]
    pub expected_wait_ms: Option<u64>,
}

/// A run, a worker, the owner of a lock or a process that holds what is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CauseHolder {
    pub name: String,
    #[schema(required)]
    pub since: Option<Time>,
    #[schema(required)]
    pub until: Option<Time>,
}
