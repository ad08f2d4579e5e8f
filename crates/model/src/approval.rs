//! A step that waits for a person.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{JobId, Timestamp, WorkflowId};

/// What the person decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Approved,
    Rejected,
}

/// Who decided, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub verdict: Verdict,
    pub by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An approval that was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    pub job: JobId,
    pub workflow: WorkflowId,
    pub requested_at: Timestamp,
    pub input: Value,
    pub state: ApprovalState,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    Open,
    Resolved(Decision),
    /// The run ended or the step timed out before anybody decided.
    Withdrawn,
}

/// The answer to "here is my verdict".
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Resolution {
    Recorded,
    /// The same verdict was given before.
    AlreadySo,
    /// Another verdict was given before, or the question was withdrawn.
    AlreadyOtherwise(ApprovalState),
}

impl ApprovalState {
    /// What `verdict` means for an approval in this state.
    pub fn resolve(&self, verdict: Verdict) -> Resolution {
        match self {
            Self::Open => Resolution::Recorded,
            Self::Resolved(decision) if decision.verdict == verdict => Resolution::AlreadySo,
            Self::Resolved(_) | Self::Withdrawn => Resolution::AlreadyOtherwise(self.clone()),
        }
    }
}
