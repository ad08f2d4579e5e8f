//! Why a store call did not do its work.

use interlock_model::Fence;

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
}
