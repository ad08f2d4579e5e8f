//! Workflow documents, every version of them.

use async_trait::async_trait;
use interlock_backend::workflows::{WorkflowStore, WorkflowVersion};
use interlock_backend::{Page, PageRequest, StoreError};
use interlock_model::workflow::WorkflowDocument;
use interlock_model::{TenantId, WorkflowId};

use crate::runs::found;
use crate::script::{Call, Fields, Unreadable};
use crate::store::RedisStore;
use crate::{encode, scripts};

#[async_trait]
impl WorkflowStore for RedisStore {
    async fn save_workflow(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
        document: &WorkflowDocument,
    ) -> Result<u32, StoreError> {
        let call = Call::write(&scripts::SAVE_WORKFLOW, "save a workflow", tenant);
        let call = call.with(id.as_str()).with(encode::json(document));
        self.ask(call, |mut fields| fields.parsed("version")).await
    }

    async fn workflow(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
    ) -> Result<Option<WorkflowVersion>, StoreError> {
        let call = Call::read(&scripts::WORKFLOW, "read a workflow", tenant).of("workflow", id);
        found(self.ask(call.with(id.as_str()), read_version).await)
    }

    async fn workflow_version(
        &self,
        tenant: &TenantId,
        id: &WorkflowId,
        version: u32,
    ) -> Result<Option<WorkflowVersion>, StoreError> {
        let call = Call::read(&scripts::WORKFLOW_VERSION, "read a workflow", tenant).of("workflow", id);
        found(self.ask(call.with(id.as_str()).with(version), read_version).await)
    }

    async fn workflows(
        &self,
        tenant: &TenantId,
        page: &PageRequest,
    ) -> Result<Page<WorkflowVersion>, StoreError> {
        let call = Call::read(&scripts::WORKFLOWS, "list workflows", tenant);
        let call = call.with(page.after.as_deref()).with(page.limit);
        self.ask(call, |fields| fields.page(|item| read_version(item.list()?))).await
    }

    async fn delete_workflow(&self, tenant: &TenantId, id: &WorkflowId) -> Result<(), StoreError> {
        let call = Call::write(&scripts::DELETE_WORKFLOW, "delete a workflow", tenant).of("workflow", id);
        self.ask(call.with(id.as_str()), |_| Ok(())).await
    }
}

fn read_version(mut fields: Fields) -> Result<WorkflowVersion, Unreadable> {
    Ok(WorkflowVersion {
        id: fields.parsed("workflow")?,
        version: fields.parsed("version")?,
        document: fields.json("workflow document")?,
        created_at: fields.time()?,
    })
}
