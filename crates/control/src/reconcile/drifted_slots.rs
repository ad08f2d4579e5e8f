//! Compares slots with the runs that hold them, through every tenant.

use interlock_backend::StoreError;
use interlock_model::TenantId;

use super::ROWS_MAX;
use super::every_tenant::EveryTenant;
use crate::service::Control;

/// What one look found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DriftedSlots {
    pub tenants: usize,
    /// Tenants that could not be looked at this time.
    pub tenants_failed: usize,
    /// Slots without a live run, live runs without a slot, and counts that were wrong.
    pub found: usize,
    pub mended: usize,
}

/// Pages of a tenant's runs that one look goes through beyond the newest, from where the last look stopped.
const PAGES_MAX: usize = 3;

pub(super) async fn look(control: &Control) -> Result<DriftedSlots, StoreError> {
    let mut found = DriftedSlots::default();
    let mut tenants = EveryTenant::from_the_first();
    while let Some(page) = tenants.next_page(control).await? {
        for tenant in &page {
            found.tenants += 1;
            if look_at(control, tenant, &mut found).await.is_err() {
                found.tenants_failed += 1;
            }
        }
    }
    control.counts.found_drift(found.found);
    if found.found > 0 {
        tracing::warn!(found = found.found, mended = found.mended, "slots and runs did not agree");
    }
    Ok(found)
}

async fn look_at(control: &Control, tenant: &TenantId, found: &mut DriftedSlots) -> Result<(), StoreError> {
    // All slots and the newest runs at every look, older runs a few pages at a time.
    let newest = control.store.mend_slots(tenant, None, ROWS_MAX).await?;
    found.found += newest.found;
    found.mended += newest.mended;
    let mut after = control.slot_walks.take(tenant).or(newest.next);
    for _ in 0..PAGES_MAX {
        let Some(place) = after else { return Ok(()) };
        let page = control.store.mend_slots(tenant, Some(place), ROWS_MAX).await?;
        found.found += page.found;
        found.mended += page.mended;
        after = page.next;
    }
    if let Some(place) = after {
        control.slot_walks.keep(tenant, place);
    }
    Ok(())
}
