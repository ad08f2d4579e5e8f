//! A tenant's admission lock, as one start has it.

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::locks::{Acquire, Acquired, Busy};
use interlock_backend::{Effect, Store, StoreError};
use interlock_model::admission::StartRun;
use interlock_model::lock::{LockLimits, LockMode, LockName};
use interlock_model::{Fence, LockOwner, LockRequest, LockToken, why};
use tokio::time::{Instant, timeout};

use crate::service::Control;

/// How long giving the lock back may take, whoever still waits for the start. After that it ends by itself.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// The lock is the control plane's own, and its tenant's quota is for its users.
const LIMITS: LockLimits = LockLimits { held_max: u32::MAX, waiting_max: u32::MAX, line_max: u32::MAX };

/// What one start has of the lock. Dropped, it gives that back, on nobody's time but its own.
pub(super) struct AdmissionLock {
    store: Arc<dyn Store>,
    asked: Acquire,
    standing: Standing,
    /// As the last try that was answered found it.
    busy: Option<Busy>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Outside,
    /// It was asked for, and nobody knows the answer.
    Unknown,
    Held,
}

impl AdmissionLock {
    pub(super) fn of(control: &Control, start: &StartRun, ttl: Duration) -> Self {
        let owner = format!("{}/{}", control.instance, start.run);
        let asked = Acquire {
            lock: LockName::Admission(start.tenant.clone()),
            // Whoever reads the lock can compute the schedule of its holder again.
            owner: owner.parse().expect("the name of an instance and a run id have no control characters"),
            mode: LockMode::Exclusive,
            ttl,
            request: request(start),
            // One for all tries, so that a grant whose answer was lost is given back under the same name.
            call: control.identity.lock_token(),
            held: None,
            stay: None,
            limits: LIMITS,
        };
        Self { store: control.store.clone(), asked, standing: Standing::Outside, busy: None }
    }

    /// Why the last try was in vain.
    pub(super) fn trouble(&self) -> String {
        match &self.busy {
            Some(Busy { holder, held_for, .. }) => {
                let resource = self.asked.lock.resource();
                why::lock(resource.as_str(), holder.as_ref().map(LockOwner::as_str), *held_for)
            }
            None => "the store did not answer".to_owned(),
        }
    }

    pub(super) fn ttl(&self) -> Duration {
        self.asked.ttl
    }

    /// One try: the fence, if the lock is ours.
    pub(super) async fn acquire(&mut self) -> Result<Option<Fence>, StoreError> {
        let before = std::mem::replace(&mut self.standing, Standing::Unknown);
        let asked_at = Instant::now();
        match self.store.acquire(&self.asked).await {
            // What has run out on its way here is no lock.
            Ok(turn) => match turn.answer {
                Acquired::Granted(grant) if asked_at.elapsed() < self.asked.ttl => {
                    self.standing = Standing::Held;
                    Ok(Some(grant.fence))
                }
                Acquired::Granted(_) => Ok(None),
                // An earlier try without an answer may still be on its way.
                Acquired::Waiting(busy) | Acquired::Refused(busy) => {
                    self.standing = before;
                    self.busy = Some(busy);
                    Ok(None)
                }
                Acquired::OverQuota { .. } => {
                    self.standing = before;
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
        let Acquire { lock, request, call, .. } = self.asked.clone();
        runtime.spawn(async move {
            let given_back = timeout(RELEASE_TIMEOUT, give_back(&*store, standing, (&lock, &request, &call)));
            match given_back.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, "an admission lock was not given back; it ends by itself");
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
