//! Workflow documents: versions are added, never changed.

use interlock_model::workflow::WorkflowDocument;
use interlock_model::{TenantId, Timestamp, WorkflowId};

use super::rows::{self, WorkflowHead};
use super::runs::{fill_page, page_end};
use super::tables::{Changes, Decision, Pick, Table, View, read};
use crate::workflows::WorkflowVersion;
use crate::{Page, PageRequest, StoreError};

pub(super) fn save(
    view: &dyn View,
    now: Timestamp,
    (tenant, id): (&TenantId, &WorkflowId),
    document: WorkflowDocument,
) -> Result<Decision<u32>, StoreError> {
    let before: Option<WorkflowHead> = read(view, Table::WorkflowHeads, &rows::workflow(tenant, id))?;
    // A workflow that comes back after its deletion goes on counting: old runs keep their version.
    let version = before.map_or(1, |head| head.version + 1);
    let mut changes = Changes::default();
    let kept = WorkflowVersion { id: id.clone(), version, document, created_at: now };
    changes.put(Table::WorkflowVersions, rows::workflow_version(tenant, id, version), &kept);
    if let Some(before) = before {
        changes.delete(Table::WorkflowListing, rows::listed(tenant, before.saved_at, id));
    }
    changes.mark(Table::WorkflowListing, rows::listed(tenant, now, id));
    let head = WorkflowHead { version, is_deleted: false, saved_at: now };
    changes.put(Table::WorkflowHeads, rows::workflow(tenant, id), &head);
    Ok(Decision { answer: version, changes })
}

pub(super) fn version(
    view: &dyn View,
    (tenant, id): (&TenantId, &WorkflowId),
    version: u32,
) -> Result<Option<WorkflowVersion>, StoreError> {
    read(view, Table::WorkflowVersions, &rows::workflow_version(tenant, id, version))
}

pub(super) fn current(
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

pub(super) fn delete(
    view: &dyn View,
    tenant: &TenantId,
    id: &WorkflowId,
) -> Result<Decision<()>, StoreError> {
    let key = rows::workflow(tenant, id);
    let head: Option<WorkflowHead> = read(view, Table::WorkflowHeads, &key)?;
    let Some(head) = head.filter(|head| !head.is_deleted) else {
        return Err(StoreError::not_found("workflow", id));
    };
    let mut changes = Changes::default();
    changes.delete(Table::WorkflowListing, rows::listed(tenant, head.saved_at, id));
    changes.put(Table::WorkflowHeads, key, &WorkflowHead { is_deleted: true, ..head });
    Ok(Decision { answer: (), changes })
}

/// The current versions, newest first.
pub(super) fn list(
    view: &dyn View,
    tenant: &TenantId,
    page: &PageRequest,
) -> Result<Page<WorkflowVersion>, StoreError> {
    let until = page_end(tenant, page);
    let limit = page.limit.saturating_add(1);
    let rows = view.scan(Table::WorkflowListing, &rows::of_tenant(tenant), &until, Pick::Last(limit))?;
    let keys: Vec<String> = rows.into_iter().map(|row| row.key).collect();
    fill_page(keys, page.limit, |key| match rows::last_part(key).parse() {
        Ok(id) => current(view, tenant, &id),
        Err(_) => Ok(None),
    })
}
