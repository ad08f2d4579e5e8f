//! The slow look for runs that stand still: their tenants' engines are woken.

use interlock_backend::{StoreError, Wake};

use super::TENANTS_MAX;
use crate::service::Control;

/// What one look found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StandingRuns {
    /// Tenants with runs that are ready; their engines were woken.
    pub tenants_ready: usize,
}

pub(super) async fn look(control: &Control) -> Result<StandingRuns, StoreError> {
    let mut found = StandingRuns::default();
    for tenant in control.store.due(TENANTS_MAX).await?.ready {
        found.tenants_ready += 1;
        control.wake(Wake::RunReady { tenant });
    }
    Ok(found)
}
