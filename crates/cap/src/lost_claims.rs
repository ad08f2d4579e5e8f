//! Claims without an answer: the store may have leased jobs that nobody will ever push.

use interlock_backend::verbs::ListJobs;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use interlock_backend::jobs::JobView;
use interlock_backend::{PageRequest, StoreError};
use interlock_model::job::JobState;
use interlock_model::{TenantId, Timestamp, WorkerId};

use crate::edge::Shared;
use crate::push::Returns;

/// How far our idea of the store's clock may be off.
const CLOCK_MARGIN: Duration = Duration::from_secs(1);

/// Claims that are remembered; beyond that, the step's time-out has to do.
const CLAIMS_MAX: usize = 1_000;

/// Where the tenant's running jobs are looked through.
const JOBS_A_PAGE: usize = 500;
const PAGES_MAX: usize = 20;

/// A claim that was asked for, and may have been granted between these two moments.
#[derive(Debug, Clone)]
pub(crate) struct LostClaim {
    pub(crate) tenant: TenantId,
    pub(crate) worker: WorkerId,
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
}

#[derive(Debug, Default)]
pub(crate) struct LostClaims {
    waiting: Mutex<Vec<LostClaim>>,
}

impl LostClaims {
    pub(crate) fn remember(&self, claim: LostClaim) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < CLAIMS_MAX {
            waiting.push(claim);
        }
    }

    fn take_one(&self) -> Option<LostClaim> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Has what these claims may have leased given back. A job that another replica pushed to the same worker in the
    /// same moment may be among it; it is then done twice, and counts once.
    pub(crate) async fn settle(&self, shared: &Shared, returns: &Returns) -> Result<(), StoreError> {
        while let Some(claim) = self.take_one() {
            let granted = granted(shared, &claim).await.inspect_err(|_| self.remember(claim.clone()))?;
            for found in granted {
                if let Some(lease) = &found.lease {
                    returns.add(&claim.tenant, &found.job.new.id, lease.fence);
                }
            }
        }
        Ok(())
    }
}

async fn granted(shared: &Shared, claim: &LostClaim) -> Result<Vec<JobView>, StoreError> {
    let mut granted = Vec::new();
    let mut page = PageRequest { limit: JOBS_A_PAGE, after: None };
    for _ in 0..PAGES_MAX {
        let running = shared
            .store
            .call(ListJobs {
                tenant: claim.tenant.clone(),
                state: Some(JobState::Running),
                page: page.clone(),
            })
            .await?;
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
