//! The state machine of a step. `apply` is the only way to change its status.

crate::named_enum! {
    #[derive(Default)]
    pub enum StepStatus {
        #[default]
        Pending = "pending",
        Running = "running",
        /// An approval is open.
        Waiting = "waiting",
        Succeeded = "succeeded",
        Failed = "failed",
        Denied = "denied",
        Cancelled = "cancelled",
        TimedOut = "timed_out",
        /// Its condition was false, or no step that it handles failed.
        Skipped = "skipped",
    }
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
    /// An operator retries a dead letter.
    Retry,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a {from:?} step cannot take {event:?}")]
pub struct IllegalStep {
    pub from: StepStatus,
    pub event: StepEvent,
}

impl StepStatus {
    pub fn apply(self, event: StepEvent) -> Result<Self, IllegalStep> {
        use StepEvent as E;
        match (self, event) {
            // A dispatch may wait for an approval and continue after it.
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

    /// Whether only an operator's retry can change it.
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

    /// Whether it ended in a way that an error handler can handle.
    pub fn is_failure(self) -> bool {
        match self {
            Self::Failed | Self::Denied | Self::Cancelled | Self::TimedOut => true,
            Self::Pending | Self::Running | Self::Waiting | Self::Succeeded | Self::Skipped => false,
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
    fn a_settled_step_accepts_only_a_retry_after_a_failure() {
        for status in StepStatus::ALL.into_iter().filter(|status| status.is_settled()) {
            for event in EVENTS {
                assert_eq!(status.apply(event), Err(IllegalStep { from: status, event }));
            }
            // A denied step is not retried.
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
