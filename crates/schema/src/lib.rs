//! JSON Schema validation, bounded in size and without remote references.
//!
//! A separate crate, because the validator is the heaviest dependency of the workspace.

use std::sync::Arc;

use serde_json::Value;

pub const SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of violations per error.
const VIOLATIONS_MAX: usize = 5;

/// A compiled schema. Cheap to clone.
#[derive(Clone)]
pub struct Schema(Arc<jsonschema::Validator>);

/// Why a schema is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSchema(String);

/// How a value violates a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(String);

impl Schema {
    pub fn compile(schema: &Value) -> Result<Self, InvalidSchema> {
        if !(schema.is_object() || schema.is_boolean()) {
            return Err(InvalidSchema("a JSON Schema must be an object or a boolean".to_owned()));
        }
        let bytes = schema.to_string().len();
        if bytes > SCHEMA_BYTES_MAX {
            return Err(InvalidSchema(format!(
                "the schema has {bytes} bytes; the maximum is {SCHEMA_BYTES_MAX}"
            )));
        }
        let validator =
            jsonschema::options().build(schema).map_err(|error| InvalidSchema(error.to_string()))?;
        Ok(Self(Arc::new(validator)))
    }

    pub fn check(&self, value: &Value) -> Result<(), Violation> {
        let violations: Vec<String> = self
            .0
            .iter_errors(value)
            .take(VIOLATIONS_MAX)
            .map(|error| {
                let place = error.instance_path().to_string();
                let text: String = error.to_string().chars().take(300).collect();
                if place.is_empty() { text } else { format!("{text} (at {place})") }
            })
            .collect();
        if violations.is_empty() { Ok(()) } else { Err(Violation(violations.join("; "))) }
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Schema")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_violation_names_the_problem_and_the_place() {
        let schema =
            Schema::compile(&json!({"properties": {"n": {"type": "integer"}}, "required": ["m"]})).unwrap();
        assert_eq!(schema.check(&json!({"n": 1, "m": 2})), Ok(()));
        let violation = schema.check(&json!({"n": "x"})).unwrap_err().to_string();
        assert!(violation.contains("/n") && violation.contains("\"m\""), "{violation}");
    }

    #[test]
    fn an_invalid_schema_is_rejected() {
        for bad in [json!(7), json!({"type": "nonsense"}), json!({"pattern": "("})] {
            assert!(Schema::compile(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_remote_reference_is_rejected_and_not_fetched() {
        assert!(Schema::compile(&json!({"$ref": "http://127.0.0.1:1/schema.json"})).is_err());
    }

    #[test]
    fn a_schema_that_is_too_large_is_rejected() {
        let large = json!({"description": "x".repeat(SCHEMA_BYTES_MAX)});
        assert!(Schema::compile(&large).unwrap_err().to_string().contains("the maximum is"));
    }
}
