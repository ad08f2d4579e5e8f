//! Templates: JSON whose strings contain `${expression}`.
use serde_json::{Map as JsonMap, Value as Json};

use super::budget::Budget;
use super::compiled::Expression;
use super::error::{CompileError, EvaluateError};
use super::limits::{RENDERED_BYTES_MAX, TEMPLATE_DEPTH_MAX};
use super::output::Output;
use super::scope::Scope;
use super::value::Value;

/// Compiled from any JSON value. A string that is one whole `${…}` becomes the result with its type, and a null result
/// drops its key. In other strings, results are inserted as text. `$${` is a literal `${`. Keys are never templates.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    top: Part,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// Null, a boolean or a number, or a string without expressions.
    Plain(Json),
    Whole(Expression),
    Text(Vec<Segment>),
    List(Vec<Part>),
    Map(Vec<(String, Part)>),
}

#[derive(Debug, Clone, PartialEq)]
enum Segment {
    Plain(String),
    Result(Expression),
}

impl Template {
    /// Compiles every string of `value`; their expressions may read the names in `roots` and no others.
    pub fn compile(value: &Json, roots: &[&str]) -> Result<Self, CompileError> {
        Ok(Self { top: Compiler { roots, path: Vec::new() }.part(value)? })
    }

    /// The JSON with all expressions replaced. They share one budget.
    pub fn render(&self, scope: &dyn Scope) -> Result<Json, EvaluateError> {
        let mut render = Render { scope, budget: Budget::new(), output: Output::new(RENDERED_BYTES_MAX) };
        render.part(&self.top, 0)
    }
}

struct Compiler<'a> {
    roots: &'a [&'a str],
    /// The current position, for messages.
    path: Vec<String>,
}

impl Compiler<'_> {
    fn part(&mut self, value: &Json) -> Result<Part, CompileError> {
        if self.path.len() > TEMPLATE_DEPTH_MAX {
            let message = format!("the template is nested deeper than {TEMPLATE_DEPTH_MAX} levels");
            return Err(self.place(CompileError::new(message, 0)));
        }
        match value {
            Json::Null | Json::Bool(_) | Json::Number(_) => Ok(Part::Plain(value.clone())),
            Json::String(text) => self.text(text).map_err(|error| self.place(error)),
            Json::Array(items) => {
                let parts =
                    items.iter().enumerate().map(|(index, item)| self.below(&index.to_string(), item));
                parts.collect::<Result<_, _>>().map(Part::List)
            }
            Json::Object(entries) => {
                let parts = entries.iter().map(|(key, value)| Ok((key.clone(), self.below(key, value)?)));
                parts.collect::<Result<_, _>>().map(Part::Map)
            }
        }
    }

    fn below(&mut self, key: &str, value: &Json) -> Result<Part, CompileError> {
        self.path.push(key.replace('~', "~0").replace('/', "~1"));
        let part = self.part(value);
        self.path.pop();
        part
    }

    fn place(&self, error: CompileError) -> CompileError {
        let pointer = self.path.iter().flat_map(|key| ["/", key]).collect();
        CompileError { pointer: Some(pointer), ..error }
    }

    fn text(&self, text: &str) -> Result<Part, CompileError> {
        Ok(match <[Segment; 1]>::try_from(self.segments(text)?) {
            Ok([Segment::Plain(plain)]) => Part::Plain(Json::from(plain)),
            Ok([Segment::Result(expression)]) => Part::Whole(expression),
            Err(segments) if segments.is_empty() => Part::Plain(Json::from("")),
            Err(segments) => Part::Text(segments),
        })
    }

    fn segments(&self, text: &str) -> Result<Vec<Segment>, CompileError> {
        let mut segments = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(dollar) = rest.find('$') {
            plain.push_str(&rest[..dollar]);
            rest = &rest[dollar..];
            if let Some(behind) = rest.strip_prefix("$${") {
                plain.push_str("${");
                rest = behind;
            } else if let Some(behind) = rest.strip_prefix("${") {
                let offset = text.len() - behind.len();
                let end =
                    closing_brace(behind).ok_or_else(|| CompileError::new("unclosed `${`", offset - 2))?;
                let expression = Expression::compile(&behind[..end], self.roots)
                    .map_err(|error| CompileError { offset: error.offset + offset, ..error })?;
                if !plain.is_empty() {
                    segments.push(Segment::Plain(std::mem::take(&mut plain)));
                }
                segments.push(Segment::Result(expression));
                rest = &behind[end + 1..];
            } else {
                plain.push('$');
                rest = &rest[1..];
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            segments.push(Segment::Plain(plain));
        }
        Ok(segments)
    }
}

/// The end of the expression at the start of `text`: the `}` that matches no brace of the expression and is not inside a
/// string literal.
fn closing_brace(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut bytes = text.bytes().enumerate();
    // Bytes are enough, because ASCII is never part of a longer character.
    while let Some((index, byte)) = bytes.next() {
        if let Some(open) = quote {
            if byte == b'\\' {
                bytes.next();
            } else if byte == open {
                quote = None;
            }
            continue;
        }
        match byte {
            b'\'' | b'"' => quote = Some(byte),
            b'{' => depth += 1,
            b'}' if depth == 0 => return Some(index),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

struct Render<'a> {
    scope: &'a dyn Scope,
    budget: Budget,
    output: Output,
}

impl Render<'_> {
    fn part(&mut self, part: &Part, depth: usize) -> Result<Json, EvaluateError> {
        match part {
            Part::Plain(json) => self.output.json(&Value::given(json), depth),
            Part::Whole(expression) => self.whole(expression, depth),
            Part::Text(segments) => self.text(segments),
            Part::List(parts) => parts.iter().map(|part| self.part(part, depth + 1)).collect(),
            Part::Map(parts) => {
                let mut entries = JsonMap::new();
                for (key, part) in parts {
                    self.output.spend(key.len())?;
                    let value = self.part(part, depth + 1)?;
                    let is_dropped = value.is_null() && matches!(part, Part::Whole(_));
                    if !is_dropped {
                        entries.insert(key.clone(), value);
                    }
                }
                Ok(Json::Object(entries))
            }
        }
    }

    fn whole(&mut self, expression: &Expression, depth: usize) -> Result<Json, EvaluateError> {
        let Self { scope, budget, output } = self;
        expression.evaluate_within(*scope, budget, |value| output.json(&value, depth))
    }

    fn text(&mut self, segments: &[Segment]) -> Result<Json, EvaluateError> {
        let Self { scope, budget, output } = self;
        let mut text = String::new();
        for segment in segments {
            match segment {
                Segment::Plain(plain) => {
                    output.spend(plain.len())?;
                    text.push_str(plain);
                }
                Segment::Result(expression) => {
                    text += &expression.evaluate_within(*scope, budget, |value| output.text(&value))?;
                }
            }
        }
        Ok(Json::from(text))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::expression::{ALLOCATED_BYTES_MAX, STEPS_MAX};

    const ROOTS: [&str; 1] = ["input"];

    fn render(template: &Json) -> Result<Json, EvaluateError> {
        let text = r#"{"input": {"n": 1, "s": "text", "none": null, "list": [1, "a"], "big": 12345678901234567890123,
                                 "long": []}}"#;
        let mut scope: JsonMap<String, Json> = serde_json::from_str(text).unwrap();
        scope["input"]["long"] = json!(vec!["x".repeat(100); 9_000]);
        Template::compile(template, &ROOTS).unwrap().render(&scope)
    }

    #[test]
    fn a_whole_template_keeps_its_type_and_others_become_text() {
        for (template, expected) in [
            ("${input.n}", json!(1)),
            ("${ input.list }", json!([1, "a"])),
            (" ${input.n}", json!(" 1")),
            ("${input.n}${input.s}", json!("1text")),
            ("<${input.list}|${input.none}|${true}|${1.0}>", json!("<[1,\"a\"]|null|true|1.0>")),
            ("", json!("")),
            ("plain", json!("plain")),
        ] {
            assert_eq!(render(&json!(template)), Ok(expected), "{template}");
        }
        assert_eq!(render(&json!("${input.big}")).unwrap().to_string(), "12345678901234567890123");
    }

    #[test]
    fn an_expression_ends_at_its_own_brace() {
        for (template, expected) in [
            ("${{'a': {'b': 1}}.a.b}", json!(1)),
            ("${'}'}", json!("}")),
            (r#"${"\"}" + '\'{'}"#, json!("\"}'{")),
            ("${'${'}}", json!("${}")),
            ("a}${'é'}b", json!("a}éb")),
        ] {
            assert_eq!(render(&json!(template)), Ok(expected), "{template}");
        }
    }

    #[test]
    fn a_doubled_dollar_escapes_an_expression() {
        for (template, expected) in [
            ("$${input.n}", "${input.n}"),
            ("$$${input.n}", "$${input.n}"),
            ("$", "$"),
            ("$5 $$ $x", "$5 $$ $x"),
            ("a$${b}${input.n}", "a${b}1"),
        ] {
            assert_eq!(render(&json!(template)), Ok(json!(expected)), "{template}");
        }
    }

    #[test]
    fn a_key_is_dropped_when_its_whole_template_is_null() {
        let template = json!({
            "gone": "${input.none}", "text": "${input.none}!", "null": null, "list": ["${input.none}"],
            "deep": {"gone": "${input.missing.more}"}, "${key}": 1.50, "on": true
        });
        let expected =
            json!({"text": "null!", "null": null, "list": [null], "deep": {}, "${key}": 1.5, "on": true});
        assert_eq!(render(&template), Ok(expected));
    }

    #[test]
    fn a_compile_error_names_the_string() {
        for (template, error) in [
            (json!("a ${input.n"), "unclosed `${` at byte 2 of the string at \"\""),
            (json!({"a": ["${'}"]}), "unclosed `${` at byte 0 of the string at \"/a/0\""),
            (
                json!({"a/b": "é ${1 +}"}),
                "expected a value, found the end at byte 8 of the string at \"/a~1b\"",
            ),
            (json!("${}"), "expected a value, found the end at byte 2 of the string at \"\""),
        ] {
            assert_eq!(Template::compile(&template, &ROOTS).unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn the_depth_of_a_template_is_bounded() {
        let nested = |levels| (0..levels).fold(json!("${input.n}"), |inner, _| json!({ "a": inner }));
        assert!(render(&nested(TEMPLATE_DEPTH_MAX)).is_ok());
        assert!(Template::compile(&nested(TEMPLATE_DEPTH_MAX + 1), &ROOTS).is_err());
        let whole = (0..60).fold("1".to_owned(), |inner, _| format!("[{inner}]"));
        let deep = (0..60).fold(json!(format!("${{{whole}}}")), |inner, _| json!([inner]));
        assert!(matches!(render(&deep), Err(EvaluateError::TooDeep { .. })));
    }

    #[test]
    fn all_expressions_of_a_render_share_one_budget() {
        let loops = json!("${input.long.map(x, input.long[0].size())}");
        assert!(render(&loops).is_ok());
        let budget = EvaluateError::Budget { steps_max: STEPS_MAX };
        assert_eq!(render(&json!([loops.clone(), loops.clone(), loops])), Err(budget));
        let builds = json!("${size(input.long.join(''))}");
        assert!(render(&builds).is_ok());
        let large = EvaluateError::TooLarge { bytes_max: ALLOCATED_BYTES_MAX };
        assert_eq!(render(&json!([builds.clone(), builds])), Err(large));
    }

    #[test]
    fn the_size_of_a_render_is_bounded() {
        let two = json!(["${input.long}", "${input.long}"]);
        assert!(render(&two).is_ok());
        let large = EvaluateError::TooLarge { bytes_max: RENDERED_BYTES_MAX };
        assert_eq!(render(&json!(["${input.long}", "${input.long}", "${input.long}"])), Err(large.clone()));
        assert_eq!(render(&json!("${input.long}${input.long}${input.long}")), Err(large));
    }
}
