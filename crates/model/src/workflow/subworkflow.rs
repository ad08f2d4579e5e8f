//! The document of a subworkflow step: the workflow that it starts, and the input of that run.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::FanOutRule;
use super::compile::{InvalidWorkflow, WrittenStep};
use crate::WorkflowId;
use crate::expression::Template;

/// Which workflow a step starts as a run of its own.
#[derive(Debug, Clone)]
pub struct SubworkflowRule {
    pub workflow: WorkflowId,
    /// The input of the child. None: the item, or the input of the run.
    pub input: Option<Template>,
    pub fan_out: Option<FanOutRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubworkflowInput {
    workflow_id: WorkflowId,
    #[serde(default)]
    input_mapping: Option<Map<String, Value>>,
}

impl WrittenStep<'_> {
    pub(super) fn subworkflow(self) -> Result<SubworkflowRule, InvalidWorkflow> {
        let place = format!("steps.{}.input", self.id);
        let Some(input) = &self.document.input else {
            return Err(InvalidWorkflow::new(
                place,
                "a subworkflow step requires an input with a workflow_id",
            ));
        };
        let read = serde_json::from_value(Value::Object(input.clone()));
        let SubworkflowInput { workflow_id, input_mapping } =
            read.map_err(|error| InvalidWorkflow::new(place, error))?;
        let mapping =
            input_mapping.map(|mapping| self.template("input.input_mapping", &Value::Object(mapping)));
        Ok(SubworkflowRule { workflow: workflow_id, input: mapping.transpose()?, fan_out: self.fan_out()? })
    }
}
