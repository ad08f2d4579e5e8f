//! Retries, delays and time-outs whose time has come.

use interlock_backend::{StoreError, Wake};
use interlock_model::TenantId;

use super::ROWS_MAX;
use crate::service::Control;

/// Makes the tenant's due runs ready for the engine. Returns how many.
pub(super) async fn ripen(control: &Control, tenant: &TenantId) -> Result<usize, StoreError> {
    let ripened = control.store.ripen(tenant, ROWS_MAX).await?;
    if ripened > 0 {
        control.wake(Wake::RunReady { tenant: tenant.clone() });
    }
    Ok(ripened)
}
