//! Held jobs: open, in no queue, and not claimable until the policy decides, or their budget has enough left.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::budget::BudgetGroup;
use crate::history::{Event, EventKind};
use crate::job::NewJob;
use crate::{BudgetName, JobId, Timestamp};

/// A new job that has to be decided about before it enters its queue.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeldJob {
    pub job: NewJob,
    pub reason: HoldReason,
    /// What has to be decided.
    pub detail: String,
}

crate::named_enum! {
    pub enum HoldReason {
        /// The policy has not decided yet.
        PolicyPending = "policy_pending",
        /// The policy service is unreachable and the tenant fails closed.
        PolicyUnavailable = "policy_unavailable",
        /// A rule or the service throttles it.
        PolicyThrottled = "policy_throttled",
        /// It waits for a person's approval.
        Approval = "approval",
        /// Its budget has not been asked yet.
        BudgetPending = "budget_pending",
        /// Its budget has too little left.
        BudgetExhausted = "budget_exhausted",
        /// Its budget has too little left, and a person is asked whether it may go all the same.
        BudgetApproval = "budget_approval",
        /// A person has approved it: it reserves what is left.
        BudgetApproved = "budget_approved",
    }
}

impl HoldReason {
    /// Whether it waits for a person and not for a time.
    pub fn is_approval(self) -> bool {
        matches!(self, Self::Approval | Self::BudgetApproval)
    }

    /// Whether the policy has decided, and the budget is next.
    pub fn is_of_budget(self) -> bool {
        matches!(self, Self::BudgetPending | Self::BudgetExhausted | Self::BudgetApproved)
    }

    /// The hold that follows an approval, if the job has to reserve.
    pub fn after_approval(self) -> Self {
        if self == Self::BudgetApproval { Self::BudgetApproved } else { Self::BudgetPending }
    }
}

/// Why and since when a job is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    pub reason: HoldReason,
    pub detail: String,
    /// When this reason began.
    pub since: Timestamp,
    /// Consecutive evaluations that held it for this reason.
    pub looks: u32,
    /// When it is evaluated again; absent while it waits for an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look_at: Option<Timestamp>,
    /// Where it waits for its budget, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<BudgetPlace>,
}

/// The place of a job among those that wait for the same amount: in the order in which they began to wait for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BudgetPlace {
    pub budget: BudgetName,
    pub group: BudgetGroup,
    pub since: Timestamp,
}

impl Hold {
    /// A hold that is due for evaluation at once.
    pub fn new(reason: HoldReason, now: Timestamp, detail: String) -> Self {
        Self { reason, detail, since: now, looks: 0, look_at: Some(now), place: None }
    }

    /// The hold after another evaluation at `now`, to be evaluated again after `wait`.
    pub fn again(
        self,
        reason: HoldReason,
        detail: String,
        (now, wait): (Timestamp, Option<Duration>),
    ) -> Self {
        let look_at = wait.map(|wait| now + wait);
        if reason == self.reason {
            return Self { detail, looks: self.looks.saturating_add(1), look_at, ..self };
        }
        let place = self.place.filter(|_| reason.is_of_budget());
        Self { reason, detail, since: now, looks: 1, look_at, place }
    }

    /// The timeline event for a job that is held for a new reason.
    pub fn event(at: Timestamp, job: &JobId, reason: HoldReason, detail: &str) -> Event {
        let event = Event::new(at, EventKind::StepHeld).of_job(job).saying(detail);
        event.with_data(json!({"reason": reason.name()}))
    }
}
