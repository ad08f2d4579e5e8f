//! Looking for what must not be, and mending it. Both look at the rows themselves: what a verb would trust is what may
//! be wrong.

use std::time::Duration;

use async_trait::async_trait;
use interlock_model::TenantId;
use interlock_model::doctor::{Finding, Invariant, Mending};

use crate::{Page, PageRequest, StoreError};

/// Dead letters of one tenant from which on somebody is told that there are many.
pub const LETTERS_TOLD_FROM: usize = 1_000;

/// Keys of runs that were made longer ago are not judged: such a run may have been deleted, and the mark that tells so
/// removed since.
pub const KEYS_JUDGED_FOR: Duration = Duration::from_hours(23);

/// One look for violations of one invariant among one tenant's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    pub tenant: TenantId,
    /// One of the realm `Tenant`.
    pub invariant: Invariant,
    /// What is late by less than this is not late: it is being done.
    pub grace: Duration,
    /// How many rows are looked at, and after which. A page may hold fewer findings than rows, or none.
    pub page: PageRequest,
}

/// One finding that is to be mended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    pub tenant: TenantId,
    pub invariant: Invariant,
    pub subject: String,
    pub grace: Duration,
}

#[async_trait]
pub trait InspectionStore: Send + Sync {
    /// Looks at one page of rows. Changes nothing.
    async fn inspect(&self, inspection: &Inspection) -> Result<Page<Finding>, StoreError>;

    /// Looks at the subject of a finding once more and mends it, in one step. Asked again, there is nothing to do.
    async fn mend(&self, repair: &Repair) -> Result<Mending, StoreError>;
}

/// What came of looking at one thing beneath the store and the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probed {
    /// It was looked at, and is as it must be.
    Sound(Invariant),
    Found(Finding),
    /// It could not be looked at: one sentence about why.
    Unseen {
        invariant: Invariant,
        reason: String,
    },
}

/// Looks at the servers beneath, which no store or bus can judge by its own rows.
#[async_trait]
pub trait Probe: Send + Sync {
    /// Looks at everything of the realm `Installation` that it knows. It answers in bounded time whatever is down.
    async fn probe(&self) -> Vec<Probed>;

    /// Mends one of its own findings. [`Mending::NothingToDo`] for another's.
    async fn mend(&self, invariant: Invariant, subject: &str) -> Result<Mending, StoreError>;
}
