//! A lock on one item of work: held while the work runs, given back after it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use interlock_backend::Store;
use interlock_backend::jobs::Heartbeat;
use interlock_model::lock::LockName;
use interlock_model::{Fence, JobId, LockToken, TenantId};
use tokio::time::timeout_at;

use super::lease::{Lease, Loss, Renewal, Term, guarded};
use crate::service::Control;

/// A promise to keep trying, never proof of ownership: what the work writes carries the fence of its lease.
///
/// Dropped, before, during or after its work, it leaves nothing behind but a lease that ends by itself.
#[must_use = "an item lock that guards nothing is not renewed, and ends by itself"]
pub struct ItemLock<'a, L> {
    control: &'a Control,
    lease: L,
    term: Term,
}

impl<L: Lease> ItemLock<'_, L> {
    /// Runs `work` while the lease is renewed beside it, and gives the lease back after it. Once the lease cannot be
    /// trusted any more, the work is dropped, before the store can let another in.
    pub async fn guard<T>(self, work: impl Future<Output = T>) -> Result<T, Loss> {
        let Self { control, lease, term } = self;
        let done = guarded(&lease, term, &control.identity, work).await?;
        // No answer in the time of a whole lease is as good as one: it has run out by then.
        let _ = timeout_at(tokio::time::Instant::now() + term.ttl, lease.release()).await;
        Ok(done)
    }
}

impl Control {
    /// Guards work under a lock that was granted under `token`.
    pub fn item_lock(
        self: &Arc<Self>,
        lock: LockName,
        token: LockToken,
        term: Term,
    ) -> ItemLock<'_, HeldLock> {
        ItemLock {
            control: self,
            lease: HeldLock { control: self.clone(), lock, token, ttl: term.ttl },
            term,
        }
    }

    /// Guards work under the lease of a claimed job. It is the work that hands the job over or gives it back.
    pub fn job_lock(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
        term: Term,
    ) -> ItemLock<'_, HeldJob> {
        let (tenant, job) = (tenant.clone(), job.clone());
        ItemLock { control: self, lease: HeldJob { store: self.store.clone(), tenant, job, fence }, term }
    }
}

/// A lock, held under its token.
pub struct HeldLock {
    control: Arc<Control>,
    lock: LockName,
    token: LockToken,
    ttl: Duration,
}

impl Lease for HeldLock {
    async fn renew(&self) -> Renewal {
        let renewed = self.control.renew_lock(&self.lock, &self.token, self.ttl).await;
        Renewal::of(renewed.map(|_| self.ttl))
    }

    async fn release(self) {
        if let Err(error) = self.control.release_lock(&self.lock, &self.token).await {
            tracing::warn!(%error, "a lock was not given back; it ends by itself");
        }
    }
}

/// A claimed job, held under its fence.
pub struct HeldJob {
    store: Arc<dyn Store>,
    tenant: TenantId,
    job: JobId,
    fence: Fence,
}

impl Lease for HeldJob {
    async fn renew(&self) -> Renewal {
        match self.store.heartbeat(&self.tenant, &self.job, self.fence).await {
            Ok(Heartbeat::Extended { lease, .. }) => Renewal::Extended(lease),
            Ok(Heartbeat::CancelRequested) => Renewal::Refused("the job was cancelled".to_owned()),
            Err(error) => Renewal::of(Err(error)),
        }
    }

    /// A job ends by its result, or goes to its worker: whoever guards it sees to that.
    async fn release(self) {}
}
