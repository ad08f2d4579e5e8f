//! Jobs whose worker was not heard of for longer than its lease.

use interlock_backend::verbs::{ExpireLeases, ListExpiredLeases};
use interlock_backend::{StoreError, Wake};
use interlock_model::TenantId;
use interlock_model::job::StaleState;

use super::ROWS_MAX;
use crate::journal;
use crate::process::Process;

/// Ends the tenant's stale jobs, so that their steps go to other workers. Returns how many.
pub(super) async fn expire(process: &Process, tenant: &TenantId) -> Result<usize, StoreError> {
    let lost = process.store.call(ExpireLeases { tenant: tenant.clone(), limit: ROWS_MAX }).await?;
    journal::lost(tenant, &lost);
    if !lost.is_empty() {
        process.wake(Wake::RunReady { tenant: tenant.clone() });
    }
    Ok(lost.len())
}

/// How many there are that nobody has ended yet: those whose worker was never heard of, and those that were running.
pub(super) async fn count(
    process: &Process,
    tenant: &TenantId,
) -> Result<[usize; StaleState::ALL.len()], StoreError> {
    let stale = process.store.call(ListExpiredLeases { tenant: tenant.clone(), limit: ROWS_MAX }).await?;
    let of = |state| stale.iter().filter(|(_, lease)| lease.stale_state() == state).count();
    Ok(StaleState::ALL.map(of))
}
