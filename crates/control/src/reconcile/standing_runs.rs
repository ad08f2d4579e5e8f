//! The slow look for runs that stand still, through every tenant.

use interlock_backend::{StoreError, Wake};

use super::every_tenant::EveryTenant;
use super::{TENANTS_MAX, due_timers};
use crate::service::Control;

/// What one look found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StandingRuns {
    pub tenants: usize,
    /// Tenants that could not be looked at this time.
    pub tenants_failed: usize,
    /// Runs whose retry, delay or time-out had come due unnoticed.
    pub runs_ripened: usize,
    /// Tenants with runs that are ready; their engines were woken.
    pub tenants_ready: usize,
}

pub(super) async fn look(control: &Control) -> Result<StandingRuns, StoreError> {
    let mut found = StandingRuns::default();
    let mut tenants = EveryTenant::from_the_first();
    while let Some(page) = tenants.next_page(control).await? {
        for tenant in &page {
            found.tenants += 1;
            match due_timers::ripen(control, tenant).await {
                Ok(ripened) => found.runs_ripened += ripened,
                Err(_) => found.tenants_failed += 1,
            }
        }
    }
    for tenant in control.store.due(TENANTS_MAX).await?.ready {
        found.tenants_ready += 1;
        control.wake(Wake::RunReady { tenant });
    }
    Ok(found)
}
