//! Claims without an answer: the store may have leased jobs that this process will never push.

use std::time::Duration;

use interlock_backend::jobs::JobView;
use interlock_backend::verbs::ListJobs;
use interlock_backend::{PageRequest, StoreError};
use interlock_model::job::JobState;
use interlock_model::{TenantId, Timestamp, WorkerId};

use crate::edge::Shared;
use crate::push::DispatchedJob;

/// How far the estimate of the store's clock may be off.
const CLOCK_MARGIN: Duration = Duration::from_secs(1);

/// Claims that are remembered; the lease of a further one must expire.
const CLAIMS_MAX: usize = 1_000;

/// How far the running jobs of a tenant are searched.
const JOBS_A_PAGE: usize = 500;
const PAGES_MAX: usize = 20;

/// A claim that may have been granted between these two moments.
#[derive(Debug, Clone)]
pub(crate) struct LostClaim {
    pub(crate) tenant: TenantId,
    pub(crate) worker: WorkerId,
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
}

pub(crate) fn remember(claims: &mut Vec<LostClaim>, claim: LostClaim) {
    if claims.len() < CLAIMS_MAX {
        claims.push(claim);
    }
}

/// Has the jobs released that these claims may have leased. A job that another replica pushed to the same worker at the
/// same moment may be among them; it is then done twice and counted once.
pub(crate) async fn settle(
    shared: &Shared,
    claims: &mut Vec<LostClaim>,
    unpushed: &mut Vec<DispatchedJob>,
) -> Result<(), StoreError> {
    while let Some(claim) = claims.last() {
        for granted in granted(shared, claim).await? {
            if let Some(lease) = &granted.lease {
                let (tenant, job) = (claim.tenant.clone(), granted.job.new.id.clone());
                unpushed.push(DispatchedJob { tenant, job, fence: lease.fence });
            }
        }
        claims.pop();
    }
    Ok(())
}

async fn granted(shared: &Shared, claim: &LostClaim) -> Result<Vec<JobView>, StoreError> {
    let mut granted = Vec::new();
    let mut page = PageRequest { limit: JOBS_A_PAGE, after: None };
    for _ in 0..PAGES_MAX {
        let (tenant, state) = (claim.tenant.clone(), Some(JobState::Running));
        let running = shared.store.call(ListJobs { tenant, state, page: page.clone() }).await?;
        granted.extend(running.items.into_iter().filter(|found| claim.may_have_granted(found)));
        let Some(next) = running.next else { break };
        page.after = Some(next);
    }
    granted.retain(|found| shared.pushed.find(&found.job.new.id).is_none());
    Ok(granted)
}

impl LostClaim {
    fn may_have_granted(&self, found: &JobView) -> bool {
        let (from, until) = (self.from - CLOCK_MARGIN, self.until + CLOCK_MARGIN);
        found.lease.as_ref().is_some_and(|lease| {
            lease.worker == self.worker && lease.claimed_at >= from && lease.claimed_at <= until
        })
    }
}
