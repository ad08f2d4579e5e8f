//! The state machine of a run. `apply` is the only way to change its status.

crate::named_enum! {
    #[derive(Default)]
    pub enum RunStatus {
        /// Accepted without a slot; it waits for one.
        Queued = "queued",
        /// Admitted with a slot, but not yet advanced by the engine.
        #[default]
        Pending = "pending",
        Running = "running",
        /// At least one approval is open.
        Waiting = "waiting",
        Succeeded = "succeeded",
        Failed = "failed",
        Denied = "denied",
        Cancelled = "cancelled",
        TimedOut = "timed_out",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Succeeded,
    Failed,
    Denied,
    Cancelled,
    TimedOut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEvent {
    /// A queued run has got its slot.
    Grant,
    Start,
    OpenApproval,
    CloseLastApproval,
    End(Ending),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a {from:?} run cannot take {event:?}")]
pub struct IllegalRun {
    pub from: RunStatus,
    pub event: RunEvent,
}

impl RunStatus {
    pub fn apply(self, event: RunEvent) -> Result<Self, IllegalRun> {
        match (self, event) {
            (Self::Queued, RunEvent::Grant) => Ok(Self::Pending),
            (Self::Pending, RunEvent::Start) | (Self::Waiting, RunEvent::CloseLastApproval) => {
                Ok(Self::Running)
            }
            (Self::Running, RunEvent::OpenApproval) => Ok(Self::Waiting),
            (Self::Queued | Self::Pending | Self::Running | Self::Waiting, RunEvent::End(ending)) => {
                Ok(match ending {
                    Ending::Succeeded => Self::Succeeded,
                    Ending::Failed => Self::Failed,
                    Ending::Denied => Self::Denied,
                    Ending::Cancelled => Self::Cancelled,
                    Ending::TimedOut => Self::TimedOut,
                })
            }
            (from, event) => Err(IllegalRun { from, event }),
        }
    }

    /// Whether the run has ended and released its slot.
    pub fn is_final(self) -> bool {
        match self {
            Self::Queued | Self::Pending | Self::Running | Self::Waiting => false,
            Self::Succeeded | Self::Failed | Self::Denied | Self::Cancelled | Self::TimedOut => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [RunEvent; 8] = [
        RunEvent::Start,
        RunEvent::OpenApproval,
        RunEvent::CloseLastApproval,
        RunEvent::End(Ending::Succeeded),
        RunEvent::End(Ending::Failed),
        RunEvent::End(Ending::Denied),
        RunEvent::End(Ending::Cancelled),
        RunEvent::End(Ending::TimedOut),
    ];

    #[test]
    fn a_final_run_rejects_every_event() {
        for status in RunStatus::ALL.into_iter().filter(|status| status.is_final()) {
            for event in EVENTS {
                assert_eq!(status.apply(event), Err(IllegalRun { from: status, event }));
            }
        }
    }

    #[test]
    fn every_live_run_can_end() {
        for status in RunStatus::ALL.into_iter().filter(|status| !status.is_final()) {
            assert!(status.apply(RunEvent::End(Ending::Cancelled)).is_ok_and(RunStatus::is_final));
        }
    }
}
