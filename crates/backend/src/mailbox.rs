//! What travels beside the bus to workers that speak its protocol: inputs, results, and whose run it is.
//!
//! Only a backend that such workers can reach has one. What is in it is a copy; the store holds the truth.

use async_trait::async_trait;
use interlock_model::{JobId, RunId, TenantId};

use crate::StoreError;

#[async_trait]
pub trait Mailbox: Send + Sync {
    /// Says whose run this is, so that a result, which names the run alone, finds its tenant.
    async fn point(&self, run: RunId, tenant: &TenantId) -> Result<(), StoreError>;
    async fn tenant_of(&self, run: RunId) -> Result<Option<TenantId>, StoreError>;

    /// Lays the input down where the worker looks for it. Returns the pointer to it.
    async fn put_input(&self, job: &JobId, input: &str) -> Result<String, StoreError>;

    /// What a worker laid down at `pointer`; none if nothing is there.
    async fn result(&self, pointer: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Removes what belongs to these jobs of a deleted run, and the word of whose it was.
    async fn forget(&self, run: RunId, jobs: &[JobId]) -> Result<(), StoreError>;
}
