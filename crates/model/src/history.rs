//! What happened to a run, in order.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{JobId, StepKey, Timestamp};

/// The kinds of things that a timeline tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    RunStatus,
    StepDispatched,
    /// It must wait before it may go to a worker.
    StepHeld,
    /// It may go to a worker after all.
    StepReleased,
    StepCompleted,
    StepFailed,
    StepRetryScheduled,
    StepLost,
    /// By an operator, from a dead letter.
    StepRetried,
    StepTimedOut,
    StepCancelled,
    StepSkipped,
    StepWaiting,
    StepApproved,
    StepRejected,
    /// A policy refused it.
    StepDenied,
    StepErrorRedirect,
    StepConditionEvaluated,
    StepConditionFailed,
    StepDelayStarted,
    StepDelayCompleted,
    StepEventEmitted,
    StepForeachStarted,
    StepTransformCompleted,
    StepOutputInvalid,
    StepProgress,
}

impl EventKind {
    /// The name on the wire.
    #[must_use]
    pub fn name(self) -> String {
        match serde_json::to_value(self) {
            Ok(Value::String(name)) => name,
            Ok(_) | Err(_) => unreachable!("a kind without fields is written as its name"),
        }
    }
}

/// One thing that happened. The store gives it its place in the order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub at: Timestamp,
    pub kind: EventKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl Event {
    #[must_use]
    pub fn new(at: Timestamp, kind: EventKind) -> Self {
        Self { at, kind, step: None, job: None, status: None, message: None, data: None }
    }

    #[must_use]
    pub fn of_step(self, step: &StepKey) -> Self {
        Self { step: Some(step.clone()), ..self }
    }

    #[must_use]
    pub fn of_job(self, job: &JobId) -> Self {
        Self { step: Some(job.step.clone()), job: Some(job.clone()), ..self }
    }

    #[must_use]
    pub fn with_status(self, status: impl Into<String>) -> Self {
        Self { status: Some(status.into()), ..self }
    }

    #[must_use]
    pub fn saying(self, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..self }
    }

    #[must_use]
    pub fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }
}

/// An event in its place: sequence numbers of one run begin at 1 and have no gaps.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    pub sequence: u64,
    pub event: Event,
}
