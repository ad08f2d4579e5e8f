//! Workflow documents: versions are added, never changed.

use interlock_model::{TenantId, Timestamp, WorkflowId};

use super::rows::{self, WorkflowHead};
use super::store::{Decide, Look};
use super::tables::{Changes, Decided, Decision, Table, View, newest_page, read};
use crate::verbs::{DeleteWorkflow, ListWorkflows, ReadWorkflow, ReadWorkflowVersion, SaveWorkflow};
use crate::workflows::WorkflowVersion;
use crate::{Page, StoreError};

impl Decide for SaveWorkflow {
    fn decide(&self, view: &dyn View, now: Timestamp) -> Decided<u32> {
        let (tenant, id) = (&self.tenant, &self.id);
        let before: Option<WorkflowHead> = read(view, Table::WorkflowHeads, &rows::workflow(tenant, id))?;
        // A workflow that is saved again after its deletion continues to count: old runs keep their version.
        let version = before.map_or(1, |head| head.version + 1);
        let mut changes = Changes::default();
        let kept =
            WorkflowVersion { id: id.clone(), version, document: self.document.clone(), created_at: now };
        changes.put(Table::WorkflowVersions, rows::workflow_version(tenant, id, version), &kept);
        if let Some(before) = before {
            changes.delete(Table::WorkflowListing, rows::timed(tenant, before.saved_at, id));
        }
        changes.mark(Table::WorkflowListing, rows::timed(tenant, now, id));
        let head = WorkflowHead { version, is_deleted: false, saved_at: now };
        changes.put(Table::WorkflowHeads, rows::workflow(tenant, id), &head);
        Ok(Decision { answer: version, changes })
    }
}

fn version(
    view: &dyn View,
    (tenant, id): (&TenantId, &WorkflowId),
    version: u32,
) -> Result<Option<WorkflowVersion>, StoreError> {
    read(view, Table::WorkflowVersions, &rows::workflow_version(tenant, id, version))
}

fn current(
    view: &dyn View,
    tenant: &TenantId,
    id: &WorkflowId,
) -> Result<Option<WorkflowVersion>, StoreError> {
    let head: Option<WorkflowHead> = read(view, Table::WorkflowHeads, &rows::workflow(tenant, id))?;
    match head.filter(|head| !head.is_deleted) {
        None => Ok(None),
        Some(head) => version(view, (tenant, id), head.version),
    }
}

impl Decide for DeleteWorkflow {
    fn decide(&self, view: &dyn View, _: Timestamp) -> Decided<()> {
        let id = &self.id;
        let key = rows::workflow(&self.tenant, id);
        let head: Option<WorkflowHead> = read(view, Table::WorkflowHeads, &key)?;
        let Some(head) = head.filter(|head| !head.is_deleted) else {
            return Err(StoreError::not_found("workflow", id));
        };
        let mut changes = Changes::default();
        changes.delete(Table::WorkflowListing, rows::timed(&self.tenant, head.saved_at, id));
        changes.put(Table::WorkflowHeads, key, &WorkflowHead { is_deleted: true, ..head });
        Ok(Decision { answer: (), changes })
    }
}

impl Look for ListWorkflows {
    /// The current versions, newest first.
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<Page<WorkflowVersion>, StoreError> {
        newest_page(view, Table::WorkflowListing, &self.tenant, &self.page, |key| {
            rows::last_part(key).parse().map_or(Ok(None), |id| current(view, &self.tenant, &id))
        })
    }
}

impl Look for ReadWorkflow {
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<Option<WorkflowVersion>, StoreError> {
        current(view, &self.tenant, &self.id)
    }
}

impl Look for ReadWorkflowVersion {
    fn look(&self, view: &dyn View, _: Timestamp) -> Result<Option<WorkflowVersion>, StoreError> {
        version(view, (&self.tenant, &self.id), self.version)
    }
}
