//! One start of a tenant at a time: wait for the tenant's admission lock, reserve the key, count, create, let go.
//!
//! The lock spreads starts out and decides nothing: the create looks at the lock's fence, the key and the cap by itself.

use interlock_backend::reservations::{Reserve, Reserved};
use interlock_backend::{Effect, StoreError};
use interlock_model::Fence;
use interlock_model::admission::{Admission, StartRun};
use interlock_model::retry::Seed;
use interlock_model::workflow::Workflow;
use tokio::time::{Instant, sleep_until};

use super::StartError;
use super::lock::AdmissionLock;
use super::reservation::ReservedKey;
use crate::contention::CleanupContext;
use crate::service::Control;

/// A start's time under the lock. Dropped, it lets go of the lock, and of a reserved key that started nothing.
pub(super) struct Passage {
    /// Let go of first: a lock that is free says that nothing is under way.
    key: Option<ReservedKey>,
    lock: AdmissionLock,
    fence: Fence,
}

impl Passage {
    /// Ends it with what became of the start.
    pub(super) fn close(mut self, decided: &Result<Admission, StartError>) {
        let Some(key) = &mut self.key else { return };
        match decided {
            // The key stands for a run now, this one or another.
            Ok(Admission::Admitted { .. } | Admission::Replayed { .. } | Admission::KeyReused { .. }) => {
                key.settle();
            }
            Ok(Admission::AtCapacity { .. }) => key.fail(CleanupContext::AtCapacity),
            Ok(Admission::DefinitionChanged { .. }) | Err(_) => key.fail(CleanupContext::CreateFailed),
        }
    }
}

impl Control {
    /// Decides a start under its tenant's lock. The passage is kept between two tries of the same start.
    pub(super) async fn admit_locked(
        &self,
        start: &mut StartRun,
        workflow: Option<&Workflow>,
        passage: &mut Option<Passage>,
    ) -> Result<Admission, StartError> {
        if passage.is_none() {
            let (lock, fence) = self.admission_lock(start).await?;
            let entered = passage.insert(Passage { lock, fence, key: None });
            if let Some(answer) = self.enter(start, workflow.is_some(), entered).await? {
                return Ok(answer);
            }
            start.hold = Some(fence);
        }
        match self.create(start, workflow).await {
            // The lock was lost, or the key was taken over. Such a create can never happen any more.
            Err(StartError::Store(StoreError::Fenced { .. })) => Err(self.gate_lost()),
            decided => decided,
        }
    }

    /// Reserves the key and counts. An answer, if there is nothing left to create.
    async fn enter(
        &self,
        start: &StartRun,
        can_begin: bool,
        passage: &mut Passage,
    ) -> Result<Option<Admission>, StartError> {
        if let Some(answer) = self.reserve(start, passage).await? {
            return Ok(Some(answer));
        }
        // What cannot begin is told why it cannot, not that the tenant is full.
        if !can_begin {
            return Ok(None);
        }
        match self.store.count_runs(&start.tenant).await {
            Ok(count) if count.usage.free() == 0 => {
                Ok(Some(Admission::AtCapacity { usage: count.usage, slot_flow: count.slot_flow }))
            }
            Ok(_) => Ok(None),
            Err(error) => {
                if let Some(key) = &mut passage.key {
                    key.fail(CleanupContext::CountFailed);
                }
                Err(self.nothing_done(error))
            }
        }
    }

    async fn reserve(
        &self,
        start: &StartRun,
        passage: &mut Passage,
    ) -> Result<Option<Admission>, StartError> {
        let Some(intent) = &start.intent else { return Ok(None) };
        let reserve = Reserve {
            tenant: start.tenant.clone(),
            workflow: start.workflow.clone(),
            intent: intent.clone(),
            run: start.run,
            fence: passage.fence,
            lease: passage.lock.ttl(),
        };
        // Made before it is asked for: an answer that never comes may have been a yes.
        let key = passage.key.insert(ReservedKey::new(self, &reserve));
        match self.store.reserve_key(&reserve).await {
            Ok(Reserved::Granted) => Ok(None),
            Ok(Reserved::Replayed { run, status, usage }) => {
                Ok(Some(Admission::Replayed { run, status, usage }))
            }
            Ok(Reserved::KeyReused { run, usage }) => Ok(Some(Admission::KeyReused { run, usage })),
            Err(error) => {
                if !matches!(error, StoreError::Unavailable { effect: Effect::Unknown, .. }) {
                    key.settle();
                }
                Err(self.nothing_done(error))
            }
        }
    }

    /// The tenant's lock, tried for by the policy in force until its longest wait is over.
    async fn admission_lock(&self, start: &StartRun) -> Result<(AdmissionLock, Fence), StartError> {
        let tuning = self.contention.admission();
        let seed = Seed::of_admission(start.run);
        let deadline = Instant::now() + tuning.max_wait();
        let mut lock = AdmissionLock::of(self, start, tuning.lock_ttl());
        let mut delays = tuning.policy.schedule(seed);
        loop {
            if let Some(fence) = lock.acquire().await.map_err(StartError::Store)? {
                return Ok((lock, fence));
            }
            let now = Instant::now();
            if now >= deadline {
                let (tenant, run, seed) = (&start.tenant, start.run, seed.number());
                tracing::debug!(%tenant, %run, seed, "the admission lock was busy for too long");
                return Err(self.gate_busy(lock.trouble()));
            }
            let delay = delays.next().unwrap_or_default();
            sleep_until(deadline.min(now + delay)).await;
        }
    }

    fn gate_busy(&self, because: String) -> StartError {
        StartError::GateBusy { because, retry_after: self.retry_after(None) }
    }

    fn gate_lost(&self) -> StartError {
        self.gate_busy("it was lost on the way".to_owned())
    }

    /// A step before the create failed, so that there is no run, whatever became of the step.
    fn nothing_done(&self, error: StoreError) -> StartError {
        match error {
            StoreError::Unavailable { .. } => StartError::NotDone { retry_after: self.retry_after(None) },
            StoreError::Fenced { .. } => self.gate_lost(),
            StoreError::NotFound { .. } | StoreError::Conflict(_) | StoreError::Damaged { .. } => {
                StartError::Store(error)
            }
        }
    }
}
