//! JSON Schema validation, bounded in size and work, and without remote references.
//!
//! A separate crate, because the validator is the heaviest dependency of the workspace.

mod work;

use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};
use work::Work;

pub const SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// Visits of parts of the schema that one check may need: a fraction of a second.
pub const VISITS_MAX: u64 = 1_000_000;

/// The same for a check that also says where the value is wrong, which keeps something of every visit.
const EXPLAINED_VISITS_MAX: u64 = 50_000;

/// Patterns of all schemas that are kept together, and bytes that they may have in all when compiled.
const PATTERNS_MAX: usize = 1_000;
const PATTERNS_BYTES_MAX: usize = 4 << 20;

/// Bytes of one compiled pattern. Nested repetitions make a short pattern large.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Characters of an error about a schema, which may quote it.
const ERROR_CHARS_MAX: usize = 300;

/// Maximum number of violations per error.
const VIOLATIONS_MAX: usize = 5;

/// A compiled schema. Cheap to clone.
#[derive(Clone)]
pub struct Schema(Arc<Compiled>);

struct Compiled {
    document: Value,
    validator: Validator,
    /// The most visits for each part of a value, or none if that depends on the value.
    expansion: Option<u64>,
}

/// Why a schema is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSchema(String);

/// How a value violates a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(String);

/// The number of patterns in a schema.
pub fn patterns(schema: &Value) -> usize {
    match schema {
        Value::Object(fields) => {
            let named = fields.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len);
            let own = usize::from(fields.get("pattern").is_some_and(Value::is_string));
            named + own + fields.values().map(patterns).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(patterns).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

impl Schema {
    pub fn compile(schema: &Value) -> Result<Self, InvalidSchema> {
        Self::compile_among(schema, patterns(schema))
    }

    /// Compiles one of several schemas that are kept together; `patterns` is the number of patterns of all of them.
    pub fn compile_among(schema: &Value, patterns: usize) -> Result<Self, InvalidSchema> {
        if !(schema.is_object() || schema.is_boolean()) {
            return Err(InvalidSchema("a JSON Schema must be an object or a boolean".to_owned()));
        }
        let bytes = schema.to_string().len();
        if bytes > SCHEMA_BYTES_MAX {
            return Err(InvalidSchema(format!(
                "the schema has {bytes} bytes; the maximum is {SCHEMA_BYTES_MAX}"
            )));
        }
        let expansion = Work::of(schema).expansion();
        let expansion = expansion.map_err(|unbounded| InvalidSchema(format!("the schema {unbounded}")))?;
        if expansion.is_some_and(|visits| visits > VISITS_MAX) {
            return Err(InvalidSchema(format!(
                "the schema expands to more than {VISITS_MAX} checks of one value: nest fewer references and alternatives"
            )));
        }
        if patterns > PATTERNS_MAX {
            return Err(InvalidSchema(format!(
                "there are {patterns} patterns; the maximum is {PATTERNS_MAX}"
            )));
        }
        let pattern_bytes = (PATTERNS_BYTES_MAX / patterns.max(1)).min(PATTERN_BYTES_MAX);
        // The default engine for patterns backtracks, and takes exponential time for some.
        let engine = PatternOptions::regex().size_limit(pattern_bytes).dfa_size_limit(pattern_bytes);
        let validator = jsonschema::options().with_pattern_options(engine).build(schema);
        let validator = validator.map_err(|error| invalid(&error))?;
        // A pattern costs more the longer the text is, which the number of parts does not say.
        let expansion = expansion.filter(|_| self::patterns(schema) == 0);
        Ok(Self(Arc::new(Compiled { document: schema.clone(), validator, expansion })))
    }

    /// Fails as a violation, too, if the check would be too much work: that is the fault of this value and this schema.
    pub fn check(&self, value: &Value) -> Result<(), Violation> {
        let visits = self.visits(value)?;
        if self.0.validator.is_valid(value) {
            return Ok(());
        }
        if visits > EXPLAINED_VISITS_MAX {
            return Err(Violation(
                "the value does not match its schema, and is too large to say where".to_owned(),
            ));
        }
        let violations: Vec<String> = self
            .0
            .validator
            .iter_errors(value)
            .take(VIOLATIONS_MAX)
            .map(|error| {
                let place = error.instance_path().to_string();
                let text: String = error.to_string().chars().take(300).collect();
                if place.is_empty() { text } else { format!("{text} (at {place})") }
            })
            .collect();
        Err(Violation(violations.join("; ")))
    }

    /// The most visits that a check of this value needs.
    fn visits(&self, value: &Value) -> Result<u64, Violation> {
        let size = work::size(value);
        if let Some(visits) = self.0.expansion.map(|visits| visits.saturating_mul(size))
            && visits <= VISITS_MAX
        {
            return Ok(visits);
        }
        let too_much =
            |reason: String| Violation(format!("the value cannot be checked against its schema: {reason}"));
        match Work::of(&self.0.document).visits(value) {
            Ok(visits) if visits <= VISITS_MAX => Ok(visits),
            Ok(_) => Err(too_much(format!("that needs more than {VISITS_MAX} steps"))),
            Err(unbounded) => Err(too_much(format!("the schema {unbounded}"))),
        }
    }
}

fn invalid(error: &ValidationError<'_>) -> InvalidSchema {
    let text: String = error.to_string().chars().take(ERROR_CHARS_MAX).collect();
    let is_pattern = matches!(error.kind(), ValidationErrorKind::Format { format } if format == "regex");
    InvalidSchema(if is_pattern { format!("{text}, or it is too large when compiled") } else { text })
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

    /// Each of `levels` parts has the next one twice, under `keyword` and beside what `around` puts there.
    fn doubling(levels: usize, around: impl Fn(Value) -> Value) -> Value {
        let mut parts = serde_json::Map::new();
        for level in 0..levels {
            let next = json!({"$ref": format!("#/$defs/p{}", level + 1)});
            parts.insert(format!("p{level}"), around(next));
        }
        parts.insert(format!("p{levels}"), json!({"type": "integer"}));
        json!({"$defs": parts, "$ref": "#/$defs/p0"})
    }

    #[test]
    fn a_schema_that_explodes_is_rejected() {
        for keyword in ["anyOf", "allOf", "oneOf"] {
            let bomb = doubling(25, |next| json!({keyword: [next, next]}));
            let error = Schema::compile(&bomb).unwrap_err().to_string();
            assert!(error.contains("expands to more than"), "{error}");
        }
        let through_parts = doubling(25, |next| json!({"properties": {"a": {"anyOf": [next, next]}}}));
        assert!(Schema::compile(&through_parts).is_err());
        let conditions = doubling(25, |next| json!({"if": next, "then": next, "else": next}));
        assert!(Schema::compile(&conditions).is_err());
    }

    #[test]
    fn a_recursive_schema_is_checked_as_far_as_the_budget_goes() {
        let tree = json!({"properties": {"children": {"items": {"$ref": "#"}}, "n": {"type": "integer"}}});
        let tree = Schema::compile(&tree).unwrap();
        let nested = |levels| (0..levels).fold(json!({"n": 1}), |inner, _| json!({"children": [inner]}));
        assert_eq!(tree.check(&nested(40)), Ok(()));
        assert!(
            tree.check(&json!({"children": [{"n": "x"}]})).unwrap_err().to_string().contains("/children/0/n")
        );
        // The same tree, twice at every level.
        let same = json!({"$ref": "#"});
        let children = json!({"items": {"anyOf": [same, same]}});
        let twice = json!({"properties": {"children": children, "n": {"type": "integer"}}});
        let twice = Schema::compile(&twice).unwrap();
        assert_eq!(twice.check(&nested(3)), Ok(()));
        let bomb = (0..40).fold(json!({"n": "x"}), |inner, _| json!({"children": [inner]}));
        assert!(twice.check(&bomb).unwrap_err().to_string().contains("more than 1000000 steps"));
    }

    #[test]
    fn a_schema_that_never_ends_is_an_error_of_the_value() {
        let endless =
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"});
        let answer = Schema::compile(&endless).map(|schema| schema.check(&json!(1)));
        assert!(!matches!(answer, Ok(Ok(()))), "{answer:?}");
    }

    #[test]
    fn a_long_chain_of_references_is_rejected_in_any_order() {
        let chain = |length: usize| {
            let part = |at| (format!("p{at}"), json!({"$ref": format!("#/$defs/p{}", at + 1)}));
            let mut parts: serde_json::Map<_, _> = (0..length).map(part).collect();
            parts.insert(format!("p{length}"), json!(true));
            parts
        };
        let from = |starts: &[usize], length| {
            let starts: Vec<Value> =
                starts.iter().map(|at| json!({"$ref": format!("#/$defs/p{at}")})).collect();
            Schema::compile(&json!({"$defs": chain(length), "allOf": starts}))
        };
        assert!(from(&[0], 300).is_ok());
        assert!(from(&[0], 1_000).unwrap_err().to_string().contains("levels deep"));
        // The end of the chain is known before its beginning is looked at.
        assert!(from(&[750, 500, 250, 0], 1_000).unwrap_err().to_string().contains("levels deep"));
    }

    #[test]
    fn many_alternatives_for_many_items_are_refused_before_they_are_tried() {
        let alternatives: Vec<Value> = (0..2_000).map(|at| json!({"const": at})).collect();
        let schema = Schema::compile(&json!({"items": {"anyOf": alternatives}})).unwrap();
        assert_eq!(schema.check(&json!(vec![1_999; 10])), Ok(()));
        assert!(
            schema.check(&json!(vec![-1; 10_000])).unwrap_err().to_string().contains("cannot be checked")
        );
    }

    #[test]
    fn a_pattern_takes_no_exponential_time() {
        let schema = Schema::compile(&json!({"pattern": "^(a+)+$"})).unwrap();
        assert!(schema.check(&json!("a".repeat(100_000) + "!")).is_err());
        assert!(
            Schema::compile(&json!({"pattern": "(a)\\1"})).is_err(),
            "only a backtracking engine can match it"
        );
    }

    #[test]
    fn patterns_are_bounded_in_number_and_size_together() {
        let named = |count: usize, pattern: &str| {
            let parts: Map<String, Value> =
                (0..count).map(|at| (format!("{pattern}{at}"), json!(true))).collect();
            json!({"patternProperties": parts})
        };
        // 15 characters, and 8 MB when compiled.
        let large = Schema::compile(&named(1, "(a{1,300}){1,300}")).unwrap_err().to_string();
        assert!(large.contains("too large when compiled"), "{large}");
        let many = Schema::compile(&named(1_001, "a")).unwrap_err().to_string();
        assert!(many.contains("1001 patterns; the maximum is 1000"), "{many}");
        // Each of them alone is small enough.
        let pattern = "^[a-z0-9._-]{1,300}$";
        assert!(Schema::compile(&named(100, pattern)).is_ok());
        assert!(Schema::compile(&named(1_000, pattern)).is_err());
        assert!(Schema::compile_among(&named(1, pattern), 1_000).is_err());
        assert_eq!(patterns(&json!({"items": [{"pattern": "a"}, named(2, "b")], "not": {"pattern": 1}})), 3);
    }

    #[test]
    fn a_pattern_costs_as_much_as_the_text_is_long() {
        let slow = "(a|b|ab){1,50}c";
        let refused = |schema: Value, value: &Value| {
            let violation = Schema::compile(&schema).unwrap().check(value).unwrap_err().to_string();
            violation.contains("more than 1000000 steps")
        };
        let long = "ab".repeat(300_000);
        assert!(refused(json!({"pattern": slow}), &json!(long)));
        assert!(refused(json!({"items": {"pattern": slow}}), &json!(vec!["ab".repeat(3_000); 100])));
        assert!(refused(json!({"patternProperties": {slow: true}}), &json!({long.clone(): 1})));
        assert!(refused(json!({"propertyNames": {"pattern": slow}}), &json!({long: 1})));
        let prefix = Schema::compile(&json!({"pattern": "^data:"})).unwrap();
        assert_eq!(prefix.check(&json!("data:".to_owned() + &"x".repeat(400_000))), Ok(()));
    }

    #[test]
    fn an_error_does_not_repeat_a_long_schema() {
        let error = Schema::compile(&json!({"pattern": "(".repeat(10_000)})).unwrap_err().to_string();
        assert!(error.len() < 400, "{error}");
    }

    #[test]
    fn a_reference_out_of_the_schema_is_rejected() {
        for reference in
            ["other.json", "https://json-schema.org/draft/2020-12/schema", "#/nowhere", "#nothing"]
        {
            assert!(Schema::compile(&json!({"$ref": reference})).is_err(), "{reference}");
        }
        let anchored = json!({"$defs": {"n": {"$anchor": "number", "type": "integer"}}, "$ref": "#number"});
        assert!(Schema::compile(&anchored).unwrap().check(&json!("x")).is_err());
    }

    #[test]
    fn a_schema_that_is_too_large_is_rejected() {
        let large = json!({"description": "x".repeat(SCHEMA_BYTES_MAX)});
        assert!(Schema::compile(&large).unwrap_err().to_string().contains("the maximum is"));
    }
}
