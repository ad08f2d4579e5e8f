//! Idempotency keys that are reserved under a tenant's admission lock before their run is created.
//!
//! A reservation is a hint, and ends by itself. What it stands for is decided by [`admit`](crate::runs::RunStore::admit),
//! which looks at the lock, the key and the cap in the step that creates the run.

use std::time::Duration;

use async_trait::async_trait;
use interlock_model::admission::{IdempotentIntent, Usage};
use interlock_model::run::RunStatus;
use interlock_model::tenant::SlotFlow;
use interlock_model::{Fence, IdempotencyKey, RunId, TenantId, WorkflowId};

use crate::StoreError;

/// Somebody under the admission lock who means to start `run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserve {
    pub tenant: TenantId,
    pub workflow: WorkflowId,
    pub intent: IdempotentIntent,
    pub run: RunId,
    /// Of the caller's hold on the tenant's admission lock.
    pub fence: Fence,
    /// How long the reservation lasts without another word.
    pub lease: Duration,
}

/// What became of a key that was to be reserved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Reserved {
    /// It is the caller's to use. A reservation that somebody else had is taken over.
    Granted,
    /// It already started `run`. No status: the run was deleted since.
    Replayed { run: RunId, status: Option<RunStatus>, usage: Usage },
    /// It started `run` with another payload.
    KeyReused { run: RunId, usage: Usage },
}

/// A tenant's live runs, and how fast their slots come free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    pub usage: Usage,
    pub slot_flow: SlotFlow,
}

#[async_trait]
pub trait ReservationStore: Send + Sync {
    /// Reserves the key for a run, unless it has started one. Refused if the caller does not hold the tenant's admission
    /// lock under its fence now.
    async fn reserve_key(&self, reserve: &Reserve) -> Result<Reserved, StoreError>;

    /// Ends the reservation of a key for this very run, never one for another run, and never a key that has started one.
    /// Whether there was such a reservation.
    async fn release_key(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowId,
        key: &IdempotencyKey,
        run: RunId,
    ) -> Result<bool, StoreError>;

    /// What a start under the lock looks at before it creates its run.
    async fn count_runs(&self, tenant: &TenantId) -> Result<Count, StoreError>;
}
