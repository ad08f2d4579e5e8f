//! Wakes the engine for runs that are ready and that no wake-up reached.

use interlock_backend::verbs::FindDue;
use interlock_backend::{StoreError, Wake};

use super::TENANTS_MAX;
use crate::process::Process;

/// What one look found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StuckRuns {
    /// Tenants with runs that are ready; their engines were woken.
    pub tenants_ready: usize,
}

pub(super) async fn look(process: &Process) -> Result<StuckRuns, StoreError> {
    let mut found = StuckRuns::default();
    for tenant in process.store.call(FindDue { limit: TENANTS_MAX }).await?.ready {
        found.tenants_ready += 1;
        process.wake(Wake::RunReady { tenant });
    }
    Ok(found)
}
