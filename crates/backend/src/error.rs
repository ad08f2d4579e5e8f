//! Why a store call did not do its work.

use interlock_model::Fence;
use serde::Deserialize;

/// What became of a call that got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It certainly did not happen.
    NotDone,
    /// Neither did it happen: the store has no room for it.
    StorageFull,
    /// It may have happened, or happen yet.
    Unknown,
}

/// What there may be only a number of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quota {
    Tenants,
    Workflows,
    WorkflowVersions,
    Workers,
    Limits,
    /// Events that no step of a run has taken.
    UntakenEvents,
    /// Events that a run ever gets.
    RunEvents,
    /// Events that a tenant has sent to keys, or that are kept for one of them.
    KeyedEvents,
    KeptEvents,
}

impl Quota {
    fn sentence(self, most: u32) -> String {
        match self {
            Self::Tenants => format!(
                "there are {most} tenants, the maximum; an operator raises `max_tenants` of the system's limits"
            ),
            Self::Workflows => format!(
                "the tenant has used {most} workflow ids, the maximum, deleted workflows included; save it as a new \
                 version of one of them, or let an operator raise `max_workflows`"
            ),
            Self::WorkflowVersions => format!(
                "the workflow has {most} versions, the maximum; save it under another id, or let an operator raise \
                 `max_workflow_versions`"
            ),
            Self::Workers => format!(
                "the tenant has {most} workers, the maximum; give workers names that stay, or let an operator raise \
                 `max_workers`; a worker that has not claimed for a day is forgotten"
            ),
            Self::Limits => format!("the tenant has {most} limits, the maximum; delete one of them first"),
            Self::UntakenEvents => format!(
                "the run keeps {most} events, or 1 MiB of them, that no step has taken, the maximum; send it again when a \
                 step has taken one"
            ),
            Self::KeyedEvents => format!(
                "the tenant has sent {most} events to keys within a day, or 64 MiB of them are kept, the maximum; send it \
                 again later, or send it to a run"
            ),
            Self::KeptEvents => {
                format!("{most} events are kept for this key, the maximum; no run waits for it")
            }
            Self::RunEvents => format!("the run has got {most} events, the maximum; start another run"),
        }
    }
}

/// Why a store call did not happen. A refusal that the caller must handle is a variant of its own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The thing is not there, or it is another tenant's: the two look the same from outside.
    #[error("there is no {what} {id}")]
    NotFound { what: &'static str, id: String },
    #[error("fence {held} is stale: the store is at {current}")]
    Fenced { held: Fence, current: Fence },
    /// The thing is not in a state in which this can be done.
    #[error("{0}")]
    Conflict(String),
    /// There are as many of these as there may be.
    #[error("{}", quota.sentence(*most))]
    QuotaReached { quota: Quota, most: u32 },
    #[error("the store did not answer while trying to {action}: {reason}")]
    Unavailable { action: &'static str, effect: Effect, reason: String },
    /// What the store holds cannot be read: a bug, or a damaged file.
    #[error("{table} {key} cannot be read: {reason}")]
    Damaged { table: &'static str, key: String, reason: String },
}

impl StoreError {
    pub fn not_found(what: &'static str, id: impl std::fmt::Display) -> Self {
        Self::NotFound { what, id: id.to_string() }
    }

    /// Whether the store has decided against the call. If not, it could not decide, and may be asked again.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::NotFound { .. } | Self::Fenced { .. } | Self::Conflict(_) | Self::QuotaReached { .. } => {
                true
            }
            Self::Unavailable { .. } | Self::Damaged { .. } => false,
        }
    }
}
