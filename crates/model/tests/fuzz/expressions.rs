//! No expression can overflow the stack or run without end: users write expressions, and either would stop every tenant's
//! runs.
use interlock_fuzz::{Target, expect_short, on_a_small_stack, texts};
use interlock_model::expression::{
    CompileError, EvaluateError, Expression, RESULT_BYTES_MAX, SOURCE_BYTES_MAX, Template,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const ROOTS: [&str; 5] = ["input", "ctx", "steps", "a", "l"];

fn scope() -> Map<String, Value> {
    let nested = (0..90).fold(json!(1), |inner, _| json!({ "a": inner }));
    let scope = json!({
        "input": {"n": 1, "f": 0.5, "s": "text", "none": null, "x": {"y": [1, {"z": "é"}]}},
        "a": nested,
        "l": (0..1000).collect::<Vec<_>>(),
        "steps": {"build": {"output": ["x".repeat(100_000)]}},
    });
    scope.as_object().cloned().expect("it was written as a map")
}

/// Compiles, evaluates and drops `source`, alone and at the bottom of a template.
fn exercise(source: &str, scope: &Map<String, Value>) -> Result<Result<Value, EvaluateError>, CompileError> {
    let deep = (0..64).fold(json!(format!("${{{source}}}")), |inner, _| json!({ "a": inner }));
    if let Ok(template) = Template::compile(&deep, &ROOTS) {
        template.render(scope).ok();
    }
    let result = Expression::compile(source, &ROOTS).map(|expression| {
        expression.is_true(scope).ok();
        expression.evaluate(scope)
    });
    if let Ok(Ok(value)) = &result {
        assert!(value.to_string().len() <= 8 * RESULT_BYTES_MAX, "{source}");
    }
    result
}

/// Repeats `before` and `after` around `core` up to `bytes`.
fn surround(before: &str, core: &str, after: &str, bytes: usize) -> String {
    let count = (bytes - core.len()) / (before.len() + after.len());
    format!("{}{core}{}", before.repeat(count), after.repeat(count))
}

/// Nesting and chaining by every production of the grammar.
const HOSTILE: [(&str, &str, &str); 26] = [
    ("1+", "1", ""),
    ("1*", "1", ""),
    ("1==", "1", ""),
    ("1&&", "1", ""),
    ("0||", "1", ""),
    ("", "1", "-1"),
    ("(", "1", ")"),
    ("(", "", ""),
    ("[", "1", "]"),
    ("[", "", ""),
    ("{'a':", "1", "}"),
    ("{", "", ""),
    ("-", "1", ""),
    ("!", "1", ""),
    ("", "a", ".a"),
    ("", "a", "[0]"),
    ("", "a", "['a']"),
    ("a[", "0", "]"),
    ("1?", "1", ":1"),
    ("1?1:", "1", ""),
    ("a?", "", ""),
    ("l.map(x,", "x", ")"),
    ("[1].map(x,", "x", ")"),
    ("string(", "a", ")"),
    ("''.split(", "''", ")"),
    ("-[(", "1", ")].map(x,x)[0]*1+1==1&&1||0?1:1"),
];

#[test]
fn hostile_nesting_and_chains_never_overflow_the_stack() {
    on_a_small_stack(|| {
        let scope = scope();
        for (before, core, after) in HOSTILE {
            exercise(&surround(before, core, after, SOURCE_BYTES_MAX), &scope).ok();
            // The deepest nesting that compiles is also the deepest to evaluate and drop.
            let nested = |depth| format!("{}{core}{}", before.repeat(depth), after.repeat(depth));
            let compiles = |depth: &usize| Expression::compile(&nested(*depth), &ROOTS).is_ok();
            if let Some(deepest) = (1..=70).rev().find(compiles) {
                exercise(&nested(deepest), &scope).unwrap().ok();
            }
        }
    });
}

#[test]
fn a_source_over_the_limit_is_rejected_for_its_length() {
    on_a_small_stack(|| {
        let scope = scope();
        for (before, core, after) in HOSTILE {
            let error = exercise(&surround(before, core, after, 64 << 10), &scope).unwrap_err();
            assert!(error.to_string().contains("the maximum is 4096"), "{error}");
        }
    });
}

#[test]
fn long_chains_evaluate() {
    let scope = scope();
    let evaluate = |source: &str| exercise(source, &scope).unwrap().unwrap();
    assert_eq!(evaluate(&["input.n == 1"; 200].join(" && ")), json!(true));
    assert_eq!(evaluate(&vec!["1"; 2000].join("+")), json!(2000));
    assert_eq!(evaluate(&format!("{}7", "input.n == 2 ? 1 : ".repeat(200))), json!(7));
    assert_eq!(evaluate(&format!("a{}", ".a".repeat(90))), json!(1));
}

#[test]
fn nested_macros_over_a_thousand_elements_hit_the_budget() {
    on_a_small_stack(|| {
        let scope = scope();
        for name in ["map", "filter", "all", "exists"] {
            let body = if name == "exists" { "false" } else { "true" };
            let source =
                (0..6).fold(body.to_owned(), |inner, depth| format!("l.{name}(x{depth}, {inner} || {body})"));
            let result = exercise(&source, &scope).unwrap();
            assert!(matches!(result, Err(EvaluateError::Budget { .. })), "{source}: {result:?}");
        }
    });
}

#[test]
fn growing_values_hit_the_size_limit() {
    on_a_small_stack(|| {
        let scope = scope();
        for source in [
            format!("['ab']{}", ".map(x, x + x)".repeat(60)),
            format!("[[1, 2]]{}", ".map(x, x + x)".repeat(60)),
            "l.map(x, steps.build.output[0] + 'a')".to_owned(),
            "l.map(x, steps.build.output[0].upperAscii())".to_owned(),
            "l.map(x, string(l))".to_owned(),
            "l.map(x, steps.build.output[0].split(''))".to_owned(),
            "l.map(x, steps.build.output).map(x, x[0]).join('')".to_owned(),
            "l.map(x, steps.build.output[0])".to_owned(),
            format!("['a']{}", ".map(x, [x, x])".repeat(30)),
            format!("[1]{}", ".map(x, {'a': x, 'b': x})".repeat(30)),
        ] {
            let result = exercise(&source, &scope).unwrap();
            assert!(matches!(result, Err(EvaluateError::TooLarge { .. })), "{source}: {:?}", result.err());
        }
    });
}

/// Expressions that mostly compile, with every production nested in every other.
fn grammar() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i64>().prop_map(|int| int.to_string()),
        any::<f64>().prop_map(|float| format!("{float:e}")),
        "'[a-zé{}$]{0,4}'",
        prop_oneof![Just("input"), Just("ctx"), Just("steps"), Just("a"), Just("l")].prop_map(str::to_owned),
        prop_oneof![Just("input.n"), Just("input.x.y"), Just("input.s"), Just("steps['build'].output")]
            .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(8, 64, 4, |inner| {
        let operator = prop_oneof![
            Just("+"),
            Just("-"),
            Just("*"),
            Just("/"),
            Just("%"),
            Just("=="),
            Just("!="),
            Just("<"),
            Just("<="),
            Just(">"),
            Just(">="),
            Just(" in "),
            Just("&&"),
            Just("||"),
        ];
        let prefix = prop_oneof![
            Just("("),
            Just("!("),
            Just("-("),
            Just("size("),
            Just("string("),
            Just("int("),
            Just("double("),
            Just("first("),
            Just("keys("),
            Just("has("),
        ];
        let method =
            prop_oneof![Just("contains"), Just("startsWith"), Just("endsWith"), Just("split"), Just("join"),];
        let suffix = prop_oneof![
            Just(".a"),
            Just("[0]"),
            Just("['a']"),
            Just(".size()"),
            Just(".trim()"),
            Just(".lowerAscii()"),
        ];
        prop_oneof![
            (inner.clone(), operator, inner.clone()).prop_map(|(one, by, other)| format!("{one}{by}{other}")),
            (prefix, inner.clone()).prop_map(|(prefix, inner)| format!("{prefix}{inner})")),
            (inner.clone(), suffix).prop_map(|(inner, suffix)| format!("({inner}){suffix}")),
            (inner.clone(), inner.clone()).prop_map(|(list, index)| format!("{list}[{index}]")),
            (inner.clone(), method, inner.clone())
                .prop_map(|(one, by, other)| format!("({one}).{by}({other})")),
            (inner.clone(), list_macro(), inner.clone())
                .prop_map(|(list, by, body)| format!("[{list}].{by}(l, {body})")),
            (inner.clone(), list_macro(), inner.clone())
                .prop_map(|(list, by, body)| format!("({list}).{by}(a, {body})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("{a} ? {b} : {c}")),
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            (inner.clone(), inner).prop_map(|(one, other)| format!("{{'a': {one}, 'b': {other}}}")),
        ]
    })
}

fn list_macro() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("map"), Just("filter"), Just("all"), Just("exists")]
}

/// Random tokens get further into the parser than random characters.
fn token_soup() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        Just("("),
        Just(")"),
        Just("["),
        Just("]"),
        Just("{"),
        Just("}"),
        Just("'"),
        Just("\""),
        Just("\\"),
        Just("\\u"),
        Just("."),
        Just(","),
        Just(":"),
        Just("?"),
        Just("-"),
        Just("!"),
        Just("+"),
        Just("&&"),
        Just("in"),
        Just("1"),
        Just("1e"),
        Just("9223372036854775808"),
        Just("a"),
        Just("l"),
        Just(".map(x,"),
        Just("x"),
        Just("has("),
        Just("$"),
        Just("${"),
        Just("$${"),
        Just("é"),
        Just(" "),
        Just("null"),
    ];
    proptest::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

/// Values are equal if only the white space between tokens differs.
fn expect_equal_meaning(source: &str, scope: &Map<String, Value>) {
    let spaced = format!("  {source}\n");
    let values = [source, &spaced].map(|source| exercise(source, scope).map(Result::ok).ok());
    assert_eq!(values[0], values[1], "{source}");
}

#[test]
fn any_text_compiles_to_a_bounded_value_or_is_rejected() {
    let generated = prop_oneof![
        texts("\\PC{0,200}"),
        token_soup().prop_map(String::into_bytes),
        grammar().prop_map(String::into_bytes),
    ];
    let scope = scope();
    Target::new(env!("CARGO_MANIFEST_DIR"), "expressions").fuzz(generated, |input| {
        let source = String::from_utf8_lossy(input);
        on_a_small_stack(|| {
            if let Ok(template) = Template::compile(&json!(source), &ROOTS) {
                template.render(&scope).inspect_err(expect_short).ok();
            }
            match exercise(&source, &scope) {
                Err(error) => expect_short(&error),
                Ok(Err(error)) => expect_short(&error),
                Ok(Ok(_)) if source.len() < SOURCE_BYTES_MAX - 3 => expect_equal_meaning(&source, &scope),
                Ok(Ok(_)) => {}
            }
        });
    });
}
