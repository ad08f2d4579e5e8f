//! Runs: the start request, the current state, and the rules that advance it.

pub mod advance;
pub mod context;
mod first_turn;
pub mod gather;
mod quarantine;
mod queue_exit;
mod transition;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::Decision;
use crate::child::{ChildOutcome, ParentLink};
use crate::dead_letter::DeadLetter;
use crate::event::{EventTally, SentEvent};
use crate::job::JobOutcome;
use crate::limit::document::Labels;
use crate::limit::place::StartPriority;
use crate::step::{StepError, StepRun, StepStatus};
use crate::trace::TraceParent;
use crate::{
    Fence, IdempotencyKey, JobId, LimitName, RunId, StepId, StepKey, TenantId, Timestamp, WorkflowId,
};

pub use quarantine::{QUARANTINE_REASON, Quarantine, SUSPECT_FROM};
pub use queue_exit::QueueExit;
pub use transition::{Ending, IllegalRun, RunEvent, RunStatus};

/// The immutable part of a run, written once.
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
    /// The step that waits for it; none if a client started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentLink>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: Labels,
    #[serde(default, skip_serializing_if = "StartPriority::is_usual")]
    pub priority: StartPriority,
    /// The span of the client that started the run, if it sent a `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceParent>,
    pub created_at: Timestamp,
}

impl Start {
    /// The run above all others: itself, unless a step started it.
    pub fn root(&self) -> RunId {
        self.parent.as_ref().map_or(self.run, |parent| parent.root)
    }

    /// Runs above it.
    pub fn depth(&self) -> u32 {
        self.parent.as_ref().map_or(0, |parent| parent.depth)
    }
}

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

/// The current state of a run. Small, because every commit rewrites it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Head {
    pub status: RunStatus,
    /// Raised by every commit. A commit must name the current version.
    pub version: u64,
    /// The fence of the last commit.
    pub fence: Fence,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    pub updated_at: Timestamp,
    /// When a queued run stops waiting for a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_until: Option<Timestamp>,
    /// When the workflow times out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// The earliest of all retries, delays and timeouts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// Approximate bytes of the run's input, of all inputs, items and outputs of its steps, and of its timeline.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held_bytes: u64,
    /// Of the events that were sent to it: those that its turns have used up. All others are kept, or in its inbox.
    #[serde(default, skip_serializing_if = "EventTally::is_zero")]
    pub used_events: EventTally,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<StepError>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

impl Head {
    pub fn admitted(now: Timestamp) -> Self {
        Self { updated_at: now, ..Self::default() }
    }

    /// Accepted without a slot, to wait for one until `until`.
    pub fn queued(now: Timestamp, until: Timestamp) -> Self {
        let (status, until) = (RunStatus::Queued, Some(until));
        Self { status, queued_until: until, due_at: until, ..Self::admitted(now) }
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Run {
    pub start: Start,
    pub head: Head,
    /// Absent steps are pending.
    pub steps: BTreeMap<StepKey, StepRun>,
}

impl Run {
    pub fn step_status(&self, step: &StepId) -> StepStatus {
        self.steps.get(&StepKey::whole(step)).map_or(StepStatus::Pending, |step| step.status)
    }
}

impl InboxEvent {
    /// The step that waited for the run continues without it.
    pub fn cancel_by_parent(parent: RunId) -> Self {
        Self::Cancel { by: format!("its parent run {parent}") }
    }
}

/// An event in a run's inbox, waiting for the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InboxEvent {
    Job {
        /// When the store received it; zero if an older release wrote it.
        #[serde(default)]
        at: Timestamp,
        job: JobId,
        outcome: JobOutcome,
    },
    Approval {
        job: JobId,
        decision: Decision,
    },
    /// A policy requires a person's approval of this dispatch. The verdict follows as `Approval`.
    ApprovalAsked {
        job: JobId,
        reason: String,
    },
    Cancel {
        by: String,
    },
    /// A queued run has got its slots.
    Granted {
        at: Timestamp,
    },
    /// A newer run takes its place, by this limit.
    Replaced {
        by: RunId,
        limit: LimitName,
    },
    /// The run that a step waits for has ended, or was not started.
    Child {
        step: StepKey,
        child: RunId,
        outcome: ChildOutcome,
    },
    /// Sent to the run, for a step that waits for it.
    Event(Box<SentEvent>),
    /// An operator retries a dead letter. The letter has left its list and is part of the event.
    Retry {
        by: String,
        letter: Box<DeadLetter>,
    },
}
