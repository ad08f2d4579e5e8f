//! The life of a step. `apply` is the only way a step changes status.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    Pending,
    Running,
    /// An approval is open.
    Waiting,
    Succeeded,
    Failed,
    Denied,
    Cancelled,
    TimedOut,
    /// Its condition did not hold, or nothing failed that it would have handled.
    Skipped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepEvent {
    Begin,
    AskApproval,
    Succeed,
    Fail,
    Deny,
    Cancel,
    TimeOut,
    Skip,
    /// An operator wants another attempt.
    Retry,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a {from:?} step cannot take {event:?}")]
pub struct IllegalStep {
    pub from: StepStatus,
    pub event: StepEvent,
}

impl StepStatus {
    pub const ALL: [Self; 9] = [
        Self::Pending,
        Self::Running,
        Self::Waiting,
        Self::Succeeded,
        Self::Failed,
        Self::Denied,
        Self::Cancelled,
        Self::TimedOut,
        Self::Skipped,
    ];

    pub fn apply(self, event: StepEvent) -> Result<Self, IllegalStep> {
        use StepEvent as E;
        match (self, event) {
            // A dispatch may wait for a person, and go on after it.
            (Self::Pending | Self::Waiting, E::Begin) => Ok(Self::Running),
            (Self::Pending | Self::Running, E::AskApproval) => Ok(Self::Waiting),
            (Self::Pending, E::Skip) => Ok(Self::Skipped),
            (Self::Running | Self::Waiting, E::Succeed) => Ok(Self::Succeeded),
            (Self::Pending | Self::Running | Self::Waiting, E::Fail) => Ok(Self::Failed),
            (Self::Running | Self::Waiting, E::Deny) => Ok(Self::Denied),
            (Self::Pending | Self::Running | Self::Waiting, E::Cancel) => Ok(Self::Cancelled),
            (Self::Running | Self::Waiting, E::TimeOut) => Ok(Self::TimedOut),
            (Self::Failed | Self::Cancelled | Self::TimedOut, E::Retry) => Ok(Self::Pending),
            (from, event) => Err(IllegalStep { from, event }),
        }
    }

    /// Whether nothing happens to it any more by itself.
    #[must_use]
    pub fn is_settled(self) -> bool {
        match self {
            Self::Pending | Self::Running | Self::Waiting => false,
            Self::Succeeded
            | Self::Failed
            | Self::Denied
            | Self::Cancelled
            | Self::TimedOut
            | Self::Skipped => true,
        }
    }

    /// Whether it ended in a way that an error handler may answer.
    #[must_use]
    pub fn is_failure(self) -> bool {
        match self {
            Self::Failed | Self::Denied | Self::Cancelled | Self::TimedOut => true,
            Self::Pending | Self::Running | Self::Waiting | Self::Succeeded | Self::Skipped => false,
        }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::Skipped => "skipped",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [StepEvent; 8] = [
        StepEvent::Begin,
        StepEvent::AskApproval,
        StepEvent::Succeed,
        StepEvent::Fail,
        StepEvent::Deny,
        StepEvent::Cancel,
        StepEvent::TimeOut,
        StepEvent::Skip,
    ];

    #[test]
    fn a_settled_step_refuses_every_event_but_a_retry_of_what_failed() {
        for status in StepStatus::ALL.into_iter().filter(|status| status.is_settled()) {
            for event in EVENTS {
                assert_eq!(status.apply(event), Err(IllegalStep { from: status, event }));
            }
            // Who was denied an approval is not asked again.
            let may_be_retried = status.is_failure() && status != StepStatus::Denied;
            assert_eq!(status.apply(StepEvent::Retry).is_ok(), may_be_retried, "{status:?}");
        }
    }

    #[test]
    fn every_unsettled_step_can_be_cancelled() {
        for status in StepStatus::ALL.into_iter().filter(|status| !status.is_settled()) {
            assert_eq!(status.apply(StepEvent::Cancel), Ok(StepStatus::Cancelled));
        }
    }
}
