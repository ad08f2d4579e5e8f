//! JSON Schema behind a small door: compiled once, bounded in size, and never fetching anything.
//!
//! A crate of its own because the validator is the heaviest dependency of the tree: behind this border it is
//! compiled once and nothing else has to know it.

use std::sync::Arc;

use serde_json::Value;

/// A larger schema is a program; refuse it.
pub const SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// How many violations one answer tells.
const VIOLATIONS_MAX: usize = 5;

/// A compiled schema. Cheap to clone.
#[derive(Clone)]
pub struct Schema(Arc<jsonschema::Validator>);

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSchema(String);

/// How a value breaks a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(String);

impl Schema {
    pub fn compile(schema: &Value) -> Result<Self, InvalidSchema> {
        if !(schema.is_object() || schema.is_boolean()) {
            return Err(InvalidSchema("a JSON Schema is an object or a boolean".to_owned()));
        }
        let bytes = schema.to_string().len();
        if bytes > SCHEMA_BYTES_MAX {
            return Err(InvalidSchema(format!(
                "the schema has {bytes} bytes; {SCHEMA_BYTES_MAX} is the most"
            )));
        }
        let validator =
            jsonschema::options().build(schema).map_err(|error| InvalidSchema(error.to_string()))?;
        Ok(Self(Arc::new(validator)))
    }

    pub fn check(&self, value: &Value) -> Result<(), Violation> {
        let told: Vec<String> = self
            .0
            .iter_errors(value)
            .take(VIOLATIONS_MAX)
            .map(|error| {
                let place = error.instance_path().to_string();
                let text: String = error.to_string().chars().take(300).collect();
                if place.is_empty() { text } else { format!("{text} (at {place})") }
            })
            .collect();
        if told.is_empty() { Ok(()) } else { Err(Violation(told.join("; "))) }
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
    fn a_violation_says_what_and_where() {
        let schema =
            Schema::compile(&json!({"properties": {"n": {"type": "integer"}}, "required": ["m"]})).unwrap();
        assert_eq!(schema.check(&json!({"n": 1, "m": 2})), Ok(()));
        let told = schema.check(&json!({"n": "x"})).unwrap_err().to_string();
        assert!(told.contains("/n") && told.contains("\"m\""), "{told}");
    }

    #[test]
    fn a_schema_that_is_none_is_refused() {
        for bad in [json!(7), json!({"type": "nonsense"}), json!({"pattern": "("})] {
            assert!(Schema::compile(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_remote_reference_is_refused_and_not_fetched() {
        assert!(Schema::compile(&json!({"$ref": "http://127.0.0.1:1/schema.json"})).is_err());
    }

    #[test]
    fn a_schema_that_is_too_large_is_refused() {
        let large = json!({"description": "x".repeat(SCHEMA_BYTES_MAX)});
        assert!(Schema::compile(&large).unwrap_err().to_string().contains("is the most"));
    }
}
