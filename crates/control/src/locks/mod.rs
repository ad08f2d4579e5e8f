//! Locks for users: acquired, waited for in a queue, renewed, released.

mod waiting;

use std::sync::Arc;
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::locks::ForceReleaseLock;
use interlock_backend::verbs::ReleaseLock;
use interlock_model::lock::{Grant, LockMode, LockName};
use interlock_model::{LockOwner, LockRequest, LockToken};

use crate::journal;
use crate::lease;
use crate::process::Process;

/// A request for a lock.
#[derive(Debug, Clone)]
pub struct UserLockRequest {
    pub lock: LockName,
    pub owner: LockOwner,
    pub mode: LockMode,
    pub ttl: Duration,
    /// How long to wait for it.
    pub wait: Duration,
    /// The client's name for this request, under which it may be repeated.
    pub request: Option<LockRequest>,
    /// The token of a lease that the client already has.
    pub held: Option<LockToken>,
}

/// The locks of tenants, for their users.
pub struct Locks {
    pub(crate) process: Arc<Process>,
}

impl Locks {
    pub async fn renew(
        &self,
        lock: &LockName,
        token: &LockToken,
        ttl: Duration,
    ) -> Result<Grant, StoreError> {
        lease::renew_lock(&self.process, lock, token, ttl).await
    }

    pub async fn release(&self, lock: &LockName, token: &LockToken) -> Result<(), StoreError> {
        let released = self.process.call(ReleaseLock { lock: lock.clone(), token: token.clone() }).await;
        let released = released.map(|turn| self.process.pass_on_turn(lock, turn));
        released.inspect_err(|error| journal::lock_refused(lock, error))
    }

    pub async fn force_release(&self, forced: &ForceReleaseLock) -> Result<(), StoreError> {
        let released = self.process.call(forced.clone()).await;
        let released = released.inspect_err(|error| journal::lock_refused(&forced.lock, error))?;
        journal::lock_forced(forced);
        self.process.pass_on_turn(&forced.lock, released);
        Ok(())
    }
}
