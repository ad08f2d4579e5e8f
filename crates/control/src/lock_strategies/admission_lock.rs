//! A tenant's admission lock, as one start holds it.

use std::time::Duration;

use interlock_backend::locks::{AcquireLock, Acquired, Busy};
use interlock_backend::verbs::{ReleaseLock, WithdrawLock};
use interlock_backend::{Effect, Store, StoreError};
use interlock_model::admission::RunRequest;
use interlock_model::lock::{LockLimits, LockMode, LockName};
use interlock_model::{Fence, LockOwner, LockRequest, LockToken, why};
use tokio::time::{Instant, timeout};

use crate::process::Process;

/// How long a release may take. After that the lock expires.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// The lock is the control plane's own, and its tenant's quota is for its users.
const LIMITS: LockLimits = LockLimits { held_max: u32::MAX, waiting_max: u32::MAX, line_max: u32::MAX };

/// One start's claim on the lock. Dropped, it is released in the background.
pub(super) struct AdmissionLock {
    store: Store,
    request: AcquireLock,
    lease: LeaseState,
    /// The key of the lock, as people find it in the store.
    key: String,
    /// As the last answered try found it.
    busy: Option<Busy>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LeaseState {
    NotHeld,
    /// The answer was lost.
    Unknown,
    Held,
}

impl AdmissionLock {
    pub(super) fn of(process: &Process, run_request: &RunRequest, ttl: Duration) -> Self {
        let owner = format!("{}/{}", process.instance, run_request.run);
        let request = AcquireLock {
            lock: LockName::Admission(run_request.tenant.clone()),
            // The run id in it lets a reader compute the holder's retry schedule.
            owner: owner.parse().expect("the name of an instance and a run id have no control characters"),
            mode: LockMode::Exclusive,
            ttl,
            request: request_name(run_request),
            // One for all tries, so that a grant whose answer was lost is released under the same name.
            call: process.identity.lock_token(),
            held: None,
            stay: None,
            limits: LIMITS,
        };
        let key = format!("{}:{}", process.settings().lock_prefix, request.lock.resource());
        Self { store: process.store.clone(), request, lease: LeaseState::NotHeld, key, busy: None }
    }

    /// Why the last try failed.
    pub(super) fn reason(&self) -> String {
        match &self.busy {
            Some(Busy { holder, held_for, .. }) => {
                why::lock(&self.key, holder.as_ref().map(LockOwner::as_str), *held_for)
            }
            None => "the store did not answer".to_owned(),
        }
    }

    pub(super) fn ttl(&self) -> Duration {
        self.request.ttl
    }

    /// One try: the fence, if the lock is ours.
    pub(super) async fn acquire(&mut self) -> Result<Option<Fence>, StoreError> {
        let before = std::mem::replace(&mut self.lease, LeaseState::Unknown);
        let asked_at = Instant::now();
        match self.store.call(self.request.clone()).await {
            // A grant that expired before its answer arrived is no lock.
            Ok(turn) => match turn.answer {
                Acquired::Granted(grant) if asked_at.elapsed() < self.request.ttl => {
                    self.lease = LeaseState::Held;
                    Ok(Some(grant.fence))
                }
                Acquired::Granted(_) => Ok(None),
                // An earlier try without an answer may still reach the store.
                Acquired::Waiting(busy) | Acquired::Refused(busy) => {
                    self.lease = before;
                    self.busy = Some(busy);
                    Ok(None)
                }
                Acquired::OverQuota { .. } => {
                    self.lease = before;
                    Ok(None)
                }
            },
            Err(StoreError::Unavailable { effect, .. }) => {
                if effect != Effect::Unknown {
                    self.lease = before;
                }
                Ok(None)
            }
            Err(error) => {
                self.lease = before;
                Err(error)
            }
        }
    }
}

fn request_name(run_request: &RunRequest) -> LockRequest {
    format!("admission-{}", run_request.run).parse().expect("a run id makes a request id")
}

impl Drop for AdmissionLock {
    fn drop(&mut self) {
        if self.lease == LeaseState::NotHeld {
            return;
        }
        // Without a runtime the process ends: then the lock expires.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (store, lease) = (self.store.clone(), self.lease);
        let AcquireLock { lock, request, call, .. } = self.request.clone();
        runtime.spawn(async move {
            let released = timeout(RELEASE_TIMEOUT, release(&store, lease, (&lock, &request, &call)));
            match released.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, "admission lock not released; it expires");
                }
                Err(_) => tracing::warn!("admission lock not released in time; it expires"),
            }
        });
    }
}

/// The lock has no queue, so that there is no waiter to wake.
async fn release(
    store: &Store,
    lease: LeaseState,
    (lock, request, call): (&LockName, &LockRequest, &LockToken),
) -> Result<(), StoreError> {
    let turn = match lease {
        LeaseState::Held => store.call(ReleaseLock { lock: lock.clone(), token: call.clone() }).await,
        LeaseState::Unknown | LeaseState::NotHeld => {
            let (lock, request, call) = (lock.clone(), request.clone(), call.clone());
            store.call(WithdrawLock { lock, request, call }).await
        }
    };
    turn.map(|turn| turn.answer)
}
