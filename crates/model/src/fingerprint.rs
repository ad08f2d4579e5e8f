//! Hashes of what clients may send again. They ignore key order and white space.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::{EventKey, EventName, WorkflowId};

/// A hash over canonical JSON (RFC 8785, except that integers keep every digit instead of becoming doubles).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    pub fn of_start(workflow: &WorkflowId, input: &Value) -> Self {
        Self::of(&format!("start\n{workflow}\n{}", canonical(input)))
    }

    /// A rerun is identified by its source run and step rather than by a payload.
    pub fn of_rerun(source: crate::RunId, from_step: Option<&crate::StepId>) -> Self {
        let step = from_step.map_or("", |step| step.as_str());
        Self::of(&format!("rerun\n{source}\n{step}"))
    }

    pub fn of_event(name: &EventName, key: Option<&EventKey>, data: &Value) -> Self {
        let key = key.map_or("", EventKey::as_str);
        Self::of(&format!("event\n{name}\n{key}\n{}", canonical(data)))
    }

    pub fn of_output(output: &Value) -> Self {
        Self::of(&format!("output\n{}", canonical(output)))
    }

    pub fn of_failure(error: &str, retryable: bool) -> Self {
        Self::of(&format!("failure\n{retryable}\n{error}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn of(text: &str) -> Self {
        Self(blake3::hash(text.as_bytes()).to_hex().to_string())
    }
}

pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_value(value, &mut out);
    out
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => write_number(number, out),
        // serde_json escapes text as RFC 8785 requires.
        Value::Null | Value::Bool(_) | Value::String(_) => out.push_str(&value.to_string()),
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_value(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            // RFC 8785 sorts by UTF-16 code units, which differs from UTF-8 order above the basic plane.
            sorted.sort_by(|(left, _), (right, _)| left.encode_utf16().cmp(right.encode_utf16()));
            out.push('{');
            for (position, (name, member)) in sorted.into_iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                let _ = write!(out, "{}:", Value::from(name.as_str()));
                write_value(member, out);
            }
            out.push('}');
        }
    }
}

fn write_number(number: &Number, out: &mut String) {
    let text = number.as_str();
    let is_integer = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    match number.as_f64() {
        // Adding zero turns -0.0 into 0.0. `Display` writes the shortest text that parses as the same double.
        Some(double) if !is_integer && double.is_finite() => {
            let _ = write!(out, "{}", double + 0.0);
        }
        _ if text == "-0" => out.push('0'),
        _ => out.push_str(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(json: &str) -> Fingerprint {
        Fingerprint::of_start(&"deploy".parse().unwrap(), &serde_json::from_str(json).unwrap())
    }

    #[test]
    fn key_order_and_white_space_do_not_matter() {
        assert_eq!(
            fingerprint(r#"{"a":1,"b":[true,null]}"#),
            fingerprint("{ \"b\" : [ true , null ], \"a\" : 1 }")
        );
    }

    #[test]
    fn integers_are_compared_to_the_last_digit() {
        assert_ne!(fingerprint("9007199254740993"), fingerprint("9007199254740992"));
        let huge = "123456789012345678901234567890123456789012345678901";
        assert_ne!(fingerprint(huge), fingerprint(&huge.replace("901", "902")));
        assert_eq!(canonical(&serde_json::from_str(huge).unwrap()), huge);
    }

    #[test]
    fn two_spellings_of_one_double_are_equal() {
        assert_eq!(fingerprint("1.50"), fingerprint("1.5"));
        assert_eq!(fingerprint("1.5e0"), fingerprint("1.5"));
        assert_ne!(fingerprint("1.5"), fingerprint("1.6"));
    }

    #[test]
    fn text_is_escaped_as_rfc_8785_requires() {
        let value: Value =
            serde_json::from_str(r#""\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/""#).unwrap();
        assert_eq!(canonical(&value), "\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"");
        let controls = canonical(&Value::from("\u{0}\u{8}\t\u{b}\u{c}\r\u{1f}\u{7f}\u{2028}"));
        assert_eq!(controls, "\"\\u0000\\b\\t\\u000b\\f\\r\\u001f\u{7f}\u{2028}\"");
    }

    #[test]
    fn names_sort_by_utf_16() {
        let value: Value = serde_json::from_str(r#"{"\ufb33":1,"\ud83d\ude00":2,"1":3}"#).unwrap();
        assert_eq!(canonical(&value), "{\"1\":3,\"\u{1f600}\":2,\"\u{fb33}\":1}");
    }

    #[test]
    fn members_and_items_are_separated() {
        let value: Value = serde_json::from_str(r#"{ "b": [1, 2, [3]], "a": {} }"#).unwrap();
        assert_eq!(canonical(&value), r#"{"a":{},"b":[1,2,[3]]}"#);
        assert_ne!(fingerprint("[1,2]"), fingerprint("[12]"));
    }
}
