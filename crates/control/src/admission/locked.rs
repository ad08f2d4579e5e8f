//! One start of a tenant at a time: wait for the tenant's admission lock, reserve the key, count, create, let go.
//!
//! The lock spreads starts out and decides nothing: the create looks at the lock's fence, the key and the cap by itself.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::locks::{Acquire, Acquired};
use interlock_backend::reservations::{Reserve, Reserved};
use interlock_backend::{Effect, Store, StoreError};
use interlock_model::admission::{Admission, StartRun};
use interlock_model::contention::Tuning;
use interlock_model::lock::{LockLimits, LockMode, LockName};
use interlock_model::retry::Seed;
use interlock_model::workflow::Workflow;
use interlock_model::{Fence, LockRequest, LockToken};
use tokio::time::{Instant, sleep_until, timeout};

use super::StartError;
use super::reservation::ReservedKey;
use crate::contention::CleanupContext;
use crate::service::Control;

/// How long giving the lock back may take, whoever still waits for the start. After that it ends by itself.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// The lock is the control plane's own, and its tenant's quota is for its users.
const LIMITS: LockLimits = LockLimits { held_max: u32::MAX, waiting_max: u32::MAX, line_max: u32::MAX };

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
            Err(StartError::Store(StoreError::Fenced { .. })) => Err(self.gate_busy()),
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
            lease: passage.lock.ttl,
        };
        // Made before it is asked for: an answer that never comes may have been a yes.
        let key = passage.key.insert(ReservedKey::new(self, &reserve));
        match self.store.reserve_key(&reserve).await {
            Ok(Reserved::Reserved) => Ok(None),
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
        let mut lock = AdmissionLock::of(self, start, &tuning);
        let mut delays = tuning.policy.schedule(seed);
        loop {
            if let Some(fence) = lock.acquire().await.map_err(StartError::Store)? {
                return Ok((lock, fence));
            }
            let now = Instant::now();
            if now >= deadline {
                tracing::debug!(tenant = %start.tenant, run = %start.run, seed = seed.number(), "the admission lock was busy");
                return Err(self.gate_busy());
            }
            let delay = delays.next().unwrap_or_default();
            sleep_until(deadline.min(now + delay)).await;
        }
    }

    fn gate_busy(&self) -> StartError {
        StartError::GateBusy { retry_after: self.retry_after(None) }
    }

    /// A step before the create failed, so that there is no run, whatever became of the step.
    fn nothing_done(&self, error: StoreError) -> StartError {
        match error {
            StoreError::Unavailable { .. } => StartError::NotDone { retry_after: self.retry_after(None) },
            StoreError::Fenced { .. } => self.gate_busy(),
            StoreError::NotFound { .. } | StoreError::Conflict(_) | StoreError::Damaged { .. } => {
                StartError::Store(error)
            }
        }
    }
}

/// What one start has of the lock. Dropped, it gives that back, on nobody's time but its own.
struct AdmissionLock {
    store: Arc<dyn Store>,
    acquire: Acquire,
    ttl: Duration,
    standing: Standing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Outside,
    /// It was asked for, and nobody knows the answer.
    Unknown,
    Held,
}

impl AdmissionLock {
    fn of(control: &Control, start: &StartRun, tuning: &Tuning) -> Self {
        let owner = format!("{}/{}", control.instance, start.run);
        let acquire = Acquire {
            lock: LockName::Admission(start.tenant.clone()),
            // Whoever reads the lock can compute the schedule of its holder again.
            owner: owner.parse().expect("the name of an instance and a run id have no control characters"),
            mode: LockMode::Exclusive,
            ttl: tuning.lock_ttl(),
            request: request(start),
            // One for all tries, so that a grant whose answer was lost is given back under the same name.
            call: control.identity.lock_token(),
            held: None,
            stay: None,
            limits: LIMITS,
        };
        let (store, ttl) = (control.store.clone(), acquire.ttl);
        Self { store, acquire, ttl, standing: Standing::Outside }
    }

    /// One try: the fence, if the lock is ours.
    async fn acquire(&mut self) -> Result<Option<Fence>, StoreError> {
        let before = std::mem::replace(&mut self.standing, Standing::Unknown);
        let asked_at = Instant::now();
        match self.store.acquire(&self.acquire).await {
            // What has run out on its way here is no lock.
            Ok(turn) => match turn.answer {
                Acquired::Granted(grant) if asked_at.elapsed() < self.ttl => {
                    self.standing = Standing::Held;
                    Ok(Some(grant.fence))
                }
                Acquired::Granted(_) => Ok(None),
                Acquired::Waiting(_) | Acquired::Refused(_) | Acquired::OverQuota { .. } => {
                    self.standing = Standing::Outside;
                    Ok(None)
                }
            },
            Err(StoreError::Unavailable { effect, .. }) => {
                if effect == Effect::NotDone {
                    self.standing = before;
                }
                Ok(None)
            }
            Err(error) => {
                self.standing = before;
                Err(error)
            }
        }
    }
}

fn request(start: &StartRun) -> LockRequest {
    format!("admission-{}", start.run).parse().expect("a run id makes a request id")
}

impl Drop for AdmissionLock {
    fn drop(&mut self) {
        if self.standing == Standing::Outside {
            return;
        }
        // Without a runtime the process ends: then the lock ends by itself.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (store, standing) = (self.store.clone(), self.standing);
        let Acquire { lock, request, call, .. } = self.acquire.clone();
        runtime.spawn(async move {
            let given_back = timeout(RELEASE_TIMEOUT, give_back(&*store, standing, (&lock, &request, &call)));
            match given_back.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, "an admission lock was not given back; it ends by itself")
                }
                Err(_) => tracing::warn!("an admission lock was not given back in time; it ends by itself"),
            }
        });
    }
}

/// Nobody stands in line for it, so that nobody has to be told.
async fn give_back(
    store: &dyn Store,
    standing: Standing,
    (lock, request, call): (&LockName, &LockRequest, &LockToken),
) -> Result<(), StoreError> {
    let turn = match standing {
        Standing::Held => store.release(lock, call).await,
        Standing::Unknown | Standing::Outside => store.withdraw(lock, request, call).await,
    };
    turn.map(|turn| turn.answer)
}
