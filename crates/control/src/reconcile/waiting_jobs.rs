//! Announces jobs again that wait for a worker, should the first word of them have been lost, and puts those back into
//! their queue that are in none.

use interlock_backend::StoreError;
use interlock_backend::verbs::RequeueJobs;

use crate::every_tenant::EveryTenant;
use crate::process::Process;

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

pub(super) async fn look(process: &Process) -> Result<WaitingJobs, StoreError> {
    let mut found = WaitingJobs::default();
    let mut tenants = EveryTenant::new();
    while let Some(page) = tenants.next_page(process).await? {
        for tenant in &page {
            found.tenants += 1;
            let Ok(replayed) =
                process.store.call(RequeueJobs { tenant: tenant.clone(), limit: JOBS_A_LOOK }).await
            else {
                found.tenants_failed += 1;
                continue;
            };
            found.jobs_announced += replayed.waiting.len();
            found.jobs_put_back += replayed.put_back.len();
            process.counts.count_orphans(replayed.put_back.len());
            process.announce_jobs(tenant, replayed.waiting);
        }
    }
    Ok(found)
}
