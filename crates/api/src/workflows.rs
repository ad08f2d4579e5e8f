//! Workflows: saved documents, each with an id and a version. A request is the model's own document.

use std::collections::BTreeMap;

use interlock_model::workflow::{StepDocument, WorkflowDocument};
use interlock_model::{StepId, WorkflowId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::Time;

/// The answer to a saved document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedWorkflow {
    pub id: WorkflowId,
    pub version: u32,
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
