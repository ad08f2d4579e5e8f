//! A step of a run: where it stands, and how it may go on.

mod transition;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{JobId, StepId, Timestamp};

pub use transition::{IllegalStep, StepEvent, StepStatus};

/// A step, or one item of a step that fans out. A step that is not there yet is pending.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRun {
    pub status: StepStatus,
    /// Dispatches so far. The next one has the next number.
    pub attempts: u32,
    /// Failures that count against the step's retries: what a worker reports, and time-outs.
    pub failures: u32,
    /// Dispatches whose worker was lost. They cost no retry, but not without end.
    pub losses: u32,
    /// The last dispatch, open or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Whether that dispatch may still report.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub job_open: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// When the present try times out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// When it goes on by itself: a retry, or the end of a delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_at: Option<Timestamp>,
    /// For an item: the value that it was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Value>,
    /// For a step that fans out: how far its items are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan_out: Option<FanOut>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<StepError>,
}

/// Counters instead of a list: an item that ends must not rewrite its siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FanOut {
    pub total: u32,
    /// The first item that was not dispatched yet.
    pub next: u32,
    /// Dispatched and not ended.
    pub open: u32,
    pub done: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepError {
    pub code: ErrorCode,
    pub message: String,
    /// The step that it happened in: an item, for a step that fans out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The worker reported it.
    WorkerFailed,
    TimedOut,
    /// Too many dispatches in a row whose worker was lost.
    WorkerLost,
    OutputInvalid,
    ExpressionFailed,
    Rejected,
    Cancelled,
    /// A policy refused it before it reached a worker.
    PolicyDenied,
}

impl ErrorCode {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::WorkerFailed => "worker_failed",
            Self::TimedOut => "timed_out",
            Self::WorkerLost => "worker_lost",
            Self::OutputInvalid => "output_invalid",
            Self::ExpressionFailed => "expression_failed",
            Self::Rejected => "rejected",
            Self::Cancelled => "cancelled",
            Self::PolicyDenied => "policy_denied",
        }
    }
}

impl Default for StepRun {
    fn default() -> Self {
        Self {
            status: StepStatus::Pending,
            attempts: 0,
            failures: 0,
            losses: 0,
            job: None,
            job_open: false,
            started_at: None,
            completed_at: None,
            deadline_at: None,
            wake_at: None,
            item: None,
            fan_out: None,
            output: None,
            error: None,
        }
    }
}

impl StepRun {
    /// The next moment at which something happens by itself.
    #[must_use]
    pub fn due_at(&self) -> Option<Timestamp> {
        if self.status.is_settled() { None } else { self.wake_at.into_iter().chain(self.deadline_at).min() }
    }
}
