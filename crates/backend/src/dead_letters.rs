//! Dead letters: kept until somebody has looked at them.

use async_trait::async_trait;
use interlock_model::dead_letter::DeadLetter;
use interlock_model::{JobId, TenantId};

use crate::{Page, PageRequest, StoreError};

#[async_trait]
pub trait DeadLetterStore: Send + Sync {
    /// Keeps the letter. One job has one letter: the last.
    async fn bury(&self, tenant: &TenantId, letter: &DeadLetter) -> Result<(), StoreError>;

    /// Those of the newest runs first.
    async fn dead_letters(
        &self,
        tenant: &TenantId,
        page: &PageRequest,
    ) -> Result<Page<DeadLetter>, StoreError>;

    async fn dead_letter(&self, tenant: &TenantId, job: &JobId) -> Result<Option<DeadLetter>, StoreError>;

    async fn delete_dead_letter(&self, tenant: &TenantId, job: &JobId) -> Result<(), StoreError>;
}
