//! Work under the lease of a claimed job.

use std::future::Future;

use interlock_backend::jobs::Heartbeat;
use interlock_backend::verbs::ExtendJobLease;
use interlock_model::{Fence, JobId, TenantId};

use super::Results;
use crate::lease::{Lease, Loss, Renewal, Term, guarded};
use crate::process::Process;

/// Renews the lease while the work runs, never proof of ownership: what the work writes carries the fence of its lease.
#[must_use = "a guard without work renews nothing"]
pub struct JobLeaseGuard<'a> {
    process: &'a Process,
    tenant: TenantId,
    job: JobId,
    fence: Fence,
    term: Term,
}

impl Results {
    /// A guard for work that pushes the job to its worker, or releases it.
    pub fn guard_job(&self, tenant: &TenantId, job: &JobId, fence: Fence, term: Term) -> JobLeaseGuard<'_> {
        JobLeaseGuard { process: &self.process, tenant: tenant.clone(), job: job.clone(), fence, term }
    }
}

impl JobLeaseGuard<'_> {
    /// Runs `work`, which is dropped once the lease cannot be trusted, before the store can give the job to another.
    pub async fn guard<T>(self, work: impl Future<Output = T>) -> Result<T, Loss> {
        guarded(&self, self.term, self.process, work).await
    }
}

impl Lease for JobLeaseGuard<'_> {
    async fn renew(&self) -> Renewal {
        let (tenant, job) = (self.tenant.clone(), self.job.clone());
        let extend = ExtendJobLease { tenant, job, fence: self.fence, term: None };
        match self.process.store.call(extend).await {
            Ok(Heartbeat::Extended { lease, .. }) => Renewal::Extended(lease),
            Ok(Heartbeat::CancelRequested) => Renewal::Refused("the job was cancelled".to_owned()),
            Err(error) => Renewal::of(Err(error)),
        }
    }
}
