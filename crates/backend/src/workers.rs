//! Workers on HTTP, as they were last seen.

use async_trait::async_trait;
use interlock_model::{TenantId, Timestamp, Topic, WorkerId};
use serde::{Deserialize, Serialize};

use crate::{Page, PageRequest, StoreError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRecord {
    pub worker: WorkerId,
    pub topics: Vec<Topic>,
    pub capabilities: Vec<String>,
    pub first_seen_at: Timestamp,
    pub last_seen_at: Timestamp,
    /// It is given no new jobs, and keeps those that it has.
    #[serde(default)]
    pub is_draining: bool,
}

#[async_trait]
pub trait WorkerStore: Send + Sync {
    async fn workers(&self, tenant: &TenantId, page: &PageRequest) -> Result<Page<WorkerRecord>, StoreError>;
    async fn worker(&self, tenant: &TenantId, worker: &WorkerId) -> Result<Option<WorkerRecord>, StoreError>;

    /// From now on the worker is given no new jobs, or is again.
    async fn drain_worker(
        &self,
        tenant: &TenantId,
        worker: &WorkerId,
        is_draining: bool,
    ) -> Result<(), StoreError>;

    /// Removes a worker, unless it was seen after `unless_after`.
    async fn forget_record(
        &self,
        tenant: &TenantId,
        worker: &WorkerId,
        unless_after: Timestamp,
    ) -> Result<(), StoreError>;
}
