//! JSON values, and the many texts that mean the same value.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Map, Number, Value};

/// Numbers that are at the limits of some type, or beyond all of them.
const NUMBERS: [&str; 20] = [
    "0",
    "-0",
    "1",
    "-1",
    "0.5",
    "1.0",
    "1e2",
    "255",
    "65536",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775809",
    "18446744073709551616",
    "1e-300",
    "1e308",
    "1e309",
    "-1e999999999",
    "123456789012345678901234567890.5",
    "0.1",
];

pub fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        proptest::sample::select(&NUMBERS[..]).prop_map(parsed),
        any::<i64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter_map("JSON has no such number", |number| Number::from_f64(number).map(Value::Number)),
    ]
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("it is a number")
}

/// Any value, some levels deep. Keys are short, so that equal ones meet.
pub fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map(text(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

pub fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]{0,2}", "\\PC{0,8}", "[\\x00-\\x1f\"\\\\/\u{7f}\u{e9}\u{2028}\u{fb33}\u{1f600}]{0,4}"]
}

/// Another text of the same value: keys in another order, white space, and letters written as escapes. The `choices` are
/// bits that decide each time, used again from the start when they end.
pub fn written_otherwise(value: &Value, choices: &[bool]) -> String {
    let mut writer = OtherText { text: String::new(), choices: choices.iter().copied().cycle() };
    writer.value(value);
    writer.text
}

struct OtherText<I> {
    text: String,
    choices: I,
}

impl<I: Iterator<Item = bool>> OtherText<I> {
    fn chooses(&mut self) -> bool {
        self.choices.next().unwrap_or_default()
    }

    fn space(&mut self) {
        if self.chooses() {
            self.text.push_str(" \n\t");
        }
    }

    fn value(&mut self, value: &Value) {
        self.space();
        match value {
            Value::String(text) => self.string(text),
            Value::Array(items) => {
                self.text.push('[');
                for (at, item) in items.iter().enumerate() {
                    self.separated(at);
                    self.value(item);
                }
                self.text.push(']');
            }
            Value::Object(fields) => self.object(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) => self.text.push_str(&value.to_string()),
        }
        self.space();
    }

    fn object(&mut self, fields: &Map<String, Value>) {
        let mut fields: Vec<_> = fields.iter().collect();
        if self.chooses() {
            fields.reverse();
        }
        let turn = usize::from(self.chooses()).min(fields.len());
        fields.rotate_left(turn);
        self.text.push('{');
        for (at, (name, value)) in fields.into_iter().enumerate() {
            self.separated(at);
            self.space();
            self.string(name);
            self.space();
            self.text.push(':');
            self.value(value);
        }
        self.text.push('}');
    }

    fn separated(&mut self, at: usize) {
        if at > 0 {
            self.text.push(',');
        }
    }

    fn string(&mut self, text: &str) {
        self.text.push('"');
        for letter in text.chars() {
            if self.chooses() || matches!(letter, '"' | '\\' | '\0'..='\x1f') {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    let _ = write!(self.text, "\\u{unit:04x}");
                }
            } else {
                self.text.push(letter);
            }
        }
        self.text.push('"');
    }
}
