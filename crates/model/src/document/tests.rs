//! Reading documents, with their errors.

use serde_json::{Value, json};

use super::{DocumentText, Format, InvalidDocument, TextBounds};
use crate::workflow::WorkflowDocument;

fn yaml(text: &str) -> Result<Value, InvalidDocument> {
    DocumentText::new(text.as_bytes(), Format::Yaml, TextBounds::default())?.read()
}

fn error(text: &str) -> String {
    yaml(text).expect_err(text).to_string()
}

#[test]
fn yaml_means_what_its_core_schema_says() {
    let cases = [
        ("a: [1, -2, +3, 0x1F, 0o17]", json!([1, -2, 3, 31, 15])),
        ("a: [true, False, TRUE, yes, on]", json!([true, false, true, "yes", "on"])),
        ("a: [null, ~, Null, 'null', '']", json!([null, null, null, "null", ""])),
        ("a: [1.5, '1', \"2\", 1.2.3, 1-2]", json!([1.5, "1", "2", "1.2.3", "1-2"])),
        ("a:", json!(null)),
        ("a: |\n  one\n  two\n", json!("one\ntwo\n")),
        ("a: >\n  one\n  two\n", json!("one two\n")),
        ("a: {b: {c: [d, {e: f}]}}", json!({"b": {"c": ["d", {"e": "f"}]}})),
        ("a:\n- x\n-\n  y: z\n", json!(["x", {"y": "z"}])),
        ("a: {1: x, true: y, 2.50: z}", json!({"1": "x", "true": "y", "2.50": "z"})),
        ("a: [2026-01-31, 12:30:45, '${x}']", json!(["2026-01-31", "12:30:45", "${x}"])),
        ("b: &x {n: [1]}\na: [*x, *x]", json!([{"n": [1]}, {"n": [1]}])),
        ("a: [!!str 12, !!int '7', !!float 1.5]", json!(["12", 7, 1.5])),
        ("---\na: 1\n...\n", json!(1)),
        ("# comment\na: \"\\u00e4 \\\" \\n\" # more\n", json!("ä \" \n")),
    ];
    for (text, expected) in cases {
        let read = yaml(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(read["a"], expected, "{text}");
    }
    let integer = "123456789012345678901234567890";
    assert_eq!(yaml(&format!("a: {integer}")).unwrap()["a"].to_string(), integer, "digit for digit");
    assert_eq!(yaml("a: [.5, 5., 1e3, -.5e-3]").unwrap().to_string(), r#"{"a":[0.5,5.0,1e+3,-0.5e-3]}"#);
}

#[test]
fn yaml_that_readers_understand_differently_is_rejected_with_its_line() {
    let cases = [
        ("a: 1\nb: 2\na: 3\n", "the key \"a\" is given twice in one object (line 3)"),
        ("a:\n  b: 1\n  'b': 1\n", "the key \"b\" is given twice in one object (line 3)"),
        ("a: 1\nzip: 01234\n", "01234 can be read as two numbers"),
        ("a: .nan", "infinity and NaN are not numbers"),
        ("a: 0xFFFFFFFFFFFFFFFFF", "this number is too large"),
        ("a: 1\n---\nb: 2\n", "more than one document: use a file for each (line 2)"),
        ("b: &x {y: 1}\na:\n  <<: *x\n", "merge keys (<<) are not supported"),
        ("a: &x [*x]", "an alias stands for a value that contains it (line 1)"),
        ("a: !secret x", "the tag !secret is not supported (line 1)"),
        ("a: !!binary aGk=", "is not supported"),
        ("a: !!int x", "this value is no int, as its tag says"),
        ("a: !!map [1]", "is not supported"),
        ("? [1]\n: 2\n", "a name must be a text"),
        ("&x a: 1\n*x : 2\n", "a name must be a text"),
        ("~: 1", "a name must be a text: this one is empty"),
        ("", "the document is empty"),
        ("# nothing\n", "the document is empty"),
        ("- a\n- b\n", "the document must be an object"),
        ("text", "the document must be an object"),
        ("a: *nope", "not valid YAML"),
        ("a: [1\nb: 2\n", "not valid YAML"),
        ("a: 'x\n", "not valid YAML"),
        ("$serde_json::private::Number: 1", "is reserved (line 1)"),
    ];
    for (text, expected) in cases {
        let found = error(text);
        assert!(found.contains(expected), "{text}\n  found: {found}\n  expected: {expected}");
    }
    let latin = DocumentText::new(b"a: \xe4", Format::Yaml, TextBounds::default());
    assert_eq!(latin.unwrap_err().to_string(), "the text is not UTF-8");
}

/// Nine levels of ten aliases each would be a thousand million values.
fn bomb() -> String {
    let levels = (1..10).map(|level| {
        let aliases = vec![format!("*l{}", level - 1); 10].join(", ");
        format!("l{level}: &l{level} [{aliases}]\n")
    });
    format!("l0: &l0 [lol]\n{}", levels.collect::<String>())
}

#[test]
fn aliases_count_as_what_they_stand_for() {
    let error = error(&bomb());
    assert!(
        error.starts_with("with its aliases the document is larger than the maximum of 2097152 bytes"),
        "{error}"
    );
    let bounds = TextBounds { bytes: 40, levels: 3 };
    let small = |text: &str| DocumentText::new(text.as_bytes(), Format::Yaml, bounds).map(drop);
    assert_eq!(small("a: &x [1, 2, 3]\nb: *x\n"), Ok(()));
    assert!(small("a: &x [1, 2, 3]\nb: [*x, *x, *x, *x]\n").is_err());
    assert_eq!(small("a: &x [[1]]\n"), Ok(()));
    let deep = small("a: &x [[1]]\nb: [*x]\n").unwrap_err().to_string();
    assert_eq!(
        deep, "nested too deeply: at most 3 levels are read (line 2)",
        "aliases count for the depth, too"
    );
    assert!(small("a: [[[1]]]").unwrap_err().to_string().starts_with("nested too deeply"));
}

#[test]
fn bounds_hold_for_json_too() {
    let deep = "[".repeat(70);
    let deep = DocumentText::new(format!("{{\"a\": {deep}").as_bytes(), Format::Json, TextBounds::default());
    assert!(deep.unwrap_err().to_string().starts_with("nested too deeply"));
    let broken = DocumentText::new(b"{\n\"a\": 1,\n}", Format::Json, TextBounds::default());
    assert_eq!(broken.unwrap_err().to_string(), "not valid JSON: key must be a string (line 3)");
}

const BUILD: &str = "\
name: Build
steps:
  compile:
    type: worker
    topic: build
  v1.2:
    type: worker
    depends_on:
      - compile
    retry: {max_retries: 2,
            initial_backof_sec: 1}
";

#[test]
fn an_error_names_the_place_the_line_and_what_was_probably_meant() {
    let cases = [
        (
            BUILD.to_owned(),
            "steps.v1.2.retry: unknown field `initial_backof_sec`; did you mean `initial_backoff_sec`? (line 11)",
        ),
        (
            BUILD.replace("topic", "topci"),
            "steps.compile: unknown field `topci`; did you mean `topic`? (line 5)",
        ),
        (
            BUILD.replace("type: worker\n    topic", "type: wrker\n    topic"),
            "steps.compile.type: unknown variant `wrker`; did you mean `worker`? (line 4)",
        ),
        (
            BUILD.replace("    type: worker\n    topic", "    topic"),
            "steps.compile: missing field `type` (line 3)",
        ),
        (BUILD.replace("name: Build\n", "").replace("backof_", "backoff_"), "missing field `name`"),
        (BUILD.replace("- compile", "- 7"), "steps.v1.2.depends_on[0]: invalid type: integer `7`, expected"),
    ];
    for (text, expected) in cases {
        let text = DocumentText::new(text.as_bytes(), Format::Yaml, TextBounds::default()).unwrap();
        let found = text.read::<WorkflowDocument>().unwrap_err().to_string();
        assert!(found.starts_with(expected), "found: {found}\n  expected: {expected}");
    }
}

#[test]
fn a_place_is_found_in_json_and_in_yaml() {
    let json = r#"{
      "a": {
        "b.c":
          [1,
           {"d": 2}]
      }
    }"#;
    let text = DocumentText::new(json.as_bytes(), Format::Json, TextBounds::default()).unwrap();
    let line = |place: &str| text.located(place, "").line;
    assert_eq!(line("a"), Some(2));
    assert_eq!(line("a.b.c"), Some(3));
    assert_eq!(line("a.b.c[1].d"), Some(5));
    assert_eq!(line("a.b.c[1].nope"), Some(5), "the nearest that exists");
    assert_eq!(line("a.b.c[7]"), Some(3));
    assert_eq!(line("nope"), None);
    assert_eq!(line(""), None);
}

#[test]
fn the_format_follows_from_the_name_or_the_beginning() {
    for (file, text, expected) in [
        ("w.yaml", "{}", Format::Yaml),
        ("w.YML", "{}", Format::Yaml),
        ("w.json", "a: 1", Format::Json),
        ("-", " \n{\"a\": 1}", Format::Json),
        ("-", "a: 1", Format::Yaml),
        ("w", "a: 1", Format::Yaml),
    ] {
        assert_eq!(Format::guess(file, text.as_bytes()), expected, "{file}");
    }
}
