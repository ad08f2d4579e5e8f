//! A schema and a value, as `{"schema": …, "value": …}`.

use interlock_fuzz::json::{number, value, written_otherwise};
use interlock_fuzz::{Target, expect_short, on_a_small_stack};
use interlock_schema::Schema;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

const CHOICES: [bool; 7] = [true, false, true, true, false, false, true];

/// Keywords whose value is one schema, a list of schemas, and schemas by name.
const ONE: [&str; 13] = [
    "not",
    "if",
    "then",
    "else",
    "items",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
    "additionalItems",
    "contentSchema",
    "x",
];
const LISTS: [&str; 5] = ["allOf", "anyOf", "oneOf", "prefixItems", "items"];
const MAPS: [&str; 5] = ["properties", "patternProperties", "dependentSchemas", "dependencies", "$defs"];
const NAMES: [&str; 5] = ["a", "b", "^a", "(a+)+$", "c"];
const REFERENCES: [&str; 8] =
    ["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#a", "#/allOf/0", "other.json", "#/$defs/%61"];
const TYPES: [&str; 6] = ["object", "array", "integer", "number", "string", "null"];
const COUNTS: [&str; 10] = [
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "minimum",
    "exclusiveMaximum",
    "multipleOf",
    "minContains",
    "maximum",
];
const PATTERNS: [&str; 6] = ["^a", "(a+)+$", "[", "(a)\\1", "a{1,1000}", "\\p{L}*"];

fn leaf() -> impl Strategy<Value = Value> {
    let keyword = |name: &'static str, value: Value| json!({ name: value });
    prop_oneof![
        any::<bool>().prop_map(Value::from),
        select(&TYPES[..]).prop_map(move |name| keyword("type", json!(name))),
        (select(&REFERENCES[..]), select(vec!["$ref", "$dynamicRef"])).prop_map(|(to, by)| json!({ by: to })),
        (select(&COUNTS[..]), number()).prop_map(|(name, number)| json!({ name: number })),
        select(&PATTERNS[..]).prop_map(move |pattern| keyword("pattern", json!(pattern))),
        proptest::collection::vec(value(), 0..4).prop_map(move |values| keyword("enum", json!(values))),
        value().prop_map(move |value| keyword("const", value)),
        select(vec!["a", "b"]).prop_map(|name| json!({"$anchor": name, "required": [name]})),
        select(vec!["date-time", "email", "regex", "uri"])
            .prop_map(move |name| keyword("format", json!(name))),
        Just(json!({"uniqueItems": true})),
        number(),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(6, 60, 5, |inner| {
        let one = (select(&ONE[..]), inner.clone()).prop_map(|(name, part)| (name, part));
        let list = (select(&LISTS[..]), proptest::collection::vec(inner.clone(), 0..4))
            .prop_map(|(name, parts)| (name, json!(parts)));
        let map =
            (select(&MAPS[..]), proptest::collection::btree_map(select(&NAMES[..]), inner.clone(), 0..4))
                .prop_map(|(name, parts)| (name, json!(parts)));
        let keyword = prop_oneof![one, list, map];
        (proptest::collection::vec(keyword, 1..4), inner).prop_map(|(keywords, beside)| {
            let mut schema: Map<String, Value> = beside.as_object().cloned().unwrap_or_default();
            schema.extend(keywords.into_iter().map(|(name, part)| (name.to_owned(), part)));
            Value::Object(schema)
        })
    })
}

fn pair() -> impl Strategy<Value = Vec<u8>> {
    (schema(), value())
        .prop_map(|(schema, value)| json!({"schema": schema, "value": value}).to_string().into_bytes())
}

fn reread(value: &Value) -> Value {
    serde_json::from_str(&written_otherwise(value, &CHOICES)).expect("it is the same JSON")
}

#[test]
fn a_schema_is_rejected_or_checks_every_value_within_bounds() {
    Target::new(env!("CARGO_MANIFEST_DIR"), "schemas").fuzz(pair(), |input| {
        let Ok(pair) = serde_json::from_slice::<Value>(input) else { return };
        let (schema, value) = (&pair["schema"], &pair["value"]);
        on_a_small_stack(|| {
            let compiled = match Schema::compile(schema) {
                Err(error) => {
                    expect_short(&error);
                    return assert!(Schema::compile(&reread(schema)).is_err(), "{schema}");
                }
                Ok(compiled) => compiled,
            };
            let answer = compiled.check(value);
            answer.as_ref().inspect_err(|violation| expect_short(*violation)).ok();
            let again = Schema::compile(&reread(schema)).expect("the same schema is accepted again");
            assert_eq!(again.check(&reread(value)).is_ok(), answer.is_ok(), "{schema} {value}");
        });
    });
}
