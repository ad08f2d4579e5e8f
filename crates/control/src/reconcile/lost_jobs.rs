//! The slow look for jobs whose lease has run out, through every tenant.

use interlock_backend::StoreError;
use interlock_model::TenantId;
use interlock_model::job::StaleState;

use super::{ROWS_MAX, stale_jobs};
use crate::every_tenant::EveryTenant;
use crate::process::Process;

/// What one look found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LostJobs {
    pub tenants: usize,
    /// Tenants that could not be looked at this time.
    pub tenants_failed: usize,
    /// Jobs without a live lease, before they were ended: `dispatched` and `running`.
    pub stale: [usize; StaleState::ALL.len()],
    /// Jobs that the quick look had missed.
    pub jobs_lost: usize,
}

/// Steps that one tenant is given at a look; the rest waits for the next.
const STEPS_MAX: usize = 20;

pub(super) async fn look(process: &Process) -> Result<LostJobs, StoreError> {
    let mut found = LostJobs::default();
    let mut tenants = EveryTenant::new();
    while let Some(page) = tenants.next_page(process).await? {
        for tenant in &page {
            found.tenants += 1;
            if look_at(process, tenant, &mut found).await.is_err() {
                found.tenants_failed += 1;
            }
        }
    }
    for (state, jobs) in StaleState::ALL.into_iter().zip(found.stale) {
        process.counts.found_stale(state, jobs);
    }
    Ok(found)
}

async fn look_at(process: &Process, tenant: &TenantId, found: &mut LostJobs) -> Result<(), StoreError> {
    let stale = stale_jobs::count(process, tenant).await?;
    found.stale.iter_mut().zip(stale).for_each(|(sum, jobs)| *sum += jobs);
    for _ in 0..STEPS_MAX {
        let lost = stale_jobs::expire(process, tenant).await?;
        found.jobs_lost += lost;
        if lost < ROWS_MAX {
            break;
        }
    }
    Ok(())
}
