//! Workers on the bus: heard, given work on their behalf, and given up. The edge that speaks their protocol changes
//! nothing in the store but through here.

use std::sync::atomic::Ordering;
use std::time::Duration;

use interlock_backend::jobs::{Claim, Claimed, LeaseTerm};
use interlock_backend::registry::{Beat, Handshake, Registry};
use interlock_backend::{PageRequest, StoreError, Wake};
use interlock_model::dead_letter::DeadLetter;
use interlock_model::job::JobOutcome;
use interlock_model::time::millis;
use interlock_model::{Fence, JobId, TenantId, Timestamp, Topic, WorkerId};

use crate::journal;
use crate::service::Control;

/// Tenants of one page, and jobs that one step ends.
const TENANTS_A_PAGE: usize = 500;
const JOBS_A_STEP: usize = 500;

impl Control {
    /// For what is only told to others, such as when a message was made.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Anywhere between half and all of it, so that replicas that fail together do not return together.
    #[must_use]
    pub fn jittered(&self, longest: Duration) -> Duration {
        Duration::from_millis(self.identity.between(millis(longest / 2), millis(longest)))
    }

    /// A result came from the bus under a fence that counts no more.
    pub fn count_refused_result(&self) {
        self.results_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// How many such results there were since the process began.
    #[must_use]
    pub fn refused_results(&self) -> u64 {
        self.results_refused.load(Ordering::Relaxed)
    }

    pub async fn introduce(&self, worker: &WorkerId, handshake: &Handshake) -> Result<(), StoreError> {
        self.store.introduce(worker, handshake).await
    }

    /// Returns what the worker said the last time.
    pub async fn beat(&self, worker: &WorkerId, beat: &Beat) -> Result<Option<Beat>, StoreError> {
        self.store.beat(worker, beat).await
    }

    pub async fn registry(&self) -> Result<Registry, StoreError> {
        self.store.registry().await
    }

    pub async fn forget_worker(&self, worker: &WorkerId, unless_after: Timestamp) -> Result<(), StoreError> {
        self.store.forget_worker(worker, unless_after).await
    }

    /// A look found a job of this topic, though somebody was there who could have had it, and was not told.
    pub fn found_unsaid(&self, tenant: &TenantId, topic: &Topic) {
        // While the bus is away nobody is told of anything, which is no fault of whoever should have told.
        if self.bus.is_connected() {
            self.wakeups.orphans.found(tenant, topic);
        }
    }

    /// Claims what waits now.
    pub async fn claim_now(&self, claim: Claim) -> Result<Vec<Claimed>, StoreError> {
        let tenant = claim.tenant.clone();
        let claimed = self.store.claim(claim).await?;
        journal::claimed(&tenant, &claimed);
        for Claimed { job, lease, queued_at } in &claimed {
            self.counts.waited_for_a_lease(lease.claimed_at.since(*queued_at));
            self.trace_claim((&tenant, &job.id), job.trace);
        }
        Ok(claimed)
    }

    /// The job has gone out to its worker: from now on it is the worker's for as long as its step may take.
    pub async fn hold(
        &self,
        tenant: &TenantId,
        job: &JobId,
        fence: Fence,
        term: LeaseTerm,
    ) -> Result<(), StoreError> {
        let _ = self.store.hold(tenant, job, fence, term).await?;
        Ok(())
    }

    /// Gives back a job that never reached its worker. It is dispatched again, and its step is charged no retry.
    pub async fn give_back(&self, tenant: &TenantId, job: &JobId, fence: Fence) -> Result<(), StoreError> {
        let _ = self.report(tenant, job, fence, JobOutcome::Lost).await?;
        Ok(())
    }

    /// Ends what this worker holds, of all tenants: it is gone. Returns how many jobs that were.
    pub async fn abandon(&self, worker: &WorkerId) -> Result<usize, StoreError> {
        let mut lost = 0;
        let mut page = PageRequest { limit: TENANTS_A_PAGE, after: None };
        loop {
            let tenants = self.store.tenants(&page).await?;
            for tenant in &tenants.items {
                lost += self.abandon_of(tenant, worker).await?;
            }
            let Some(next) = tenants.next else { return Ok(lost) };
            page.after = Some(next);
        }
    }

    async fn abandon_of(&self, tenant: &TenantId, worker: &WorkerId) -> Result<usize, StoreError> {
        let mut lost = 0;
        loop {
            let ended = self.store.abandon(tenant, worker, JOBS_A_STEP).await?;
            journal::lost(tenant, &ended);
            let ended = ended.len();
            lost += ended;
            if ended > 0 {
                self.wake(Wake::RunReady { tenant: tenant.clone() });
            }
            if ended < JOBS_A_STEP {
                return Ok(lost);
            }
        }
    }

    pub async fn bury(&self, tenant: &TenantId, letter: &DeadLetter) -> Result<(), StoreError> {
        self.store.bury(tenant, letter, self.settings.dead_letters_max).await
    }
}
