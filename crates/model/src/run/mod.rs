//! Runs: what was asked, where it stands, and how it goes on.

pub mod advance;
mod first_turn;
pub mod gather;
mod transition;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::Decision;
use crate::dead_letter::DeadLetter;
use crate::job::JobOutcome;
use crate::step::{StepError, StepRun, StepStatus};
use crate::{Fence, IdempotencyKey, JobId, RunId, StepId, StepKey, TenantId, Timestamp, WorkflowId};

pub use transition::{Ending, IllegalRun, RunEvent, RunStatus};

/// What was asked when the run started. Never changes, so it is written once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    pub run: RunId,
    pub tenant: TenantId,
    pub workflow: WorkflowId,
    /// The version that the run is pinned to.
    pub workflow_version: u32,
    pub input: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<IdempotencyKey>,
    pub origin: StartedFrom,
    pub created_at: Timestamp,
}

/// Where a run comes from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartedFrom {
    #[default]
    Request,
    Rerun {
        of: RunId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from_step: Option<StepId>,
    },
}

/// Where a run stands. Small, because every commit rewrites it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Head {
    pub status: RunStatus,
    /// Raised by every commit. A commit names the version that it read.
    pub version: u64,
    /// Of whoever wrote last.
    pub fence: Fence,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    pub updated_at: Timestamp,
    /// When the workflow's time-out ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// When something next happens by itself: the earliest of all retries, delays and time-outs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<StepError>,
}

impl Head {
    #[must_use]
    pub fn admitted(now: Timestamp) -> Self {
        Self {
            status: RunStatus::Pending,
            version: 0,
            fence: Fence::NONE,
            started_at: None,
            completed_at: None,
            updated_at: now,
            deadline_at: None,
            due_at: None,
            output: None,
            error: None,
        }
    }
}

/// A whole run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub start: Start,
    pub head: Head,
    /// Steps that were touched. One that is not here is pending.
    pub steps: BTreeMap<StepKey, StepRun>,
}

impl Run {
    #[must_use]
    pub fn step_status(&self, step: &StepId) -> StepStatus {
        self.steps.get(&StepKey::whole(step)).map_or(StepStatus::Pending, |step| step.status)
    }
}

/// Something that a run must take into account. It waits in the run's inbox until the engine drains it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InboxEvent {
    Job {
        /// When the store heard of it; zero if an older release wrote it.
        #[serde(default)]
        at: Timestamp,
        job: JobId,
        outcome: JobOutcome,
    },
    Approval {
        job: JobId,
        decision: Decision,
    },
    /// Before this dispatch goes to a worker, a person is asked. The verdict comes as an approval.
    ApprovalAsked {
        job: JobId,
        reason: String,
    },
    Cancel {
        by: String,
    },
    /// An operator wants another attempt of what was given up. The letter has left its list, and goes with the event.
    Retry {
        by: String,
        letter: Box<DeadLetter>,
    },
}
