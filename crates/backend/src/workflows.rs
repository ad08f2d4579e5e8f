//! Workflow documents, every version of them.

use async_trait::async_trait;
use interlock_model::workflow::WorkflowDocument;
use interlock_model::{TenantId, Timestamp, WorkflowId};
use serde::{Deserialize, Serialize};

use crate::{Page, PageRequest, StoreError};

/// One version of a workflow. Never changes: runs are pinned to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkflowVersion {
    pub id: WorkflowId,
    pub version: u32,
    pub document: WorkflowDocument,
    pub created_at: Timestamp,
}

#[async_trait]
pub trait WorkflowStore: Send + Sync {
    /// Keeps the document as the next version of its workflow. Returns that version.
    async fn save_workflow(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
        document: &WorkflowDocument,
    ) -> Result<u32, StoreError>;

    /// The current version.
    async fn workflow(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
    ) -> Result<Option<WorkflowVersion>, StoreError>;

    /// A version, also of a workflow that was deleted since.
    async fn workflow_version(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
        version: u32,
    ) -> Result<Option<WorkflowVersion>, StoreError>;

    async fn workflows(
        &self,
        tenant: &TenantId,
        page: &PageRequest,
    ) -> Result<Page<WorkflowVersion>, StoreError>;

    /// Refuses new starts. Runs that have begun go on with their version.
    async fn delete_workflow(&self, tenant: &TenantId, id: &WorkflowId) -> Result<(), StoreError>;
}
