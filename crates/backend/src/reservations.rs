//! Idempotency keys that are reserved under a tenant's admission lock before their run is created.
//!
//! A reservation is a hint, and expires. [`Admit`](crate::runs::Admit) decides: it checks the lock, the key and the cap in
//! the step that creates the run.

use std::time::Duration;

use interlock_model::admission::{IdempotentIntent, Usage};
use interlock_model::run::RunStatus;
use interlock_model::tenant::SlotFlow;
use interlock_model::{Fence, IdempotencyKey, RunId, TenantId, WorkflowId};
use serde::{Deserialize, Serialize};

use crate::verb::verb;
use crate::wire;

/// Reserves a key for `run`, under the admission lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReserveIdempotencyKey {
    pub tenant: TenantId,
    pub workflow: WorkflowId,
    pub intent: IdempotentIntent,
    pub run: RunId,
    /// Of the caller's lease of the tenant's admission lock.
    pub fence: Fence,
    /// When the reservation expires.
    #[serde(serialize_with = "wire::as_millis")]
    pub lease: Duration,
}

/// The answer to a reservation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[must_use]
pub enum Reserved {
    /// The caller may use it. A reservation of another start is taken over.
    Granted,
    /// It already started `run`. No status: the run was deleted since.
    Replayed { run: RunId, status: Option<RunStatus>, usage: Usage },
    /// It started `run` with another payload.
    KeyReused { run: RunId, usage: Usage },
}

/// A tenant's live runs, and how fast their slots come free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Count {
    pub usage: Usage,
    pub slot_flow: SlotFlow,
    /// Whether a start that finds no free slot is rejected, whatever it is.
    pub rejects: bool,
}

verb!(write => ReserveIdempotencyKey, "reserve_idempotency_key", "reserve an idempotency key", Reserved);

/// Ends the reservation of a key for this very run, never one for another run, and never a key that has started one.
/// Answers whether there was such a reservation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReleaseIdempotencyKey {
    pub tenant: TenantId,
    pub workflow: WorkflowId,
    pub key: IdempotencyKey,
    pub run: RunId,
}
verb!(write => ReleaseIdempotencyKey, "release_idempotency_key", "release an idempotency key", bool);

/// What a start under the lock reads before it creates its run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountRuns {
    pub tenant: TenantId,
}
verb!(read => CountRuns, "count_runs", "count runs", Count);
