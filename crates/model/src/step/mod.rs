//! The state of a step in a run.

mod transition;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::{AwaitedEvent, SentEvent};
use crate::run::context::ContextChange;
use crate::{JobId, RunId, StepId, Timestamp};

pub use transition::{IllegalStep, StepEvent, StepStatus};

/// A step, or one item of a step that fans out. A step without a row is pending.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRun {
    pub status: StepStatus,
    /// Dispatches so far. The next one has the next number.
    pub attempts: u32,
    /// Failures that count against the step's retries: reported by a worker, or timeouts.
    pub failures: u32,
    /// Dispatches whose worker was lost. They cost no retry, but have a limit of their own.
    pub losses: u32,
    /// Dispatches that their worker has released. The first ones cost no retry either.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub releases: u32,
    /// The last dispatch, open or ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Whether that dispatch may still report.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub job_open: bool,
    /// The run that its last attempt started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<RunId>,
    /// Whether the step waits for the end of that run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub child_open: bool,
    /// The events that it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaits: Option<AwaitedEvent>,
    /// Events of the run that no step has taken, for the first step that waits for their name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_events: Vec<SentEvent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// When the current approval or child times out. A worker's attempt times out in the store, by its claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// When all of its attempts together time out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_deadline_at: Option<Timestamp>,
    /// When a retry is due or a delay ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_at: Option<Timestamp>,
    /// The list element, for an item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Value>,
    /// The progress of its items or rounds, for a step that fans out or is the body of a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan_out: Option<FanOut>,
    /// The last list elements, as long as their items have no rows, for a step that fans out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_items: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// What it has changed in the context of the run, for a storage step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_change: Option<ContextChange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<StepError>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Counters instead of a list, so that an item that ends does not rewrite its siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FanOut {
    pub total: u32,
    /// The first item that is not dispatched yet.
    pub next: u32,
    /// Dispatched and not ended.
    pub open: u32,
    pub done: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepError {
    pub code: ErrorCode,
    pub message: String,
    /// The failed step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
}

crate::named_enum! {
    pub enum ErrorCode {
        /// The worker reported a failure.
        WorkerFailed = "worker_failed",
        TimedOut = "timed_out",
        /// Too many dispatches in a row lost their worker.
        WorkerLost = "worker_lost",
        OutputInvalid = "output_invalid",
        ExpressionFailed = "expression_failed",
        /// No case of a switch applies, and it has no default.
        NoCaseMatches = "no_case_matches",
        /// Too many branches of a parallel step have failed.
        TooFewBranches = "too_few_branches",
        /// A loop has made all of its rounds without coming to its end.
        LoopExhausted = "loop_exhausted",
        /// The run that the step started has failed.
        ChildFailed = "child_failed",
        /// There is no workflow that the step could start.
        WorkflowNotFound = "workflow_not_found",
        /// The input of a child does not match its workflow, or names no group of a limit.
        InvalidInput = "invalid_input",
        /// A limit refused the child.
        LimitReached = "limit_reached",
        /// The run has as many runs above it as may be.
        TooDeep = "too_deep",
        /// The run would hold, or one turn of it would render, more than it may.
        RunTooLarge = "run_too_large",
        /// The budget of the step has too little left.
        BudgetExhausted = "budget_exhausted",
        /// A queued run got no slot in time.
        QueueTimeout = "queue_timeout",
        /// A newer run took the place of a queued one.
        Superseded = "superseded",
        /// A newer run took the place of a live one.
        ReplacedBy = "replaced_by",
        Rejected = "rejected",
        Cancelled = "cancelled",
        /// A policy denied it before it reached a worker.
        PolicyDenied = "policy_denied",
    }
}
