//! Timelines.

use async_trait::async_trait;
use interlock_model::history::Recorded;
use interlock_model::{RunId, TenantId};

use crate::StoreError;

#[async_trait]
pub trait HistoryStore: Send + Sync {
    /// Up to `limit` events after number `after`, oldest first.
    async fn timeline(
        &self,
        tenant: &TenantId,
        run: RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError>;
}
