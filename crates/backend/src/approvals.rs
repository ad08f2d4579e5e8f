//! Approvals: asked by a run, answered by a person.

use async_trait::async_trait;
use interlock_model::approval::{Approval, Decision, Resolution};
use interlock_model::{JobId, TenantId};

use crate::{Page, PageRequest, StoreError};

#[async_trait]
pub trait ApprovalStore: Send + Sync {
    /// Records the verdict and puts it into the run's inbox, in one step. The first verdict counts.
    async fn resolve(
        &self,
        tenant: &TenantId,
        job: &JobId,
        decision: Decision,
    ) -> Result<Resolution, StoreError>;

    /// The open ones.
    async fn approvals(&self, tenant: &TenantId, page: &PageRequest) -> Result<Page<Approval>, StoreError>;
}
