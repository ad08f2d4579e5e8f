//! How deep a JSON text goes, told before anything recurses into it.

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

/// The JSON reader gives a meaning of its own to members with this in their name: a text in a string becomes a value,
/// which the count above does not see. Nobody else has a use for them.
const READER_OWN: &str = "$serde_json::private::";

/// Whether some member of the text might be the reader's own: written plainly, or hidden behind an escape.
pub(crate) fn may_hide_levels(text: &[u8]) -> bool {
    let has = |needle: &[u8]| text.windows(needle.len()).any(|window| window == needle);
    has(READER_OWN.as_bytes()) || (has(b"\\u") && has(b"private"))  || has(b"\\u00")
}

pub(crate) fn levels(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(levels).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}
