//! The life of a run. `apply` is the only way a run changes status.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Admitted: it holds a slot, and the engine has not touched it yet.
    Pending,
    Running,
    /// At least one approval is open.
    Waiting,
    Succeeded,
    Failed,
    Denied,
    Cancelled,
    TimedOut,
}

/// How a run ends.
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
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Running,
        Self::Waiting,
        Self::Succeeded,
        Self::Failed,
        Self::Denied,
        Self::Cancelled,
        Self::TimedOut,
    ];

    pub fn apply(self, event: RunEvent) -> Result<Self, IllegalRun> {
        match (self, event) {
            (Self::Pending, RunEvent::Start) | (Self::Waiting, RunEvent::CloseLastApproval) => {
                Ok(Self::Running)
            }
            (Self::Running, RunEvent::OpenApproval) => Ok(Self::Waiting),
            (Self::Pending | Self::Running | Self::Waiting, RunEvent::End(ending)) => Ok(match ending {
                Ending::Succeeded => Self::Succeeded,
                Ending::Failed => Self::Failed,
                Ending::Denied => Self::Denied,
                Ending::Cancelled => Self::Cancelled,
                Ending::TimedOut => Self::TimedOut,
            }),
            (from, event) => Err(IllegalRun { from, event }),
        }
    }

    /// Whether it has ended: it holds no slot, and nothing can happen to it any more.
    #[must_use]
    pub fn is_final(self) -> bool {
        match self {
            Self::Pending | Self::Running | Self::Waiting => false,
            Self::Succeeded | Self::Failed | Self::Denied | Self::Cancelled | Self::TimedOut => true,
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
        }
    }

    /// The status of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
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
    fn a_final_run_refuses_every_event() {
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
