//! Errors of the parser and their offsets.

use super::*;

fn error(source: &str) -> (String, usize) {
    let error = parse(source, &["input", "steps"]).expect_err(source);
    (error.message, error.offset)
}

#[test]
fn an_unknown_name_is_rejected_with_the_available_ones() {
    let message = parse("1 + foo.bar", &["input", "steps"]).unwrap_err().to_string();
    assert_eq!(message, "unknown name `foo` (available names: input, steps) at byte 4");
    assert_eq!(error("[1].map(x, x) + x").1, 16, "a variable ends with its macro");
}

#[test]
fn a_syntax_error_is_reported_with_its_offset() {
    for (source, message, offset) in [
        ("", "expected a value, found the end", 0),
        ("1 +", "expected a value, found the end", 3),
        ("1 2", "expected an operator or the end, found a number", 2),
        ("(1", "expected `)`, found the end", 2),
        ("[1 2]", "expected `]`, found a number", 3),
        ("{'a' 1}", "expected `:`, found a number", 5),
        ("input.", "expected a member's name, found the end", 6),
        ("input.'a'", "expected a member's name, found a string", 6),
        ("true ? 1", "expected `:`, found the end", 8),
        ("in", "expected a value, found `in`", 0),
        ("9223372036854775808", "the integer is too large", 0),
        ("foo(1)", "unknown function `foo`", 0),
        ("input.foo(1)", "unknown method `foo`", 6),
        ("size()", "expected a value, found `)`", 5),
        ("size(1, 2)", "expected `)`, found `,`", 6),
        ("'a'.trim(1)", "expected `)`, found a number", 9),
        ("'a'.contains()", "expected a value, found `)`", 13),
        ("[].map(1, 2)", "expected a variable's name, found a number", 7),
        ("[].map(true, 2)", "expected a variable's name, found `true`", 7),
        ("[].map(x)", "expected `,`, found `)`", 8),
        ("has(1)", "has() requires a path such as `input.a.b`", 4),
        ("has(input.a.size())", "has() requires a path such as `input.a.b`", 4),
    ] {
        assert_eq!(error(source), (message.to_owned(), offset), "{source}");
    }
}

#[test]
fn long_chains_are_not_deep() {
    for (first, more) in [
        ("1", " && 1"),
        ("1", " || 1"),
        ("1", " + 1"),
        ("1", " * 1"),
        ("1", " == 1"),
        ("input", ".a"),
        ("input", "[0]"),
        ("input", ".size()"),
        ("1", " ? 1 : 1"),
    ] {
        let source = format!("{first}{}", more.repeat(400));
        assert!(parse(&source, &["input"]).is_ok(), "{source}");
    }
    assert!(parse(&format!("{}1", "!-".repeat(2000)), &[]).is_ok());
}

#[test]
fn nesting_is_bounded_as_written_and_as_built() {
    let brackets = |count: usize| format!("{}1{}", "(".repeat(count), ")".repeat(count));
    assert!(parse(&brackets(DEPTH_MAX - 1), &[]).is_ok());
    let deep = "the expression is nested deeper than 64 levels";
    assert_eq!(error(&brackets(DEPTH_MAX)), (deep.to_owned(), DEPTH_MAX));
    let operations = format!("{}1{}", "(".repeat(30), ")*1+1==1&&1".repeat(30));
    assert_eq!(error(&operations).0, deep);
}
