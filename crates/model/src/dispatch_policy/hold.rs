//! Jobs that are open, in no queue, and can be claimed by nobody until it is decided whether they may be.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::history::{Event, EventKind};
use crate::job::NewJob;
use crate::{JobId, Timestamp};

/// A new job that must not go to its queue yet.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldJob {
    pub job: NewJob,
    /// What is to be decided, for people.
    pub detail: String,
}

/// Why a job is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldReason {
    /// Nobody has decided yet.
    PolicyPending,
    /// Its tenant waits for the policy service, which is away.
    PolicyUnavailable,
    /// Its rule, or the service, lets no more go at present.
    PolicyThrottled,
    /// A person is asked.
    Approval,
}

impl HoldReason {
    pub const ALL: [Self; 4] =
        [Self::PolicyPending, Self::PolicyUnavailable, Self::PolicyThrottled, Self::Approval];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PolicyPending => "policy_pending",
            Self::PolicyUnavailable => "policy_unavailable",
            Self::PolicyThrottled => "policy_throttled",
            Self::Approval => "approval",
        }
    }

    /// The reason of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

/// Why, since when and until when a job is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    pub reason: HoldReason,
    /// One sentence for people.
    pub detail: String,
    /// When it came to be held for this reason.
    pub since: Timestamp,
    /// How often in a row it was looked at and held for this reason.
    pub looks: u32,
    /// When it is looked at again; absent while a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look_at: Option<Timestamp>,
}

impl Hold {
    /// Of a job that was dispatched just now: it is due at once.
    #[must_use]
    pub fn new(now: Timestamp, detail: String) -> Self {
        Self { reason: HoldReason::PolicyPending, detail, since: now, looks: 0, look_at: Some(now) }
    }

    /// After another look at `now`, held for this reason and looked at again after `wait`.
    #[must_use]
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
        Self { reason, detail, since: now, looks: 1, look_at }
    }

    /// What the timeline tells of a job that is held for another reason than before.
    #[must_use]
    pub fn event(at: Timestamp, job: &JobId, reason: HoldReason, detail: &str) -> Event {
        let event = Event::new(at, EventKind::StepHeld).of_job(job).saying(detail);
        event.with_data(json!({"reason": reason.name()}))
    }
}
