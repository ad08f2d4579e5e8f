//! Announces jobs again that wait for a worker, should the first word of them have been lost, and puts those back into
//! their queue that are in none.

use interlock_backend::StoreError;

use super::every_tenant::EveryTenant;
use crate::service::Control;

/// What one look found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitingJobs {
    pub tenants: usize,
    /// Tenants that could not be looked at this time.
    pub tenants_failed: usize,
    pub jobs_announced: usize,
    /// Jobs that nobody could have had: open, with nobody, and in no queue.
    pub jobs_put_back: usize,
}

/// How far one tenant's jobs are gone through, from the newest. One job of a topic is enough to wake its workers, who
/// then claim the oldest. Going through the jobs of a whole history would keep the store from better things; workers also
/// look by themselves.
const JOBS_A_LOOK: usize = 500;

pub(super) async fn look(control: &Control) -> Result<WaitingJobs, StoreError> {
    let mut found = WaitingJobs::default();
    let mut tenants = EveryTenant::from_the_first();
    while let Some(page) = tenants.next_page(control).await? {
        for tenant in &page {
            found.tenants += 1;
            let Ok(replayed) = control.store.replay(tenant, JOBS_A_LOOK).await else {
                found.tenants_failed += 1;
                continue;
            };
            found.jobs_announced += replayed.waiting.len();
            found.jobs_put_back += replayed.put_back.len();
            control.counts.count_orphans(replayed.put_back.len());
            control.announce_jobs(tenant, replayed.waiting);
        }
    }
    Ok(found)
}
