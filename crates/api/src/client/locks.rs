//! Calls about locks.

use std::time::Duration;

use super::paths::path;
use super::{Client, Result};
use crate::locks::{
    AcquireRequest, ForceReleaseRequest, InventoryRow, LockDetail, LockEventView, LockGrant,
    LockHistoryQuery, LockQuery, LockView, ReleaseRequest, RenewRequest,
};
use crate::{Page, PageQuery};
use interlock_model::Resource;

impl Client {
    /// Asks for a lock, and stands in line for it as long as the request says. With a `request_id` a repetition is
    /// safe: it finds what the first one was granted, or its place in line.
    pub async fn acquire_lock(&self, request: &AcquireRequest) -> Result<LockGrant> {
        let call = self.post(&path(&[&"locks", &"acquire"])).body(request);
        call.waiting(Duration::from_millis(request.wait_ms)).read().await
    }

    /// Extends the hold. A refusal with `stale_fence` means that it has come to its end.
    pub async fn renew_lock(&self, request: &RenewRequest) -> Result<LockGrant> {
        self.post(&path(&[&"locks", &"renew"])).body(request).read().await
    }

    /// Ends the hold. Releasing again is safe.
    pub async fn release_lock(&self, request: &ReleaseRequest) -> Result<()> {
        self.post(&path(&[&"locks", &"release"])).body(request).done().await
    }

    /// Ends somebody else's hold, on an operator's word.
    pub async fn force_release_lock(&self, request: &ForceReleaseRequest) -> Result<()> {
        self.post(&path(&[&"locks", &"force-release"])).body(request).done().await
    }

    /// The tenant's held locks, newest first.
    pub async fn locks(&self, query: &PageQuery) -> Result<Page<LockView>> {
        self.get(&path(&[&"locks"])).query(query).read().await
    }

    /// One lock that is held, with the first of its line.
    pub async fn lock(&self, resource: Resource) -> Result<LockDetail> {
        let query = LockQuery { resource: Some(resource), ..LockQuery::default() };
        self.get(&path(&[&"locks"])).query(&query).read().await
    }

    /// What happened to a lock, newest first.
    pub async fn lock_history(&self, query: &LockHistoryQuery) -> Result<Page<LockEventView>> {
        self.get(&path(&[&"locks", &"history"])).query(query).read().await
    }

    /// Every lock that there is, with the numbers of the installation.
    pub async fn lock_inventory(&self) -> Result<Page<InventoryRow>> {
        self.get(&path(&[&"locks", &"inventory"])).read().await
    }
}
