//! Documents in YAML: what is accepted has one meaning as JSON, within its bounds, with its lines.

use interlock_fuzz::json::value;
use interlock_fuzz::{Target, expect_short, on_a_small_stack};
use interlock_model::document::{DocumentText, Format, TextBounds};
use interlock_model::workflow::WorkflowDocument;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

const BOUNDS: TextBounds = TextBounds { bytes: 64 << 10, levels: 64 };

const LINES: [&str; 24] = [
    "a: 1",
    "b: &x [1, {c: d}]",
    "c: *x",
    "d: [*x, *x, *x, *x]",
    "e: &y [*x, *x, *x, *x, *x, *x, *x, *x]",
    "f: [*y, *y, *y, *y, *y, *y, *y, *y]",
    "g: &z [*z]",
    "<<: *x",
    "  - nested",
    "  key: value",
    "? complex",
    ": value",
    "text: |",
    "  line of a text",
    "'quoted': \"\\u00e4\\n\"",
    "n: [0x1F, 0o17, 1e3, .5, 007, .inf, ~, yes]",
    "t: !!str 12",
    "u: !other x",
    "---",
    "...",
    "# comment",
    "%TAG ! tag:x,2000:",
    "{a: b, c: [d",
    "steps: {s: {type: worker, topci: t}}",
];

fn text() -> impl Strategy<Value = Vec<u8>> {
    let lines = proptest::collection::vec(select(LINES.to_vec()), 1..12).prop_map(|lines| lines.join("\n"));
    // JSON is YAML.
    let json = value().prop_map(|value| serde_json::json!({"a": value}).to_string());
    let deep = (1..200_usize, select(vec!["[", "{a: ", "- ", "? "])).prop_map(|(n, open)| open.repeat(n));
    prop_oneof![4 => lines, 2 => json, 1 => deep].prop_map(String::into_bytes)
}

/// The same JSON is read from what was read, and no line is behind the end.
fn expect_one_meaning(input: &[u8], text: &DocumentText) {
    let Ok(read) = text.read::<Value>() else { return };
    let written = read.to_string();
    let again = DocumentText::new(written.as_bytes(), Format::Json, TextBounds::default());
    assert_eq!(again.expect("what is written is accepted").read::<Value>().unwrap(), read);
    if let Ok(json) = serde_json::from_slice::<Value>(input) {
        assert_eq!(json, read, "JSON is YAML that means the same");
    }
    let lines = input.split(|byte| *byte == b'\n').count();
    for place in read.as_object().into_iter().flat_map(|members| members.keys()) {
        let line = text.located(place, "").line;
        assert!(line.is_none_or(|line| (1..=lines).contains(&line)), "{place}: {line:?} of {lines}");
    }
}

#[test]
fn an_accepted_document_in_yaml_has_one_meaning() {
    Target::new(env!("CARGO_MANIFEST_DIR"), "documents").fuzz(text(), |input| {
        on_a_small_stack(|| match DocumentText::new(input, Format::Yaml, BOUNDS) {
            Err(invalid) => expect_short(&invalid),
            Ok(text) => {
                expect_one_meaning(input, &text);
                if let Err(invalid) = text.read::<WorkflowDocument>() {
                    expect_short(&invalid);
                }
            }
        });
    });
}
