//! Workflows: saved documents, each with an id and a version. A request is the model's own document.

use std::collections::BTreeMap;

use interlock_model::workflow::{AuthorVersion, Ignored, StepDocument, WorkflowDocument};
use interlock_model::{LimitName, StepId, TenantId, WorkflowId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::Time;
use crate::named_limits::PauseView;

/// The answer to a saved document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedWorkflow {
    pub id: WorkflowId,
    pub version: u32,
}

/// Pauses a workflow: no run of it starts until it is resumed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseWorkflowRequest {
    /// At most 512 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 512)]
    pub reason: Option<String>,
    /// What becomes of its starts: `reject` if absent, or `queue`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_full: Option<PausedStarts>,
}

/// What becomes of the starts of a paused workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PausedStarts {
    /// They are rejected.
    Reject,
    /// Their runs wait.
    Queue,
}

/// Whether a workflow is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowPauseView {
    pub workflow: WorkflowId,
    /// The limit that pauses it.
    pub limit: LimitName,
    /// Who paused it; null: it is not paused.
    #[schema(required)]
    pub paused: Option<PauseView>,
}

/// A workflow as it was saved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowView {
    pub id: WorkflowId,
    pub version: u32,
    /// The tenant.
    pub org_id: TenantId,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The `version` of the document, as its author wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_sec: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    pub steps: BTreeMap<StepId, StepDocument>,
    pub created_at: Time,
}

impl WorkflowView {
    pub fn new(
        tenant: TenantId,
        (id, version): (WorkflowId, u32),
        document: WorkflowDocument,
        created_at: Time,
    ) -> Self {
        Self {
            id,
            version,
            org_id: tenant,
            name: document.name,
            description: document.description,
            author_version: document.version.map(|version| version.0),
            team_id: document.team_id,
            created_by: document.created_by,
            config: document.config,
            parameters: document.parameters,
            labels: document.labels,
            timeout_sec: document.timeout_sec,
            input_schema: document.input_schema,
            steps: document.steps,
            created_at,
        }
    }
}

impl From<WorkflowView> for WorkflowDocument {
    fn from(view: WorkflowView) -> Self {
        Self {
            id: Some(view.id),
            name: view.name,
            description: view.description,
            version: view.author_version.map(AuthorVersion),
            org_id: Some(view.org_id),
            team_id: view.team_id,
            created_by: view.created_by,
            config: view.config,
            parameters: view.parameters,
            labels: view.labels,
            created_at: Ignored,
            updated_at: Ignored,
            policy_override: None,
            timeout_sec: view.timeout_sec,
            input_schema: view.input_schema,
            steps: view.steps,
        }
    }
}
