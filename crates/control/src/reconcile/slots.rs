//! Compares a tenant's slots with the runs that hold them.

use interlock_backend::StoreError;
use interlock_backend::verbs::RepairSlots;
use interlock_model::TenantId;

use super::ticking::TickReport;
use super::{ROWS_MAX, Reconcilers};

/// Pages of a tenant's runs that one scan reads beyond the newest, from where the last scan stopped.
const PAGES_MAX: usize = 3;

/// Reads all slots and the newest runs at every scan, older runs a few pages at a time.
pub(super) async fn repair(
    reconcilers: &Reconcilers,
    tenant: &TenantId,
    report: &mut TickReport,
) -> Result<(), StoreError> {
    let mut repair = RepairSlots { tenant: tenant.clone(), after: None, limit: ROWS_MAX };
    let newest = reconcilers.process.call(repair.clone()).await?;
    report.slots_drifted += newest.found;
    report.slots_repaired += newest.repaired;
    repair.after = reconcilers.slot_walks.take(tenant).or(newest.next);
    for _ in 0..PAGES_MAX {
        if repair.after.is_none() {
            return Ok(());
        }
        let page = reconcilers.process.call(repair.clone()).await?;
        report.slots_drifted += page.found;
        report.slots_repaired += page.repaired;
        repair.after = page.next;
    }
    if let Some(place) = repair.after {
        reconcilers.slot_walks.keep(tenant, place);
    }
    Ok(())
}
