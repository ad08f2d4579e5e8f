//! The semantics of expressions, case by case.
use std::borrow::Cow;
use std::cell::RefCell;

use serde_json::{Map, Value as Json, json};

use super::{EvaluateError, Expression, Member, Scope};

const ROOTS: [&str; 5] = ["input", "ctx", "steps", "item", "index"];

fn scope() -> Map<String, Json> {
    let text = r#"{
        "input": {"a": {"b": 7}, "name": "Ada", "list": [3, 1, 2], "none": null, "empty": "", "zero": 0,
                  "big": 123456789012345678901234567890, "huge": 1e400, "half": 0.5, "flag": true},
        "steps": {"build": {"output": [10, {"x": "y"}]}, "my-step": {"output": "odd"}},
        "item": "plain"
    }"#;
    serde_json::from_str(text).unwrap()
}

fn evaluate(source: &str) -> Result<Json, EvaluateError> {
    Expression::compile(source, &ROOTS).unwrap_or_else(|error| panic!("{source}: {error}")).evaluate(&scope())
}

fn check(cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        let result = evaluate(source).map(|value| value.to_string()).map_err(|error| error.to_string());
        assert_eq!(result.as_deref(), Ok(*expected), "{source}");
    }
}

fn check_errors(sources: &[&str], is_expected: fn(&EvaluateError) -> bool) {
    for source in sources {
        let error = evaluate(source).expect_err(source);
        assert!(is_expected(&error), "{source}: {error}");
    }
}

#[test]
fn literals_evaluate_to_themselves() {
    check(&[
        ("null", "null"),
        ("true", "true"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("1.0", "1.0"),
        ("2e3", "2000.0"),
        (r"'it\'s \u00e9'", "\"it's é\""),
        (r#""a\n""#, r#""a\n""#),
        ("[1, 'a', [null],]", r#"[1,"a",[null]]"#),
        ("{'b': 1, 'a' + 'c': {},}", r#"{"ac":{},"b":1}"#),
    ]);
    check_errors(&["{'a': 1, 'a': 2}"], |error| *error == EvaluateError::DuplicateKey);
    check_errors(&["{1: 2}"], |error| matches!(error, EvaluateError::Type { .. }));
}

#[test]
fn operators_bind_as_in_cel() {
    check(&[
        ("1 + 2 * 3 - 4", "3"),
        ("(1 + 2) * 3", "9"),
        ("10 - 3 - 2", "5"),
        ("100 / 10 / 5", "2"),
        ("7 / 2 * 2", "6"),
        ("-2 * -3", "6"),
        ("--2", "2"),
        ("!true || true", "true"),
        ("false && false || true", "true"),
        ("true || false && false", "true"),
        ("1 + 1 == 2 && 3 > 2", "true"),
        ("!(1 == 2)", "true"),
        ("1 < 2 == true", "true"),
        ("false ? 1 : true ? 2 : 3", "2"),
        ("true ? false ? 1 : 2 : 3", "2"),
        ("1 in [1] && !(2 in [1])", "true"),
        ("-input.a.b + 1", "-6"),
    ]);
}

#[test]
fn integers_stay_integers_unless_a_float_is_involved() {
    check(&[
        ("7 / 2", "3"),
        ("7 / 2.0", "3.5"),
        ("-7 % 3", "-1"),
        ("1 + 0.5", "1.5"),
        ("input.half * 4", "2.0"),
        ("input.a.b + 1", "8"),
        ("input.big * 0", "0.0"),
        ("'a' + 'b' + input.name", r#""abAda""#),
        ("[1] + input.list + []", "[1,3,1,2]"),
    ]);
    check_errors(
        &["9223372036854775807 + 1", "-(-9223372036854775808)", "-9223372036854775808 / -1", "int(1e19)"],
        |error| *error == EvaluateError::Overflow,
    );
    check_errors(&["1 / 0", "1 / 0.0", "1 % 0", "1 / input.zero"], |error| {
        *error == EvaluateError::DivisionByZero
    });
    check_errors(&["1e308 * 10", "input.huge + 1", "-input.huge", "input.huge < 1"], |error| {
        *error == EvaluateError::NotFinite
    });
    check_errors(
        &["1 + 'a'", "'a' - 'b'", "null + 1", "1.5 % 1", "-'a'", "true * 2", "[1] + 1", "{} + {}"],
        |error| matches!(error, EvaluateError::Type { .. }),
    );
}

#[test]
fn equality_is_by_value_and_order_needs_equal_types() {
    check(&[
        ("1 == 1.0", "true"),
        ("9007199254740993 == 9007199254740992.0", "false"),
        ("input.a == {'b': 7.0}", "true"),
        ("'1' == 1", "false"),
        ("input.none == null", "true"),
        ("input.huge == input.huge", "true"),
        ("[1, [2]] != [1, [3]]", "true"),
        ("1 < 1.5 && 2.5 >= 2", "true"),
        ("'a' < 'b' && 'b' <= 'b'", "true"),
        ("'Ada' in [input.name]", "true"),
        ("'a' in input && !('q' in input)", "true"),
    ]);
    check_errors(
        &[
            "1 < 'a'",
            "null < 1",
            "[1] < [2]",
            "true > false",
            "'a' in 'abc'",
            "1 in {}",
            "1 in null",
            "1 < 2 < 3",
        ],
        |error| matches!(error, EvaluateError::Type { .. }),
    );
}

#[test]
fn only_null_false_zero_and_the_empty_string_are_falsy() {
    for falsy in
        ["null", "false", "0", "0.0", "-0.0", "''", "input.none", "input.zero", "input.empty", "ctx.x"]
    {
        check(&[(&format!("!({falsy})"), "true"), (&format!("{falsy} || false"), "false")]);
    }
    for truthy in ["true", "1", "-0.5", "'0'", "[]", "{}", "input.huge", "input.half"] {
        check(&[(&format!("!!({truthy})"), "true"), (&format!("{truthy} ? 1 : 2"), "1")]);
    }
}

#[test]
fn evaluation_is_lazy() {
    check(&[
        ("true || 1 / 0", "true"),
        ("false && 1 / 0", "false"),
        ("true ? 1 : 1 / 0", "1"),
        ("[1, 0].exists(x, 1 / x == 1)", "true"),
        ("[2, 0].all(x, 1 / x == 1)", "false"),
    ]);
}

#[test]
fn a_missing_member_is_null_but_a_scalar_has_no_members() {
    check(&[
        ("input.a.b", "7"),
        ("input['a']['b']", "7"),
        ("input.q.r.s[0].t", "null"),
        ("input.list[1]", "1"),
        ("input.list[3]", "null"),
        ("input.list[-1]", "null"),
        ("input.list[input.list[2]]", "2"),
        ("steps['my-step'].output", r#""odd""#),
        ("steps.build.output[1].x", r#""y""#),
        ("ctx", "null"),
        ("ctx.a", "null"),
        ("index", "null"),
        ("{'in': {'true': 1}}.in.true", "1"),
    ]);
    check_errors(
        &[
            "'abc'.foo",
            "item.foo",
            "input.a.b.c",
            "input.list.foo",
            "'abc'[0]",
            "input.list['a']",
            "input[0]",
        ],
        |error| matches!(error, EvaluateError::Type { .. }),
    );
}

#[test]
fn has_is_true_for_paths_with_a_value() {
    check(&[
        ("has(input.a.b)", "true"),
        ("has(input.empty)", "true"),
        ("has(input.none)", "false"),
        ("has(input.q.r)", "false"),
        ("has(input.name.foo)", "false"),
        ("has(item.foo)", "false"),
        ("has(input.list[2])", "true"),
        ("has(input.list[3])", "false"),
        ("has(steps['my-step'])", "true"),
        ("has(ctx)", "false"),
        ("[{'a': 1}, {}].map(x, has(x.a))", "[true,false]"),
    ]);
}

#[test]
fn functions_and_methods() {
    check(&[
        ("[size('aé'), size([1]), size({'a': 1}), length(null), 'abc'.size()]", "[2,1,1,0,3]"),
        (
            "[string(1), string(1.5), string('a'), string(null), string([1, 'x'])]",
            r#"["1","1.5","a","null","[1,\"x\"]"]"#,
        ),
        ("string(input.big)", r#""123456789012345678901234567890""#),
        ("[int(1), int(-1.9), int('42')]", "[1,-1,42]"),
        ("[double(1), double('1.5'), double(input.big)]", "[1.0,1.5,1.2345678901234568e+29]"),
        ("[first([5, 6]), first([]), first(null)]", "[5,null,null]"),
        ("keys({'b': 1, 'a': 2}) + keys(input.a)", r#"["a","b","b"]"#),
        ("'abc'.startsWith('ab') && 'abc'.endsWith('bc') && 'abc'.contains('b')", "true"),
        ("'aBé'.lowerAscii() + 'aBé'.upperAscii() + ' x '.trim()", r#""abéABéx""#),
        ("'a,b,,c'.split(',') + ('a' + 'é').split('') + ''.split(',')", r#"["a","b","","c","a","é",""]"#),
        ("['a', 'b'].join('-') + [].join('-')", r#""a-b""#),
    ]);
    check_errors(
        &[
            "size(1)",
            "first('a')",
            "keys([])",
            "'a'.contains(1)",
            "null.startsWith('a')",
            "[1].join(',')",
            "int(null)",
        ],
        |error| matches!(error, EvaluateError::Type { .. }),
    );
    check_errors(&["int('1.5')", "int('')", "double('nan')", "double('x')"], |error| {
        matches!(error, EvaluateError::Conversion { .. })
    });
}

#[test]
fn macro_variables_are_scoped() {
    check(&[
        ("input.list.map(x, x * 2)", "[6,2,4]"),
        ("input.list.filter(x, x > 1)", "[3,2]"),
        ("[[1, 2], [3]].map(l, l.map(x, [size(l), x]))", "[[[2,1],[2,2]],[[1,3]]]"),
        ("[1, 2].map(x, [10].map(x, x)[0] + x)", "[11,12]"),
        ("[1].map(item, item)", "[1]"),
        ("[[], [0]].map(l, [l.all(x, x), l.exists(x, x)])", "[[true,false],[false,false]]"),
        ("input.list.filter(x, x != 1).map(x, {'v': x})[1].v", "2"),
    ]);
    check_errors(&["null.map(x, x)", "{}.all(x, x)"], |error| matches!(error, EvaluateError::Type { .. }));
}

#[test]
fn numbers_that_are_passed_through_stay_verbatim() {
    check(&[
        ("input.big", "123456789012345678901234567890"),
        ("[input].map(x, x.big)[0]", "123456789012345678901234567890"),
        ("true ? input.huge : 0", "1e+400"),
    ]);
}

#[test]
fn each_root_and_member_is_read_at_most_once() {
    struct Recorder(RefCell<Vec<String>>);
    impl Scope for Recorder {
        fn root(&self, name: &str) -> Option<Cow<'_, Json>> {
            self.0.borrow_mut().push(name.to_owned());
            Some(Cow::Owned(json!({"x": 1})))
        }
        fn member(&self, root: &str, member: &str) -> Member<'_> {
            self.0.borrow_mut().push(format!("{root}.{member}"));
            match (root, member) {
                ("steps", "gone") => Member::Missing,
                ("steps", _) => Member::Found(Cow::Owned(json!({"output": 5}))),
                _ => Member::AskRoot,
            }
        }
    }
    let source = "[1, 2].map(x, steps['a'].output + steps.a.output + input.x) + [steps.gone] \
                  + (false ? [ctx] : [input['x']])";
    let expression = Expression::compile(source, &ROOTS).unwrap();
    let recorder = Recorder(RefCell::default());
    assert_eq!(expression.evaluate(&recorder), Ok(json!([11, 11, null, 1])));
    assert_eq!(recorder.0.into_inner(), ["steps.a", "input.x", "input", "steps.gone"]);
}

#[test]
fn expressions_are_equal_when_their_sources_are() {
    let compile = |source| Expression::compile(source, &ROOTS).unwrap();
    assert_eq!(compile("1 + 1"), compile("1 + 1").clone());
    assert_ne!(compile("1 + 1"), compile("1+1"));
    assert_eq!(compile("'x' == item").is_true(&scope()), Ok(false));
}

#[test]
fn what_is_given_costs_the_budget_when_it_is_copied_or_compared() {
    let given = |name: &str, value: Json| -> Map<String, Json> {
        serde_json::from_value(json!({"input": {name: value, "map": {}}})).unwrap()
    };
    let evaluate = |source, scope| Expression::compile(source, &ROOTS).unwrap().evaluate(&scope);
    let copied = evaluate("size(input.list + [1])", given("list", json!(vec![0; 60_000])));
    assert!(matches!(copied, Err(EvaluateError::TooLarge { .. })), "{copied:?}");
    let compared = evaluate("input.map[input.name]", given("name", json!("n".repeat(64 * 100_001))));
    assert!(matches!(compared, Err(EvaluateError::Budget { .. })), "{compared:?}");
    let counted = evaluate("size(input.name)", given("name", json!("n".repeat(64 * 100_001))));
    assert!(matches!(counted, Err(EvaluateError::Budget { .. })), "{counted:?}");
}
