//! One start of a tenant at a time: wait for the tenant's admission lock, reserve the key, count, create, release.
//!
//! The lock spreads starts out and decides nothing: the create checks the lock's fence, the key and the cap by itself.

use std::sync::Arc;

use async_trait::async_trait;
use interlock_backend::reservations::{ReserveIdempotencyKey, Reserved};
use interlock_backend::verbs::CountRuns;
use interlock_backend::{Effect, StoreError};
use interlock_model::Fence;
use interlock_model::admission::{RunRequest, StartOutcome};
use interlock_model::retry::Seed;
use tokio::time::{Instant, sleep_until};

use super::admission_lock::AdmissionLock;
use super::reservation::{Cleanups, ReservedKey};
use crate::admission::{AdmitUnderLock, Entry, Passage, StartError};
use crate::contention::{CleanupContext, Contention};
use crate::process::Process;

/// Admits starts under the lock of their tenant.
pub struct StartsUnderLock {
    process: Arc<Process>,
    contention: Arc<Contention>,
    cleanups: Cleanups,
}

/// A start's time under the lock. Dropped, it releases the lock, and a reserved key that started nothing.
struct LockedPassage {
    /// Dropped first: a free lock means that nothing is under way.
    key: Option<ReservedKey>,
    lock: AdmissionLock,
    fence: Fence,
}

impl Passage for LockedPassage {
    fn fence(&self) -> Fence {
        self.fence
    }

    fn close(mut self: Box<Self>, decided: &Result<StartOutcome, StartError>) {
        let Some(key) = &mut self.key else { return };
        match decided {
            // The key belongs to a run now, this one or another.
            Ok(
                StartOutcome::Admitted { .. }
                | StartOutcome::Queued { .. }
                | StartOutcome::Joined { .. }
                | StartOutcome::Replayed { .. }
                | StartOutcome::KeyReused { .. },
            ) => key.settle(),
            Ok(
                StartOutcome::AtCapacity { .. }
                | StartOutcome::LimitReached { .. }
                | StartOutcome::QueueFull { .. },
            ) => key.fail(CleanupContext::AtCapacity),
            Ok(StartOutcome::DefinitionChanged { .. } | StartOutcome::LimitsChanged { .. }) | Err(_) => {
                key.fail(CleanupContext::CreateFailed);
            }
        }
    }
}

#[async_trait]
impl AdmitUnderLock for StartsUnderLock {
    async fn enter(&self, request: &RunRequest, can_begin: bool) -> Result<Entry, StartError> {
        let (lock, fence) = self.acquire(request).await?;
        let mut passage = Box::new(LockedPassage { key: None, lock, fence });
        match self.check(request, can_begin, &mut passage).await {
            Ok(None) => Ok(Entry::Entered(passage)),
            Ok(Some(answer)) => {
                passage.close(&Ok(answer.clone()));
                Ok(Entry::Answered(answer))
            }
            Err(error) => {
                passage.close(&Err(error.clone()));
                Err(error)
            }
        }
    }
}

impl StartsUnderLock {
    pub fn new(process: Arc<Process>, contention: Arc<Contention>) -> Self {
        Self { process, contention, cleanups: Cleanups::default() }
    }

    /// Reserves the key and counts. An answer, if there is nothing left to create.
    async fn check(
        &self,
        request: &RunRequest,
        can_begin: bool,
        passage: &mut LockedPassage,
    ) -> Result<Option<StartOutcome>, StartError> {
        if let Some(answer) = self.reserve(request, passage).await? {
            return Ok(Some(answer));
        }
        // The client of a start that cannot begin gets the reason for that, not that the tenant is full.
        if !can_begin {
            return Ok(None);
        }
        match self.process.call(CountRuns { tenant: request.tenant.clone() }).await {
            Ok(count) if count.usage.free() == 0 && count.rejects => {
                Ok(Some(StartOutcome::AtCapacity { usage: count.usage, slot_flow: count.slot_flow }))
            }
            Ok(_) => Ok(None),
            Err(error) => {
                if let Some(key) = &mut passage.key {
                    key.fail(CleanupContext::CountFailed);
                }
                Err(nothing_done(error))
            }
        }
    }

    async fn reserve(
        &self,
        request: &RunRequest,
        passage: &mut LockedPassage,
    ) -> Result<Option<StartOutcome>, StartError> {
        let Some(intent) = &request.intent else { return Ok(None) };
        let reserve = ReserveIdempotencyKey {
            tenant: request.tenant.clone(),
            workflow: request.workflow.clone(),
            intent: intent.clone(),
            run: request.run,
            fence: passage.fence,
            lease: passage.lock.ttl(),
        };
        // Made before the call: a lost answer may have been a grant.
        let (cleanups, store) = (self.cleanups.clone(), self.process.store.clone());
        let key = ReservedKey::new(cleanups, store, self.contention.tally.clone(), &reserve);
        let key = passage.key.insert(key);
        match self.process.call(reserve).await {
            Ok(Reserved::Granted) => Ok(None),
            Ok(Reserved::Replayed { run, status, usage }) => {
                Ok(Some(StartOutcome::Replayed { run, status, usage }))
            }
            Ok(Reserved::KeyReused { run, usage }) => Ok(Some(StartOutcome::KeyReused { run, usage })),
            Err(error) => {
                if !matches!(error, StoreError::Unavailable { effect: Effect::Unknown, .. }) {
                    key.settle();
                }
                Err(nothing_done(error))
            }
        }
    }

    /// The tenant's lock, tried for by the policy in force until its longest wait is over.
    async fn acquire(&self, request: &RunRequest) -> Result<(AdmissionLock, Fence), StartError> {
        let tuning = self.contention.in_force().tunings.admission;
        let seed = Seed::of_admission(request.run);
        let deadline = Instant::now() + tuning.max_wait();
        let mut lock = AdmissionLock::of(&self.process, request, tuning.lock_ttl());
        let mut delays = tuning.policy.schedule(seed);
        loop {
            if let Some(fence) = lock.acquire().await.map_err(StartError::Store)? {
                return Ok((lock, fence));
            }
            let now = Instant::now();
            if now >= deadline {
                let (tenant, run, seed) = (&request.tenant, request.run, seed.number());
                tracing::debug!(%tenant, %run, seed, "admission lock busy for too long");
                return Err(StartError::LockBusy { because: lock.reason() });
            }
            let delay = delays.next().unwrap_or_default();
            sleep_until(deadline.min(now + delay)).await;
        }
    }
}

/// A step before the create failed, so that there is no run, whatever became of the step.
fn nothing_done(error: StoreError) -> StartError {
    match error {
        StoreError::Unavailable { .. } => StartError::NotDone,
        StoreError::Fenced { .. } => StartError::lock_lost(),
        StoreError::NotFound { .. }
        | StoreError::Conflict(_)
        | StoreError::QuotaReached { .. }
        | StoreError::Damaged { .. } => StartError::Store(error),
    }
}
