//! What travels beside the bus to workers that speak its protocol: inputs, results, and whose run it is.
//!
//! Only a backend that such workers can reach has one. What is in it is a copy; the store holds the truth.

use async_trait::async_trait;
use interlock_model::{JobId, RunId, TenantId};

use crate::StoreError;

#[async_trait]
pub trait Mailbox: Send + Sync {
    /// Records the tenant of a run, so that a result, which names the run alone, finds it.
    async fn point(&self, run: RunId, tenant: &TenantId) -> Result<(), StoreError>;
    async fn tenant_of(&self, run: RunId) -> Result<Option<TenantId>, StoreError>;

    /// Puts the input where the worker reads it. Returns the pointer to it.
    async fn put_input(&self, job: &JobId, input: &str) -> Result<String, StoreError>;

    /// What a worker put at `pointer`, if anything. A pointer to anything but the result of this job is refused.
    async fn result(&self, job: &JobId, pointer: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Removes what belongs to these jobs of a deleted run, and the record of its tenant.
    async fn forget(&self, run: RunId, jobs: &[JobId]) -> Result<(), StoreError>;
}
