//! Locks for users: asked for, waited for in line, renewed, given back. And guards of work that our stages do under one.

mod item;
mod lease;
mod looped;
mod run;
mod waiting;

use std::time::Duration;

use interlock_backend::locks::{ForcedRelease, Turn};
use interlock_backend::{StoreError, Wake};
use interlock_model::lock::{Grant, LockMode, LockName};
use interlock_model::{LockOwner, LockRequest, LockToken};

use crate::journal;
use crate::service::Control;
pub use item::{HeldJob, HeldLock, ItemLock};
pub use lease::{Lease, Loss, Renewal, Term};
pub use looped::{Hold, LoopLock};
pub(crate) use run::{RunLock, RunLocks};

/// Somebody who asks for a lock.
#[derive(Debug, Clone)]
pub struct AskForLock {
    pub lock: LockName,
    pub owner: LockOwner,
    pub mode: LockMode,
    pub ttl: Duration,
    /// How long to stand in line for it.
    pub wait: Duration,
    /// The client's name for this request, under which it may be asked again.
    pub request: Option<LockRequest>,
    /// The token of a hold that the client has already.
    pub held: Option<LockToken>,
}

impl Control {
    pub async fn renew_lock(
        &self,
        lock: &LockName,
        token: &LockToken,
        ttl: Duration,
    ) -> Result<Grant, StoreError> {
        let renewed = self.store.renew(lock, token, ttl).await.map(|turn| self.pass_on_turn(lock, turn));
        renewed.inspect_err(|error| journal::lock_refused(lock, error))
    }

    pub async fn release_lock(&self, lock: &LockName, token: &LockToken) -> Result<(), StoreError> {
        let released = self.store.release(lock, token).await.map(|turn| self.pass_on_turn(lock, turn));
        released.inspect_err(|error| journal::lock_refused(lock, error))
    }

    pub async fn force_release_lock(&self, forced: &ForcedRelease) -> Result<(), StoreError> {
        let released = self.store.force_release(forced).await;
        let released = released.inspect_err(|error| journal::lock_refused(&forced.lock, error))?;
        journal::lock_forced(forced);
        self.pass_on_turn(&forced.lock, released);
        Ok(())
    }

    /// Wakes whose turn it is, and nobody else.
    pub(crate) fn pass_on_turn<T>(&self, lock: &LockName, turn: Turn<T>) -> T {
        if let Some(request) = turn.next {
            self.wake(Wake::LockTurn { lock: lock.clone(), request });
        }
        turn.answer
    }
}
