//! Workflows: saved documents, each with an id and a version. A request is the model's own document.

use std::collections::BTreeMap;

use interlock_model::workflow::{StepDocument, WorkflowDocument};
use interlock_model::{LimitName, StepId, WorkflowId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
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
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_sec: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    pub steps: BTreeMap<StepId, StepDocument>,
    pub created_at: Time,
}

impl WorkflowView {
    pub fn new(id: WorkflowId, version: u32, document: WorkflowDocument, created_at: Time) -> Self {
        let WorkflowDocument { id: _, name, description, timeout_sec, input_schema, steps } = document;
        Self { id, version, name, description, timeout_sec, input_schema, steps, created_at }
    }
}
