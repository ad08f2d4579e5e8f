//! Values during an evaluation. They borrow from the scope and the source, or share new contents, so a clone is cheap.
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Map as JsonMap, Number as JsonNumber, Value as Json};

use super::error::EvaluateError;
use super::number::Number;
use super::syntax::Literal;

pub(super) type Evaluated<'a> = Result<Value<'a>, EvaluateError>;

#[derive(Debug, Clone)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Number(Number),
    /// A number from the scope, passed through verbatim unless the expression computes with it.
    Given(&'a JsonNumber),
    Text(Text<'a>),
    List(List<'a>),
    Map(Map<'a>),
}

#[derive(Debug, Clone)]
pub(super) enum Text<'a> {
    Given(&'a str),
    Built(Rc<String>),
}

#[derive(Debug, Clone)]
pub(super) enum List<'a> {
    Given(&'a [Json]),
    Built(Rc<Vec<Value<'a>>>),
}

#[derive(Debug, Clone)]
pub(super) enum Map<'a> {
    Given(&'a JsonMap<String, Json>),
    Built(Rc<BTreeMap<String, Value<'a>>>),
}

impl<'a> Value<'a> {
    pub(super) fn given(json: &'a Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(bool) => Self::Bool(*bool),
            Json::Number(number) => Self::Given(number),
            Json::String(text) => Self::Text(Text::Given(text)),
            Json::Array(items) => Self::List(List::Given(items)),
            Json::Object(entries) => Self::Map(Map::Given(entries)),
        }
    }

    pub(super) fn literal(literal: &'a Literal) -> Self {
        match literal {
            Literal::Null => Self::Null,
            Literal::Bool(bool) => Self::Bool(*bool),
            Literal::Number(number) => Self::Number(*number),
            Literal::Text(text) => Self::Text(Text::Given(text)),
        }
    }

    pub(super) fn int(int: i64) -> Self {
        Self::Number(Number::Int(int))
    }

    pub(super) fn text(text: String) -> Self {
        Self::Text(Text::Built(Rc::new(text)))
    }

    pub(super) fn list(items: Vec<Value<'a>>) -> Self {
        Self::List(List::Built(Rc::new(items)))
    }

    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Bool(bool) => *bool,
            Self::Number(number) => !number.is_zero(),
            // A number outside the range of a double is not zero.
            Self::Given(number) => Number::given(number).is_none_or(|number| !number.is_zero()),
            Self::Text(text) => !text.as_str().is_empty(),
            Self::List(_) | Self::Map(_) => true,
        }
    }

    /// The type with its article, for messages.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) | Self::Given(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    /// `value.name`. A missing member is null, and so is every member of null. None if the value cannot have members.
    pub(super) fn member(&self, name: &str) -> Option<Value<'a>> {
        let Self::Map(map) = self else { return matches!(self, Self::Null).then_some(Self::Null) };
        Some(map.get(name).unwrap_or(Self::Null))
    }

    /// `value[key]`. A missing or out-of-range element is null, and so is every element of null. None if the value cannot
    /// have such an element.
    pub(super) fn index(&self, key: &Value<'_>) -> Option<Value<'a>> {
        match (self, key) {
            (Self::Null, _) => Some(Self::Null),
            (Self::Map(_), Value::Text(name)) => self.member(name.as_str()),
            (Self::List(list), Value::Number(_) | Value::Given(_)) => {
                let Some(Number::Int(index)) = key.number() else { return None };
                let item = usize::try_from(index).ok().and_then(|index| list.get(index));
                Some(item.unwrap_or(Self::Null))
            }
            _ => None,
        }
    }

    /// The number to compute with. None for other types and for numbers outside the range of a double.
    pub(super) fn number(&self) -> Option<Number> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Given(number) => Number::given(number),
            Self::Null | Self::Bool(_) | Self::Text(_) | Self::List(_) | Self::Map(_) => None,
        }
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Number(_) | Self::Given(_))
    }
}

pub(super) fn mismatch(operation: &'static str, needs: &'static str, found: &Value<'_>) -> EvaluateError {
    EvaluateError::Type { operation, needs, found: found.type_name().to_owned() }
}

pub(super) fn mismatch_of_two(
    operation: &'static str,
    needs: &'static str,
    left: &Value<'_>,
    right: &Value<'_>,
) -> EvaluateError {
    let found = format!("{} and {}", left.type_name(), right.type_name());
    EvaluateError::Type { operation, needs, found }
}

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Given(text) => text,
            Self::Built(text) => text,
        }
    }
}

impl<'a> List<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Given(items) => items.len(),
            Self::Built(items) => items.len(),
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<Value<'a>> {
        match self {
            Self::Given(items) => items.get(index).map(Value::given),
            Self::Built(items) => items.get(index).cloned(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Value<'a>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

impl<'a> Map<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Given(entries) => entries.len(),
            Self::Built(entries) => entries.len(),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<Value<'a>> {
        match self {
            Self::Given(entries) => entries.get(key).map(Value::given),
            Self::Built(entries) => entries.get(key).cloned(),
        }
    }

    pub(super) fn iter(&self) -> Box<dyn Iterator<Item = (&str, Value<'a>)> + '_> {
        match self {
            Self::Given(entries) => {
                Box::new(entries.iter().map(|(key, value)| (key.as_str(), Value::given(value))))
            }
            Self::Built(entries) => {
                Box::new(entries.iter().map(|(key, value)| (key.as_str(), value.clone())))
            }
        }
    }
}
