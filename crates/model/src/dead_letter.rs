//! What was given up on, with why: nothing disappears in silence.

use serde::{Deserialize, Serialize};

use crate::job::JobOutcome;
use crate::{JobId, Timestamp, Topic};

/// A job, or a message about one, that nobody will try again by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadLetter {
    pub job: JobId,
    /// Where the job was queued, as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Topic>,
    pub code: LetterCode,
    /// One sentence for people.
    pub reason: String,
    /// How often it was tried.
    pub attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    pub buried_at: Timestamp,
    /// What the worker had said, where nobody else keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<JobOutcome>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LetterCode {
    /// Too many dispatches in a row whose worker was lost.
    WorkerLost,
    /// A worker's result that could not be taken into account, however often it was delivered.
    ResultUnhandled,
}

impl LetterCode {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::WorkerLost => "worker_lost",
            Self::ResultUnhandled => "result_unhandled",
        }
    }
}
