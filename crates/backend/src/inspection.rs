//! Checking invariants and repairing violations. Both read the rows themselves: what another verb would trust is what may
//! be wrong.

use std::time::Duration;

use async_trait::async_trait;
use interlock_model::doctor::{Finding, Invariant, RepairOutcome};
use interlock_model::{InstanceId, TenantId};

use crate::verb::verb;
use crate::{Page, PageRequest, StoreError};

/// From this number of dead letters on, a tenant's are reported as too many.
pub const DEAD_LETTERS_REPORTED_FROM: usize = 1_000;

/// Keys of runs that were made longer ago are not checked: such a run may have been deleted, and its mark removed since.
pub const KEYS_JUDGED_FOR: Duration = Duration::from_hours(23);

/// Looks for violations of one invariant among one tenant's rows, without those that [`InspectUnlisted`] looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspect {
    pub tenant: TenantId,
    /// One of the realm `Tenant`.
    pub invariant: Invariant,
    /// What is late by less than this is in progress.
    pub grace: Duration,
    /// How many rows are looked at, and after which. A page may hold fewer findings than rows, or none.
    pub page: PageRequest,
}

/// The invariants of idempotency keys and queues.
pub const OF_UNLISTED: [Invariant; 4] = [
    Invariant::KeyWithoutRun,
    Invariant::ReservationLeftBehind,
    Invariant::QueueEntryWithoutJob,
    Invariant::RowDamaged,
];

/// Looks for violations of one invariant among idempotency keys and queues. On Redis no list leads to them, so that it
/// takes a pass over all keys, whether for one tenant or for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InspectUnlisted {
    /// None: those of every tenant.
    pub tenant: Option<TenantId>,
    /// One of [`OF_UNLISTED`].
    pub invariant: Invariant,
    /// What is late by less than this is in progress.
    pub grace: Duration,
    /// How many keys are looked at, about, and after which. A page may hold more findings, fewer, or none.
    pub page: PageRequest,
}

/// Repairs one finding, if it is still one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    pub tenant: TenantId,
    pub invariant: Invariant,
    pub subject: String,
    pub grace: Duration,
}

verb!(read => Inspect, "inspect", "check invariants", Page<Finding>);

verb!(read => InspectUnlisted, "inspect_unlisted", "check keys and queues", Page<Finding>);

verb!(write => Repair, "repair", "repair a violation", RepairOutcome);

/// The result of one check beneath the store and the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probed {
    /// It was checked, and holds.
    Sound(Invariant),
    Found(Finding),
    /// It could not be checked: one sentence about why.
    Unseen {
        invariant: Invariant,
        reason: String,
    },
}

/// Checks the servers beneath, which no store or bus can judge by its own rows.
#[async_trait]
pub trait Probe: Send + Sync {
    /// Checks everything of the realm `Installation` that it knows. It answers in bounded time whatever is down.
    async fn probe(&self) -> Vec<Probed>;

    /// Other processes that are known to live.
    async fn live_instances(&self) -> Result<Vec<InstanceId>, StoreError> {
        Ok(Vec::new())
    }

    /// Repairs one of its own findings. [`RepairOutcome::NothingToDo`] for another's.
    async fn repair(&self, invariant: Invariant, subject: &str) -> Result<RepairOutcome, StoreError>;
}
