//! Retries, delays and time-outs whose time has come.

use interlock_backend::{StoreError, Wake};
use interlock_model::TenantId;

use super::ROWS_MAX;
use super::every_tenant::EveryTenant;
use crate::service::Control;

/// What one slow look found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DueTimers {
    pub tenants: usize,
    /// Tenants that could not be looked at this time.
    pub tenants_failed: usize,
    /// Runs whose retry, delay or time-out had come due unnoticed.
    pub runs_ripened: usize,
}

/// Makes the tenant's due runs ready for the engine. Returns how many.
pub(super) async fn ripen(control: &Control, tenant: &TenantId) -> Result<usize, StoreError> {
    let ripened = control.store.ripen(tenant, ROWS_MAX).await?;
    if ripened > 0 {
        control.wake(Wake::RunReady { tenant: tenant.clone() });
    }
    Ok(ripened)
}

/// The slow look, through every tenant: the quick one goes by an index.
pub(super) async fn look(control: &Control) -> Result<DueTimers, StoreError> {
    let mut found = DueTimers::default();
    let mut tenants = EveryTenant::from_the_first();
    while let Some(page) = tenants.next_page(control).await? {
        for tenant in &page {
            found.tenants += 1;
            match ripen(control, tenant).await {
                Ok(ripened) => found.runs_ripened += ripened,
                Err(_) => found.tenants_failed += 1,
            }
        }
    }
    Ok(found)
}
