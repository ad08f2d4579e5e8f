//! Locks as decisions.

mod acquire;
mod end;
mod inspection;
mod look;
mod place;
mod record;
mod sweep;

use std::time::Duration;

use async_trait::async_trait;
use interlock_model::lock::{Grant, LockEvent, LockName};
use interlock_model::{Fence, LockRequest, LockToken, TenantId, Timestamp};

use super::store::LocalStore;
use super::tables::{Executor, View};
use crate::locks::{Acquire, Acquired, ForcedRelease, LockDetail, LockStore, LockView, Turn};
use crate::{Page, PageRequest, StoreError};
pub(super) use inspection::{debt, drift, not_listed, resource, unreadable};

/// The last fence that a lock was granted under.
pub(super) struct FenceInForce {
    pub(super) fence: Fence,
    /// Whether somebody holds the lock under it now.
    pub(super) is_live: bool,
}

pub(super) fn fence_in_force(
    view: &dyn View,
    now: Timestamp,
    lock: &LockName,
) -> Result<FenceInForce, StoreError> {
    let lock = record::Lock::load(view, lock, now, record::Tally::default())?;
    let fence = lock.record.fence;
    Ok(FenceInForce { fence, is_live: lock.record.holders.iter().any(|grant| grant.fence == fence) })
}

#[async_trait]
impl<E: Executor> LockStore for LocalStore<E> {
    async fn acquire(&self, acquire: &Acquire) -> Result<Turn<Acquired>, StoreError> {
        let acquire = acquire.clone();
        self.write("acquire a lock", move |view, now| acquire::acquire(view, now, &acquire)).await
    }

    async fn renew(
        &self,
        lock: &LockName,
        token: &LockToken,
        ttl: Duration,
    ) -> Result<Turn<Grant>, StoreError> {
        let (lock, token) = (lock.clone(), token.clone());
        let decide = move |view: &dyn View, now| end::renew(view, now, (&lock, &token), ttl);
        self.write("renew a lock", decide).await
    }

    async fn release(&self, lock: &LockName, token: &LockToken) -> Result<Turn<()>, StoreError> {
        let (lock, token) = (lock.clone(), token.clone());
        let decide = move |view: &dyn View, now| end::release(view, now, (&lock, &token));
        self.write("release a lock", decide).await
    }

    async fn withdraw(
        &self,
        lock: &LockName,
        request: &LockRequest,
        call: &LockToken,
    ) -> Result<Turn<()>, StoreError> {
        let (lock, request, call) = (lock.clone(), request.clone(), call.clone());
        let decide = move |view: &dyn View, now| end::withdraw(view, now, &lock, (&request, &call));
        self.write("withdraw from a lock", decide).await
    }

    async fn force_release(&self, forced: &ForcedRelease) -> Result<Turn<()>, StoreError> {
        let forced = forced.clone();
        let decide = move |view: &dyn View, now| end::force(view, now, &forced);
        self.write("end a hold", decide).await
    }

    async fn lock(&self, lock: &LockName) -> Result<Option<LockDetail>, StoreError> {
        let lock = lock.clone();
        self.read("read a lock", move |view, now| look::lock(view, now, &lock)).await
    }

    async fn locks(&self, tenant: &TenantId, page: &PageRequest) -> Result<Page<LockView>, StoreError> {
        let (tenant, page) = (tenant.clone(), page.clone());
        self.read("list locks", move |view, now| look::locks(view, now, &tenant, &page)).await
    }

    async fn lock_history(&self, lock: &LockName, page: &PageRequest) -> Result<Page<LockEvent>, StoreError> {
        let (lock, page) = (lock.clone(), page.clone());
        self.read("read a lock's history", move |view, now| look::history(view, now, &lock, &page)).await
    }
}
