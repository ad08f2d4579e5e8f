//! JSON texts: checked before they are read, and compared by their meaning.

use std::fmt;

use interlock_fuzz::json::{value, written_otherwise};
use interlock_fuzz::{Target, expect_short, on_a_small_stack};
use interlock_model::fingerprint::{Fingerprint, canonical};
use interlock_model::json_text;
use proptest::prelude::*;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

const LEVELS_MAX: usize = 64;

/// Choices for another text of the same value.
const CHOICES: [bool; 11] = [true, false, false, true, true, false, true, false, false, false, true];

fn text() -> impl Strategy<Value = Vec<u8>> {
    let choices = proptest::collection::vec(any::<bool>(), 1..20);
    let whole = (value(), choices).prop_map(|(value, choices)| written_otherwise(&value, &choices));
    let twice = (value(), value()).prop_map(|(one, other)| format!("{{\"a\": {one}, \"\\u0061\": {other}}}"));
    let deep = (1..200_usize, "[\\[{]").prop_map(|(levels, open)| open.repeat(levels) + "1");
    prop_oneof![4 => whole, 1 => twice, 1 => deep].prop_map(String::into_bytes)
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Two readers of an accepted text see the same value: no key stands for another value, or twice.
fn expect_one_meaning(text: &[u8], value: &Value) {
    assert!(depth(value) <= LEVELS_MAX);
    let written = value.to_string();
    assert_eq!(json_text::check(written.as_bytes(), LEVELS_MAX), Ok(()), "what is written is accepted");
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), *value);
    let Keys(read) = serde_json::from_slice(text).unwrap();
    assert_eq!(read, keys(value), "each key of the text is a key of the value: {written}");
}

fn keys(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(keys).sum(),
        Value::Object(fields) => fields.values().map(|value| 1 + keys(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// The number of keys in a text, equal ones included.
struct Keys(usize);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyCounter).map(Self)
    }
}

struct KeyCounter;

macro_rules! without_keys {
    ($($method:ident($type:ty))*) => {
        $(fn $method<E>(self, _: $type) -> Result<usize, E> {
            Ok(0)
        })*
    };
}

impl<'de> Visitor<'de> for KeyCounter {
    type Value = usize;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any JSON")
    }

    without_keys! { visit_bool(bool) visit_i64(i64) visit_u64(u64) visit_f64(f64) visit_str(&str) }

    fn visit_unit<E>(self) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<usize, A::Error> {
        let mut found = 0;
        while let Some(Keys(keys)) = items.next_element()? {
            found += keys;
        }
        Ok(found)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<usize, A::Error> {
        let mut found = 0;
        while let Some(key) = fields.next_key::<String>()? {
            let Keys(inside) = fields.next_value()?;
            // A number arrives as a map with this key.
            found += usize::from(key != "$serde_json::private::Number") + inside;
        }
        Ok(found)
    }
}

/// The fingerprint depends on the value alone, and on all of it.
fn expect_fingerprint_of_the_value(value: &Value) {
    let of = Fingerprint::of_output;
    let other: Value = serde_json::from_str(&written_otherwise(value, &CHOICES)).unwrap();
    assert_eq!(of(value), of(&other));
    let text = canonical(value);
    let again: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(canonical(&again), text, "the canonical text is its own canonical text");
    assert_ne!(of(value), of(&serde_json::json!([value])));
}

#[test]
fn an_accepted_text_has_one_meaning_and_one_fingerprint() {
    Target::new(env!("CARGO_MANIFEST_DIR"), "json").fuzz(text(), |input| {
        on_a_small_stack(|| {
            if let Err(refused) = json_text::check(input, LEVELS_MAX) {
                return expect_short(&refused);
            }
            if let Ok(value) = serde_json::from_slice::<Value>(input) {
                expect_one_meaning(input, &value);
                expect_fingerprint_of_the_value(&value);
            }
        });
    });
}
