//! The functions and methods of the language.
use super::budget::Budget;
use super::error::EvaluateError;
use super::limits::ALLOCATED_BYTES_MAX;
use super::number::Number;
use super::output::Output;
use super::value::{Evaluated, Map, Text, Value, mismatch};

/// `f(x)` or `x.f()`
pub(super) type Function = for<'a> fn(&Value<'a>, &mut Budget) -> Evaluated<'a>;

/// `x.f(y)`
pub(super) type Method = for<'a> fn(&Value<'a>, &Value<'a>, &mut Budget) -> Evaluated<'a>;

/// The cost of one element of a new list.
pub(super) const ITEM_BYTES: usize = size_of::<Value<'static>>();

/// The function that is called as `name(x)`.
pub(super) fn function(name: &str) -> Option<Function> {
    let function: Function = match name {
        "size" | "length" => size,
        "string" => string,
        "int" => int,
        "double" => double,
        "first" => |value, _| first(value),
        "keys" => keys,
        _ => return None,
    };
    Some(function)
}

/// The method that is called as `x.name()`.
pub(super) fn plain_method(name: &str) -> Option<Function> {
    let method: Function = match name {
        "size" => size,
        "lowerAscii" => |text, budget| rebuilt("lowerAscii()", text, budget, str::to_ascii_lowercase),
        "upperAscii" => |text, budget| rebuilt("upperAscii()", text, budget, str::to_ascii_uppercase),
        "trim" => |text, budget| rebuilt("trim()", text, budget, |text| text.trim().to_owned()),
        _ => return None,
    };
    Some(method)
}

/// The method that is called as `x.name(y)`.
pub(super) fn method(name: &str) -> Option<Method> {
    let method: Method = match name {
        "startsWith" => |text, part, budget| {
            test("startsWith()", (text, part), budget, |text, part| text.starts_with(part))
        },
        "endsWith" => {
            |text, part, budget| test("endsWith()", (text, part), budget, |text, part| text.ends_with(part))
        }
        "contains" => {
            |text, part, budget| test("contains()", (text, part), budget, |text, part| text.contains(part))
        }
        "split" => split,
        "join" => join,
        _ => return None,
    };
    Some(method)
}

/// Null has size 0, so that a missing list has a size.
fn size<'a>(value: &Value<'a>, budget: &mut Budget) -> Evaluated<'a> {
    let size = match value {
        Value::Null => 0,
        Value::Text(text) => {
            budget.read(text.as_str().len())?;
            text.as_str().chars().count()
        }
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        Value::Bool(_) | Value::Number(_) | Value::Given(_) => {
            return Err(mismatch("size()", "a string, a list or a map", value));
        }
    };
    i64::try_from(size).map(Value::int).map_err(|_| EvaluateError::Overflow)
}

fn string<'a>(value: &Value<'a>, budget: &mut Budget) -> Evaluated<'a> {
    if matches!(value, Value::Text(_)) {
        return Ok(value.clone());
    }
    let text = Output::new(ALLOCATED_BYTES_MAX).text(value)?;
    budget.allocate(text.len())?;
    Ok(Value::text(text))
}

fn int<'a>(value: &Value<'a>, budget: &mut Budget) -> Evaluated<'a> {
    if let Value::Text(text) = value {
        budget.read(text.as_str().len())?;
        let failed = EvaluateError::Conversion { operation: "int()", needs: "an integer of 64 bits" };
        return text.as_str().parse().map(Value::int).map_err(|_| failed);
    }
    number("int()", value)?.to_i64().map(Value::int)
}

fn double<'a>(value: &Value<'a>, budget: &mut Budget) -> Evaluated<'a> {
    if let Value::Text(text) = value {
        budget.read(text.as_str().len())?;
        let failed = EvaluateError::Conversion { operation: "double()", needs: "a finite number" };
        let parsed = text.as_str().parse().ok().filter(|float: &f64| float.is_finite());
        return parsed.map(|float| Value::Number(Number::Float(float))).ok_or(failed);
    }
    Ok(Value::Number(Number::Float(number("double()", value)?.to_f64())))
}

fn number(operation: &'static str, value: &Value<'_>) -> Result<Number, EvaluateError> {
    if !value.is_number() {
        return Err(mismatch(operation, "a number or a string", value));
    }
    value.number().ok_or(EvaluateError::NotFinite)
}

/// The first element; null when there is none.
fn first<'a>(value: &Value<'a>) -> Evaluated<'a> {
    if matches!(value, Value::Null) {
        return Ok(Value::Null);
    }
    let Value::List(list) = value else { return Err(mismatch("first()", "a list", value)) };
    Ok(list.get(0).unwrap_or(Value::Null))
}

fn keys<'a>(value: &Value<'a>, budget: &mut Budget) -> Evaluated<'a> {
    let Value::Map(map) = value else { return Err(mismatch("keys()", "a map", value)) };
    budget.allocate(map.len().saturating_mul(ITEM_BYTES))?;
    let keys: Vec<_> = match map {
        Map::Given(entries) => entries.keys().map(|key| Value::Text(Text::Given(key))).collect(),
        Map::Built(entries) => {
            budget.allocate(entries.keys().map(String::len).sum())?;
            entries.keys().cloned().map(Value::text).collect()
        }
    };
    Ok(Value::list(keys))
}

fn test<'a>(
    operation: &'static str,
    (receiver, argument): (&Value<'a>, &Value<'a>),
    budget: &mut Budget,
    predicate: impl FnOnce(&str, &str) -> bool,
) -> Evaluated<'a> {
    let (text, part) = (text(operation, receiver)?.as_str(), text(operation, argument)?.as_str());
    budget.read(text.len().saturating_add(part.len()))?;
    Ok(Value::Bool(predicate(text, part)))
}

fn rebuilt<'a>(
    operation: &'static str,
    receiver: &Value<'a>,
    budget: &mut Budget,
    rebuild: impl FnOnce(&str) -> String,
) -> Evaluated<'a> {
    let text = text(operation, receiver)?.as_str();
    budget.allocate(text.len())?;
    Ok(Value::text(rebuild(text)))
}

/// An empty separator splits into characters. Parts of a value from the scope are borrowed.
fn split<'a>(receiver: &Value<'a>, separator: &Value<'a>, budget: &mut Budget) -> Evaluated<'a> {
    let (whole, separator) = (text("split()", receiver)?, text("split()", separator)?.as_str());
    budget.read(whole.as_str().len())?;
    let mut items = Vec::new();
    match whole {
        Text::Given(whole) => {
            for part in pieces(whole, separator) {
                budget.allocate(ITEM_BYTES)?;
                items.push(Value::Text(Text::Given(part)));
            }
        }
        Text::Built(whole) => {
            for part in pieces(whole, separator) {
                budget.allocate(ITEM_BYTES + part.len())?;
                items.push(Value::text(part.to_owned()));
            }
        }
    }
    Ok(Value::list(items))
}

fn pieces<'t: 's, 's>(whole: &'t str, separator: &'s str) -> Box<dyn Iterator<Item = &'t str> + 's> {
    if separator.is_empty() {
        Box::new(whole.char_indices().map(|(at, character)| &whole[at..at + character.len_utf8()]))
    } else {
        Box::new(whole.split(separator))
    }
}

fn join<'a>(receiver: &Value<'a>, separator: &Value<'a>, budget: &mut Budget) -> Evaluated<'a> {
    let Value::List(list) = receiver else { return Err(mismatch("join()", "a list of strings", receiver)) };
    let separator = text("join()", separator)?.as_str();
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        budget.step()?;
        let Value::Text(part) = &item else { return Err(mismatch("join()", "a list of strings", &item)) };
        let separator = if index == 0 { "" } else { separator };
        budget.allocate(separator.len().saturating_add(part.as_str().len()))?;
        joined.push_str(separator);
        joined.push_str(part.as_str());
    }
    Ok(Value::text(joined))
}

fn text<'v, 'a>(operation: &'static str, value: &'v Value<'a>) -> Result<&'v Text<'a>, EvaluateError> {
    if let Value::Text(text) = value { Ok(text) } else { Err(mismatch(operation, "a string", value)) }
}
