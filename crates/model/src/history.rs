//! The timeline of a run.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{JobId, StepKey, Timestamp};

crate::named_enum! {
    pub enum EventKind {
        RunStatus = "run_status",
        StepDispatched = "step_dispatched",
        /// A policy holds the dispatch back from its queue.
        StepHeld = "step_held",
        /// The policy released the dispatch into its queue.
        StepReleased = "step_released",
        StepCompleted = "step_completed",
        StepFailed = "step_failed",
        StepRetryScheduled = "step_retry_scheduled",
        StepLost = "step_lost",
        /// Its worker has released the job: it goes to the next.
        StepJobReleased = "step_job_released",
        /// An operator retried it from a dead letter.
        StepRetried = "step_retried",
        StepTimedOut = "step_timed_out",
        StepCancelled = "step_cancelled",
        StepSkipped = "step_skipped",
        StepWaiting = "step_waiting",
        StepApproved = "step_approved",
        StepRejected = "step_rejected",
        /// A policy denied the dispatch.
        StepDenied = "step_denied",
        StepErrorRedirect = "step_error_redirect",
        StepConditionEvaluated = "step_condition_evaluated",
        StepConditionFailed = "step_condition_failed",
        StepDelayStarted = "step_delay_started",
        StepDelayCompleted = "step_delay_completed",
        StepEventEmitted = "step_event_emitted",
        StepForeachStarted = "step_foreach_started",
        /// A loop begins a round.
        StepLoopIteration = "step_loop_iteration",
        StepLoopCompleted = "step_loop_completed",
        StepParallelStarted = "step_parallel_started",
        /// Enough of its branches have succeeded. The others are cancelled.
        StepParallelCompleted = "step_parallel_completed",
        /// A switch has chosen the step that follows it.
        StepSwitchEvaluated = "step_switch_evaluated",
        /// A child run is to be started.
        StepSubworkflowStarted = "step_subworkflow_started",
        StepSubworkflowCompleted = "step_subworkflow_completed",
        /// A storage step has read, written or deleted a value of the context.
        StepStorageCompleted = "step_storage_completed",
        /// An event was sent to the run.
        EventReceived = "event_received",
        /// The step has taken the event that it waited for.
        StepEventReceived = "step_event_received",
        StepTransformCompleted = "step_transform_completed",
        StepOutputInvalid = "step_output_invalid",
        StepProgress = "step_progress",
    }
}

/// One timeline event. The store assigns its sequence number.
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
    pub fn new(at: Timestamp, kind: EventKind) -> Self {
        Self { at, kind, step: None, job: None, status: None, message: None, data: None }
    }

    /// A run is accepted that waits for newer starts.
    pub fn debounced(at: Timestamp) -> Self {
        Self::new(at, EventKind::RunStatus).with_status("queued").saying("waits until no newer start comes")
    }

    /// The run waits for newer starts no more: it stands for this number of them.
    pub fn quiet_ended(at: Timestamp, starts: impl std::fmt::Display) -> Self {
        let message = format!("no newer start came; starts so far: {starts}");
        Self::new(at, EventKind::RunStatus).with_status("queued").saying(message)
    }

    pub fn of_step(self, step: &StepKey) -> Self {
        Self { step: Some(step.clone()), ..self }
    }

    pub fn of_job(self, job: &JobId) -> Self {
        Self { step: Some(job.step.clone()), job: Some(job.clone()), ..self }
    }

    pub fn with_status(self, status: impl Into<String>) -> Self {
        Self { status: Some(status.into()), ..self }
    }

    pub fn saying(self, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..self }
    }

    pub fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }
}

/// An event with its sequence number. The numbers of one run start at 1 and have no gaps.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Recorded {
    pub sequence: u64,
    pub event: Event,
}
