//! Workers, as they were last seen.

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
}

#[async_trait]
pub trait WorkerStore: Send + Sync {
    async fn workers(&self, tenant: &TenantId, page: &PageRequest) -> Result<Page<WorkerRecord>, StoreError>;
    async fn worker(&self, tenant: &TenantId, worker: &WorkerId) -> Result<Option<WorkerRecord>, StoreError>;
}
