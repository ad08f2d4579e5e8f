//! The user's form of a workflow. Unknown fields are rejected, so that a misspelled one is not silently ignored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::meta::JobMeta;
use crate::{StepId, Topic, WorkflowId};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowDocument {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<WorkflowId>,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_sec: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    pub steps: BTreeMap<StepId, StepDocument>,
}

crate::named_enum! {
    pub enum StepType {
        Worker = "worker",
        Approval = "approval",
        Condition = "condition",
        Delay = "delay",
        Transform = "transform",
        Notify = "notify",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepDocument {
    #[serde(rename = "type")]
    pub kind: StepType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Topic>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<StepId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<StepId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryDocument>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_sec: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_sec: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_until: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<JobMeta>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryDocument {
    pub max_retries: u32,
    pub initial_backoff_sec: f64,
    pub multiplier: f64,
    pub max_backoff_sec: f64,
}

impl Default for RetryDocument {
    fn default() -> Self {
        Self { max_retries: 0, initial_backoff_sec: 1.0, multiplier: 2.0, max_backoff_sec: 300.0 }
    }
}
