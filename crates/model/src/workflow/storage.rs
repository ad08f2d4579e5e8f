//! The document of a storage step: what it does to the context of its run.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::compile::{InvalidWorkflow, WrittenStep};
use crate::expression::Template;
use crate::run::context::ContextPath;

/// What a step does with the value at a path.
#[derive(Debug, Clone)]
pub struct StorageRule {
    /// Renders to the path.
    pub key: Template,
    pub operation: StorageOperation,
}

#[derive(Debug, Clone)]
pub enum StorageOperation {
    Read,
    Write { value: Template },
    Delete,
}

impl StorageOperation {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write { .. } => "write",
            Self::Delete => "delete",
        }
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OperationName {
    Read,
    Write,
    Delete,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StorageInput {
    operation: OperationName,
    key: String,
}

impl WrittenStep<'_> {
    pub(super) fn storage(self) -> Result<StorageRule, InvalidWorkflow> {
        let place = format!("steps.{}.input", self.id);
        let Some(input) = &self.document.input else {
            let problem = "a storage step requires an input with its operation and its key";
            return Err(InvalidWorkflow::new(place, problem));
        };
        let mut input: Map<String, Value> = input.clone();
        // A null is a value, too.
        let value = input.remove("value");
        let read = serde_json::from_value(Value::Object(input));
        let StorageInput { operation, key } = read.map_err(|error| InvalidWorkflow::new(&place, error))?;
        if !key.contains("${") {
            key.parse::<ContextPath>()
                .map_err(|error| InvalidWorkflow::new(format!("{place}.key"), error))?;
        }
        let operation = match (operation, value) {
            (OperationName::Read, None) => StorageOperation::Read,
            (OperationName::Delete, None) => StorageOperation::Delete,
            (OperationName::Write, Some(value)) => {
                StorageOperation::Write { value: self.template("input.value", &value)? }
            }
            (OperationName::Write, None) => {
                return Err(InvalidWorkflow::new(format!("{place}.value"), "a write requires a value"));
            }
            (OperationName::Read | OperationName::Delete, Some(_)) => {
                return Err(InvalidWorkflow::new(format!("{place}.value"), "only a write has a value"));
            }
        };
        Ok(StorageRule { key: self.template("input.key", &Value::String(key))?, operation })
    }
}
