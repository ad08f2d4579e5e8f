//! The depth of a JSON text, measured before anything recurses into it.

use serde_json::Value;

/// Whether the text has more than `levels_max` arrays and objects inside each other. It need not be valid JSON.
pub(crate) fn is_too_deep(text: &[u8], levels_max: usize) -> bool {
    let mut levels = 0_usize;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => {
                levels += 1;
                if levels > levels_max {
                    return true;
                }
            }
            b'}' | b']' => levels = levels.saturating_sub(1),
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
    }
    false
}

fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => return,
            _ => {}
        }
    }
}

/// Whether the text may have levels that the count above misses. The deserializer treats keys named
/// `$serde_json::private::…` specially: the string under them becomes a value. Such a key may be written with escapes, so
/// any `\u` is suspect.
pub(crate) fn may_hide_levels(text: &[u8]) -> bool {
    let has = |needle: &[u8]| text.windows(needle.len()).any(|window| window == needle);
    has(b"\\u") || has(b"$serde_json")
}

pub(crate) fn levels(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(levels).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn the_limit_itself_is_allowed_and_one_more_is_not() {
        assert!(!is_too_deep(nested(64).as_bytes(), 64));
        assert!(is_too_deep(nested(65).as_bytes(), 64));
    }

    #[test]
    fn brackets_inside_strings_do_not_count() {
        let text = format!(r#"{{"a":"{}\"{}"}}"#, "[".repeat(100), "{".repeat(100));
        assert!(!is_too_deep(text.as_bytes(), 1));
    }

    #[test]
    fn siblings_do_not_add_up() {
        let text = format!("[{}]", vec!["[]"; 1_000].join(","));
        assert!(!is_too_deep(text.as_bytes(), 2));
    }

    #[test]
    fn levels_that_the_deserializer_unfolds_are_suspected() {
        for name in ["$serde_json::private::RawValue", r"\u0024serde_json::private::RawValue"] {
            let text = format!(r#"{{"{name}":"{}"}}"#, nested(100));
            assert!(!is_too_deep(text.as_bytes(), 64) && may_hide_levels(text.as_bytes()));
            assert_eq!(levels(&serde_json::from_str(&text).unwrap()), 100);
        }
    }
}
