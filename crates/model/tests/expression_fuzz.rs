//! No expression can overflow the stack or run without end: users write expressions, and either would stop every tenant's
//! runs.
use std::time::{Duration, Instant};

use interlock_model::expression::{
    CompileError, EvaluateError, Expression, RESULT_BYTES_MAX, SOURCE_BYTES_MAX, Template,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const ROOTS: [&str; 5] = ["input", "ctx", "steps", "a", "l"];

/// Callers have 2 MiB and use up to half of it themselves.
const STACK_BYTES: usize = 1 << 20;

/// Generous: a debug build on a very busy machine. An evaluation without a budget takes many minutes on these inputs.
const TIME_MAX: Duration = Duration::from_mins(1);

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

/// Runs `check` on a stack that is small enough to overflow.
fn on_a_small_stack<T: Send + 'static>(check: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(check)
        .expect("a thread can be started")
        .join()
        .expect("the check passes")
}

/// Compiles, evaluates and drops `source`, alone and at the bottom of a template.
fn exercise(source: &str, scope: &Map<String, Value>) -> Result<Result<Value, EvaluateError>, CompileError> {
    let started = Instant::now();
    let deep = (0..64).fold(json!(format!("${{{source}}}")), |inner, _| json!({ "a": inner }));
    if let Ok(template) = Template::compile(&deep, &ROOTS) {
        template.render(scope).ok();
    }
    let result = Expression::compile(source, &ROOTS).map(|expression| {
        expression.is_true(scope).ok();
        expression.evaluate(scope)
    });
    assert!(started.elapsed() < TIME_MAX, "{source} took {:?}", started.elapsed());
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_compiles_or_is_rejected(source in "\\PC{0,200}") {
        on_a_small_stack(move || exercise(&source, &scope()).ok());
    }

    #[test]
    fn any_tokens_compile_or_are_rejected(source in token_soup()) {
        on_a_small_stack(move || {
            Template::compile(&json!(source), &ROOTS).ok().map(|template| template.render(&scope()).ok());
            exercise(&source, &scope()).ok()
        });
    }

    #[test]
    fn any_expression_of_the_grammar_gives_a_value_or_an_error(source in grammar()) {
        on_a_small_stack(move || exercise(&source, &scope()).ok());
    }
}
