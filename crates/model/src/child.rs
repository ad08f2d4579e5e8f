//! Child runs: a step starts another workflow of the tenant as a run, and waits for its end.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limit::document::Labels;
use crate::limit::place::StartPriority;
use crate::run::{InboxEvent, Run, RunStatus, Start, StartedFrom};
use crate::step::ErrorCode;
use crate::trace::TraceParent;
use crate::{RunId, StepKey, TenantId, Timestamp, WorkflowId};

/// Runs that a run may have above it.
pub const DEPTH_MAX: u32 = 8;

/// Children that one step has open at once: the commit that ends its run cancels all of them.
pub const OPEN_CHILDREN_MAX: u32 = 1_000;

/// The step that waits for a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentLink {
    pub run: RunId,
    pub step: StepKey,
    /// The run above all others, in whose slot this one runs.
    pub root: RunId,
    /// Runs above this one.
    pub depth: u32,
}

/// A run that a step wants started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewChild {
    /// Chosen by the turn that asks for it, so that it is started once.
    pub run: RunId,
    pub workflow: WorkflowId,
    pub input: Value,
    pub parent: ParentLink,
    /// Those of the parent, as the priority.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    #[serde(default, skip_serializing_if = "StartPriority::is_usual")]
    pub priority: StartPriority,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceParent>,
}

impl NewChild {
    /// The immutable part of the run.
    pub fn start(&self, tenant: &TenantId, workflow_version: u32, created_at: Timestamp) -> Start {
        Start {
            run: self.run,
            tenant: tenant.clone(),
            workflow: self.workflow.clone(),
            workflow_version,
            input: self.input.clone(),
            idempotency_key: None,
            origin: StartedFrom::Request,
            parent: Some(self.parent.clone()),
            labels: self.labels.clone(),
            priority: self.priority,
            trace: self.trace,
            created_at,
        }
    }
}

/// The id of the child of one attempt of a step.
pub fn child_id(parent: RunId, step: &StepKey, attempt: u32, now: Timestamp) -> RunId {
    let hash = blake3::hash(format!("child\n{parent}\n{step}\n{attempt}").as_bytes());
    let mut bytes = [0; 10];
    bytes.copy_from_slice(&hash.as_bytes()[..10]);
    RunId::new(now, bytes)
}

/// How a child ended, for the step that waits for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildOutcome {
    Succeeded {
        output: Value,
    },
    /// It ended otherwise.
    Ended {
        status: RunStatus,
        message: String,
    },
    /// It was not started.
    Refused {
        code: ErrorCode,
        message: String,
        retryable: bool,
    },
}

impl ChildOutcome {
    /// It is missing, or its end is.
    pub fn lost() -> Self {
        let message = "the child was lost".to_owned();
        Self::Refused { code: ErrorCode::ChildFailed, message, retryable: true }
    }

    pub fn deleted() -> Self {
        Self::Ended { status: RunStatus::Cancelled, message: "the run was deleted".to_owned() }
    }
}

/// A message to the parent of a run that has ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChildReport {
    pub parent: RunId,
    pub event: InboxEvent,
}

impl ChildReport {
    /// What the parent of an ended run is to know. None: no run waits for it.
    pub fn of(run: &Run) -> Option<Self> {
        let parent = run.start.parent.as_ref().filter(|_| run.head.status.is_final())?;
        let outcome = if run.head.status == RunStatus::Succeeded {
            ChildOutcome::Succeeded { output: run.head.output.clone().unwrap_or_default() }
        } else {
            let error = run.head.error.as_ref();
            let message = error.map(|error| format!("{}: {}", error.code.name(), error.message));
            ChildOutcome::Ended { status: run.head.status, message: message.unwrap_or_default() }
        };
        Some(Self::about(parent, run.start.run, outcome))
    }

    pub fn about(parent: &ParentLink, child: RunId, outcome: ChildOutcome) -> Self {
        let event = InboxEvent::Child { step: parent.step.clone(), child, outcome };
        Self { parent: parent.run, event }
    }
}

/// What a turn does about children.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ChildEffects {
    /// To be started.
    pub started: Vec<NewChild>,
    /// No step waits for them any more.
    pub cancelled: Vec<RunId>,
    /// The run has ended, and this is for its parent.
    pub report: Option<ChildReport>,
}

impl ChildEffects {
    /// Drops children that this turn both asked for and cancelled.
    pub(crate) fn drop_undone(&mut self) {
        let Self { started, cancelled, .. } = self;
        let undone: Vec<RunId> =
            started.iter().map(|child| child.run).filter(|run| cancelled.contains(run)).collect();
        started.retain(|child| !undone.contains(&child.run));
        cancelled.retain(|run| !undone.contains(run));
    }
}
