//! Announces jobs again that wait for a worker, should the first word of them have been lost.

use interlock_backend::{PageRequest, StoreError};
use interlock_model::job::JobState;
use interlock_model::{TenantId, Topic};

use super::every_tenant::EveryTenant;
use crate::service::Control;

/// What one look found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitingJobs {
    pub tenants: usize,
    /// Tenants that could not be looked at this time.
    pub tenants_failed: usize,
    pub jobs_announced: usize,
}

/// How far one tenant's jobs are gone through, from the newest. One job of a topic is enough to wake its workers, who
/// then claim the oldest. Going through the jobs of a whole history would keep the store from better things; workers also
/// look by themselves.
const JOBS_A_PAGE: usize = 500;

pub(super) async fn look(control: &Control) -> Result<WaitingJobs, StoreError> {
    let mut found = WaitingJobs::default();
    let mut tenants = EveryTenant::from_the_first();
    while let Some(page) = tenants.next_page(control).await? {
        for tenant in &page {
            found.tenants += 1;
            match waiting(control, tenant).await {
                Ok(topics) => {
                    found.jobs_announced += topics.len();
                    control.announce_jobs(tenant, topics);
                }
                Err(_) => found.tenants_failed += 1,
            }
        }
    }
    Ok(found)
}

/// The topic of each job that waits.
async fn waiting(control: &Control, tenant: &TenantId) -> Result<Vec<Topic>, StoreError> {
    let newest = PageRequest { limit: JOBS_A_PAGE, after: None };
    let queued = control.store.jobs(tenant, Some(JobState::Queued), &newest).await?;
    Ok(queued.items.into_iter().map(|found| found.job.new.topic).collect())
}
