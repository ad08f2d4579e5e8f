//! Fires retries, delays and timeouts that are due.

use interlock_backend::verbs::FireTimers;
use interlock_backend::{StoreError, Wake};
use interlock_model::TenantId;

use super::ROWS_MAX;
use crate::every_tenant::EveryTenant;
use crate::process::Process;

/// What one slow look found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DueTimers {
    pub tenants: usize,
    /// Tenants that could not be looked at this time.
    pub tenants_failed: usize,
    /// Runs whose retry, delay or timeout was overdue.
    pub runs_fired: usize,
}

/// Makes the tenant's due runs ready for the engine. Returns how many.
pub(super) async fn fire(process: &Process, tenant: &TenantId) -> Result<usize, StoreError> {
    let fired = process.store.call(FireTimers { tenant: tenant.clone(), limit: ROWS_MAX }).await?;
    if fired > 0 {
        process.wake(Wake::RunReady { tenant: tenant.clone() });
    }
    Ok(fired)
}

/// The slow look, through every tenant: the quick one goes by an index.
pub(super) async fn look(process: &Process) -> Result<DueTimers, StoreError> {
    let mut found = DueTimers::default();
    let mut tenants = EveryTenant::new();
    while let Some(page) = tenants.next_page(process).await? {
        for tenant in &page {
            found.tenants += 1;
            match fire(process, tenant).await {
                Ok(fired) => found.runs_fired += fired,
                Err(_) => found.tenants_failed += 1,
            }
        }
    }
    Ok(found)
}
