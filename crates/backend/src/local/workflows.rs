//! Workflow documents: versions are added, never changed.

use interlock_model::{TenantId, WorkflowId};

use super::draft::decide;
use super::rows::{self, WorkflowHead};
use super::slots::LimitedTenant;
use super::store::look;
use super::tables::{Table, View, newest_page, read};
use crate::verbs::{DeleteWorkflow, ListWorkflows, ReadWorkflow, ReadWorkflowVersion, SaveWorkflow};
use crate::workflows::WorkflowVersion;
use crate::{Quota, StoreError};

decide!(SaveWorkflow, |verb, draft| {
    let (tenant, id, now) = (&verb.tenant, &verb.id, draft.now);
    let before: Option<WorkflowHead> = draft.read(Table::WorkflowHeads, &rows::workflow(tenant, id))?;
    let quotas = LimitedTenant::read(draft.view, tenant)?.limits.quotas;
    match before {
        None if draft.tenant()?.workflows >= quotas.workflows_max => {
            let (quota, most) = (Quota::Workflows, quotas.workflows_max);
            return Err(StoreError::QuotaReached { quota, most });
        }
        None => draft.tenant()?.workflows += 1,
        Some(before) if before.version >= quotas.workflow_versions_max => {
            let (quota, most) = (Quota::WorkflowVersions, quotas.workflow_versions_max);
            return Err(StoreError::QuotaReached { quota, most });
        }
        Some(_) => {}
    }
    // A workflow that is saved again after its deletion continues to count: old runs keep their version.
    let version = before.map_or(1, |head| head.version + 1);
    let saved = WorkflowVersion { id: id.clone(), version, document: verb.document.clone(), created_at: now };
    draft.put(Table::WorkflowVersions, rows::workflow_version(tenant, id, version), &saved);
    if let Some(before) = before {
        draft.delete(Table::WorkflowListing, rows::timed(tenant, before.saved_at, id));
    }
    draft.mark(Table::WorkflowListing, rows::timed(tenant, now, id));
    let head = WorkflowHead { version, is_deleted: false, saved_at: now };
    draft.put(Table::WorkflowHeads, rows::workflow(tenant, id), &head);
    Ok(version)
});

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

decide!(DeleteWorkflow, |verb, draft| {
    let key = rows::workflow(&verb.tenant, &verb.id);
    let head: Option<WorkflowHead> = draft.read(Table::WorkflowHeads, &key)?;
    let Some(head) = head.filter(|head| !head.is_deleted) else {
        return Err(StoreError::not_found("workflow", &verb.id));
    };
    draft.delete(Table::WorkflowListing, rows::timed(&verb.tenant, head.saved_at, &verb.id));
    draft.put(Table::WorkflowHeads, key, &WorkflowHead { is_deleted: true, ..head });
    Ok(())
});

look!(ListWorkflows, |verb, view| {
    let (page, rows_max) = ((&verb.tenant, &verb.page), verb.page.limit);
    newest_page(view, Table::WorkflowListing, page, rows_max, |row| {
        rows::last_part(&row.key).parse().map_or(Ok(None), |id| current(view, &verb.tenant, &id))
    })
});

look!(ReadWorkflow, |verb, view| current(view, &verb.tenant, &verb.id));

look!(ReadWorkflowVersion, |verb, view| version(view, (&verb.tenant, &verb.id), verb.version));
