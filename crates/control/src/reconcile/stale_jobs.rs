//! Jobs whose worker was not heard of for longer than its lease.

use interlock_backend::{StoreError, Wake};
use interlock_model::TenantId;

use super::ROWS_MAX;
use crate::journal;
use crate::service::Control;

/// Ends the tenant's stale jobs, so that their steps go to other workers. Returns how many.
pub(super) async fn expire(control: &Control, tenant: &TenantId) -> Result<usize, StoreError> {
    let lost = control.store.expire(tenant, ROWS_MAX).await?;
    journal::lost(tenant, &lost);
    if !lost.is_empty() {
        control.wake(Wake::RunReady { tenant: tenant.clone() });
    }
    Ok(lost.len())
}
