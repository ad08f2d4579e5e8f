//! Jobs whose worker was not heard of for longer than its lease.

use interlock_backend::{StoreError, Wake};
use interlock_model::TenantId;
use interlock_model::job::StaleState;

use super::ROWS_MAX;
use crate::service::Control;

/// Ends the tenant's stale jobs, so that their steps go to other workers. Returns how many.
pub(super) async fn expire(control: &Control, tenant: &TenantId) -> Result<usize, StoreError> {
    let lost = control.store.expire(tenant, ROWS_MAX).await?;
    if !lost.is_empty() {
        control.wake(Wake::RunReady { tenant: tenant.clone() });
    }
    Ok(lost.len())
}

/// How many there are that nobody has ended yet: those whose worker was never heard of, and those that were running.
pub(super) async fn count(
    control: &Control,
    tenant: &TenantId,
) -> Result<[usize; StaleState::ALL.len()], StoreError> {
    let stale = control.store.leases_run_out(tenant, ROWS_MAX).await?;
    let of = |state| stale.iter().filter(|(_, lease)| lease.stale_state() == state).count();
    Ok(StaleState::ALL.map(of))
}
