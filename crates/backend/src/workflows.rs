//! Workflow documents, every version of them.

use interlock_model::workflow::WorkflowDocument;
use interlock_model::{TenantId, Timestamp, WorkflowId};
use serde::{Deserialize, Serialize};

use crate::verb::verb;
use crate::wire;
use crate::{Page, PageRequest};

/// One version of a workflow. Never changes: runs are pinned to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkflowVersion {
    pub id: WorkflowId,
    pub version: u32,
    pub document: WorkflowDocument,
    pub created_at: Timestamp,
}

/// Saves the document as the next version of its workflow. Answers with that version.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SaveWorkflow {
    pub tenant: TenantId,
    pub id: WorkflowId,
    #[serde(serialize_with = "wire::as_document")]
    pub document: WorkflowDocument,
}
verb!(write => SaveWorkflow, "save_workflow", "save a workflow", u32);

/// The current version.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadWorkflow {
    pub tenant: TenantId,
    pub id: WorkflowId,
}
verb!(read => ReadWorkflow, "read_workflow", "read a workflow", Option<WorkflowVersion>);

/// A version, also of a workflow that was deleted since.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadWorkflowVersion {
    pub tenant: TenantId,
    pub id: WorkflowId,
    pub version: u32,
}
verb!(read => ReadWorkflowVersion, "read_workflow_version", "read a workflow", Option<WorkflowVersion>);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListWorkflows {
    pub tenant: TenantId,
    pub page: PageRequest,
}
verb!(read => ListWorkflows, "list_workflows", "list workflows", Page<WorkflowVersion>);

/// Refuses new starts. Runs that have begun continue with their version.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeleteWorkflow {
    pub tenant: TenantId,
    pub id: WorkflowId,
}
verb!(write => DeleteWorkflow, "delete_workflow", "delete a workflow", ());
