//! Compares slots with the runs that hold them, through every tenant.

use interlock_backend::StoreError;
use interlock_backend::verbs::RepairSlots;
use interlock_model::TenantId;

use super::{ROWS_MAX, Reconcilers};
use crate::every_tenant::EveryTenant;

/// What one look found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DriftedSlots {
    pub tenants: usize,
    /// Tenants that could not be looked at this time.
    pub tenants_failed: usize,
    /// Slots without a live run, live runs without a slot, and counts that were wrong.
    pub found: usize,
    pub repaired: usize,
}

/// Pages of a tenant's runs that one look goes through beyond the newest, from where the last look stopped.
const PAGES_MAX: usize = 3;

pub(super) async fn look(reconcilers: &Reconcilers) -> Result<DriftedSlots, StoreError> {
    let mut found = DriftedSlots::default();
    let mut tenants = EveryTenant::new();
    while let Some(page) = tenants.next_page(&reconcilers.process).await? {
        for tenant in &page {
            found.tenants += 1;
            if look_at(reconcilers, tenant, &mut found).await.is_err() {
                found.tenants_failed += 1;
            }
        }
    }
    reconcilers.process.counts.found_drift(found.found);
    if found.found > 0 {
        tracing::warn!(found = found.found, repaired = found.repaired, "slots and runs did not agree");
    }
    Ok(found)
}

async fn look_at(
    reconcilers: &Reconcilers,
    tenant: &TenantId,
    found: &mut DriftedSlots,
) -> Result<(), StoreError> {
    // All slots and the newest runs at every look, older runs a few pages at a time.
    let newest = reconcilers
        .process
        .store
        .call(RepairSlots { tenant: tenant.clone(), after: None, limit: ROWS_MAX })
        .await?;
    found.found += newest.found;
    found.repaired += newest.repaired;
    let mut after = reconcilers.slot_walks.take(tenant).or(newest.next);
    for _ in 0..PAGES_MAX {
        let Some(place) = after else { return Ok(()) };
        let page = reconcilers
            .process
            .store
            .call(RepairSlots { tenant: tenant.clone(), after: Some(place), limit: ROWS_MAX })
            .await?;
        found.found += page.found;
        found.repaired += page.repaired;
        after = page.next;
    }
    if let Some(place) = after {
        reconcilers.slot_walks.keep(tenant, place);
    }
    Ok(())
}
