//! Calls about locks.

use std::time::Duration;

use super::paths::path;
use super::{Client, Result};
use crate::locks::{
    AcquireRequest, ForceReleaseRequest, LockDetail, LockEventView, LockGrant, LockHistoryQuery, LockQuery,
    LockView, ReleaseRequest, RenewRequest,
};
use crate::{Page, PageQuery};
use interlock_model::Resource;

impl Client {
    /// Acquires a lock, and waits for it as long as the request says. Safe to repeat with the same `request_id`: that gets
    /// the same grant, or keeps its place in the queue.
    pub async fn acquire_lock(&self, request: &AcquireRequest) -> Result<LockGrant> {
        let call = self.post(&path(&[&"locks", &"acquire"])).body(request);
        call.waiting(Duration::from_millis(request.wait_ms)).read().await
    }

    /// Extends the lease. `stale_fence` means that it has ended.
    pub async fn renew_lock(&self, request: &RenewRequest) -> Result<LockGrant> {
        self.post(&path(&[&"locks", &"renew"])).body(request).read().await
    }

    /// Ends the lease. Safe to repeat.
    pub async fn release_lock(&self, request: &ReleaseRequest) -> Result<()> {
        self.post(&path(&[&"locks", &"release"])).body(request).done().await
    }

    /// Ends the lease of another owner.
    pub async fn force_release_lock(&self, request: &ForceReleaseRequest) -> Result<()> {
        self.post(&path(&[&"locks", &"force-release"])).body(request).done().await
    }

    /// The tenant's held locks, newest first.
    pub async fn locks(&self, query: &PageQuery) -> Result<Page<LockView>> {
        self.get(&path(&[&"locks"])).query(query).read().await
    }

    /// A held lock with the first requests in its queue.
    pub async fn lock(&self, resource: Resource) -> Result<LockDetail> {
        let query = LockQuery { resource: Some(resource), ..LockQuery::default() };
        self.get(&path(&[&"locks"])).query(&query).read().await
    }

    /// The events of a lock, newest first.
    pub async fn lock_history(&self, query: &LockHistoryQuery) -> Result<Page<LockEventView>> {
        self.get(&path(&[&"locks", &"history"])).query(query).read().await
    }
}
