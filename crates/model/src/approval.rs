//! A step that waits for a person.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::{Amount, BudgetGroup};
use crate::{BudgetName, JobId, Timestamp, WorkflowId};

crate::named_enum! {
    /// What the person decided.
    pub enum Verdict {
        Approved = "approved",
        Rejected = "rejected",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub verdict: Verdict,
    pub by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A request for a person's decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    pub job: JobId,
    pub workflow: WorkflowId,
    pub requested_at: Timestamp,
    pub input: Value,
    pub state: ApprovalState,
    /// Why a person is asked. None: the workflow says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<AskedBecause>,
}

/// Why a person is asked about a job that the workflow would dispatch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedBecause {
    /// As it was then, for people.
    pub detail: String,
    /// The amount of which too little is left. None: the policy asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<AskedBudget>,
}

/// What a job would reserve, and from whose amount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedBudget {
    pub name: BudgetName,
    pub reserve: Amount,
    pub group: BudgetGroup,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    Open,
    Resolved(Decision),
    /// The run ended or the step timed out before a decision.
    Withdrawn,
}

/// The outcome of resolving an approval.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum Resolution {
    Recorded,
    /// The same verdict was recorded before.
    AlreadySo,
    /// Another verdict was recorded before, or the approval was withdrawn.
    AlreadyOtherwise(ApprovalState),
}

impl ApprovalState {
    pub fn resolve(&self, verdict: Verdict) -> Resolution {
        match self {
            Self::Open => Resolution::Recorded,
            Self::Resolved(decision) if decision.verdict == verdict => Resolution::AlreadySo,
            Self::Resolved(_) | Self::Withdrawn => Resolution::AlreadyOtherwise(self.clone()),
        }
    }
}
