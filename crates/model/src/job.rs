//! One dispatch of one step to one worker.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::meta::JobMeta;
use crate::trace::TraceParent;
use crate::{Fence, JobId, Timestamp, Topic, WorkerId, WorkflowId};

/// A job as the engine asks for it. It waits in its topic's queue until a worker claims it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewJob {
    pub id: JobId,
    pub workflow: WorkflowId,
    pub topic: Topic,
    pub input: Value,
    /// When the step's time-out ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "JobMeta::is_empty")]
    pub meta: JobMeta,
    /// The span that the run's starter was in, if it told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceParent>,
}

/// A job as the store keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub new: NewJob,
    pub created_at: Timestamp,
    /// How it ended; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<JobEnd>,
}

/// A worker's hold on a job. Kept beside the job, so that a heartbeat does not rewrite the job's input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLease {
    pub worker: WorkerId,
    pub fence: Fence,
    pub ttl: Duration,
    pub expires_at: Timestamp,
    pub claimed_at: Timestamp,
}

/// How a job ended, and what its worker held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnd {
    pub cause: EndCause,
    pub at: Timestamp,
    /// The fence that the worker held; [`Fence::NONE`] if no worker had it.
    pub held: Fence,
    /// Raised above `held`: no write of that worker is accepted any more.
    pub fence: Fence,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    Completed,
    Failed,
    /// Its lease ran out; the step goes to another worker as another job.
    Lost,
    /// Its run or step ended without it.
    Revoked,
    /// An operator cancelled this job.
    Cancelled,
}

/// What became of a job, as its run's inbox holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobOutcome {
    Completed { output: Value },
    Failed { error: String, retryable: bool },
    Lost,
    Cancelled { by: String },
}

impl JobOutcome {
    #[must_use]
    pub fn cause(&self) -> EndCause {
        match self {
            Self::Completed { .. } => EndCause::Completed,
            Self::Failed { .. } => EndCause::Failed,
            Self::Lost => EndCause::Lost,
            Self::Cancelled { .. } => EndCause::Cancelled,
        }
    }
}

/// Where a job stands, for people and filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    Queued,
    Running,
    Succeeded,
    Failed,
    Lost,
    Cancelled,
}

impl JobState {
    #[must_use]
    pub fn of(job: &Job, lease: Option<&JobLease>) -> Self {
        match (&job.end, lease) {
            (None, None) => Self::Queued,
            (None, Some(_)) => Self::Running,
            (Some(end), _) => match end.cause {
                EndCause::Completed => Self::Succeeded,
                EndCause::Failed => Self::Failed,
                EndCause::Lost => Self::Lost,
                EndCause::Revoked | EndCause::Cancelled => Self::Cancelled,
            },
        }
    }
}
