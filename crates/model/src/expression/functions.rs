//! The functions and methods of the language.
use super::budget::Budget;
use super::error::EvaluateError;
use super::limits::ALLOCATED_BYTES_MAX;
use super::number::Number;
use super::output::Output;
use super::syntax::{Function, Method};
use super::value::{List, Map, Text, Value, mismatch};

type Evaluated<'a> = Result<Value<'a>, EvaluateError>;

/// The cost of one element of a new list.
pub(super) const ITEM_BYTES: usize = size_of::<Value<'static>>();

pub(super) fn call<'a>(function: Function, argument: Value<'a>, budget: &mut Budget) -> Evaluated<'a> {
    match function {
        Function::Size => size(&argument, budget),
        Function::String => string(argument, budget),
        Function::Int => int(&argument, budget),
        Function::Double => double(&argument, budget),
        Function::First => first(&argument),
        Function::Keys => keys(&argument, budget),
    }
}

/// Calls a method. The parser guarantees an `argument` if the method takes one.
pub(super) fn call_method<'a>(
    method: Method,
    receiver: &Value<'a>,
    argument: &Value<'a>,
    budget: &mut Budget,
) -> Evaluated<'a> {
    match method {
        Method::Size => size(receiver, budget),
        Method::StartsWith => {
            test("startsWith()", receiver, argument, budget, |text, part| text.starts_with(part))
        }
        Method::EndsWith => test("endsWith()", receiver, argument, budget, |text, part| text.ends_with(part)),
        Method::Contains => test("contains()", receiver, argument, budget, |text, part| text.contains(part)),
        Method::LowerAscii => rebuilt("lowerAscii()", receiver, budget, str::to_ascii_lowercase),
        Method::UpperAscii => rebuilt("upperAscii()", receiver, budget, str::to_ascii_uppercase),
        Method::Trim => rebuilt("trim()", receiver, budget, |text| text.trim().to_owned()),
        Method::Split => split(receiver, argument, budget),
        Method::Join => join(receiver, argument, budget),
    }
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
        Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Given(_) => {
            return Err(mismatch("size()", "a string, a list or a map", value));
        }
    };
    Ok(Value::Int(i64::try_from(size).map_err(|_| EvaluateError::Overflow)?))
}

fn string<'a>(value: Value<'a>, budget: &mut Budget) -> Evaluated<'a> {
    if matches!(value, Value::Text(_)) {
        return Ok(value);
    }
    let text = Output::new(ALLOCATED_BYTES_MAX).text(&value)?;
    budget.allocate(text.len())?;
    Ok(Value::text(text))
}

fn int<'a>(value: &Value<'a>, budget: &mut Budget) -> Evaluated<'a> {
    if let Value::Text(text) = value {
        budget.read(text.as_str().len())?;
        let failed = EvaluateError::Conversion { operation: "int()", needs: "an integer of 64 bits" };
        return text.as_str().parse().map(Value::Int).map_err(|_| failed);
    }
    Ok(Value::Int(number("int()", value)?.to_i64()?))
}

fn double<'a>(value: &Value<'a>, budget: &mut Budget) -> Evaluated<'a> {
    if let Value::Text(text) = value {
        budget.read(text.as_str().len())?;
        let failed = EvaluateError::Conversion { operation: "double()", needs: "a finite number" };
        let parsed = text.as_str().parse().ok().filter(|float: &f64| float.is_finite());
        return parsed.map(Value::Float).ok_or(failed);
    }
    Ok(Value::Float(number("double()", value)?.to_f64()))
}

fn number(operation: &'static str, value: &Value<'_>) -> Result<Number, EvaluateError> {
    if !value.is_number() {
        return Err(mismatch(operation, "a number or a string", value));
    }
    value.number().ok_or(EvaluateError::NotFinite)
}

/// The first element; null when there is none.
fn first<'a>(value: &Value<'a>) -> Evaluated<'a> {
    match value {
        Value::Null => Ok(Value::Null),
        Value::List(list) => Ok(list.get(0).unwrap_or(Value::Null)),
        Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Given(_)
        | Value::Text(_)
        | Value::Map(_) => Err(mismatch("first()", "a list", value)),
    }
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
    receiver: &Value<'a>,
    argument: &Value<'a>,
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

/// The list that a macro iterates over.
pub(super) fn items<'a>(operation: &'static str, value: Value<'a>) -> Result<List<'a>, EvaluateError> {
    if let Value::List(list) = value { Ok(list) } else { Err(mismatch(operation, "a list", &value)) }
}
