//! Looking for what must not be, and mending it. Both look at the rows themselves: what a verb would trust is what may be wrong.

use std::time::Duration;

use async_trait::async_trait;
use interlock_model::TenantId;
use interlock_model::doctor::{Finding, Invariant, Mending};

use crate::{Page, PageRequest, StoreError};

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
