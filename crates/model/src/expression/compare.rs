//! Equality, order and membership, charged to the budget.
use std::cmp::Ordering;

use super::budget::Budget;
use super::error::EvaluateError;
use super::limits::VALUE_DEPTH_MAX;
use super::value::{List, Map, Value, mismatch_of_two};

/// Deep equality; values of different types are not equal, numbers are compared by value.
pub(super) fn equal(left: &Value, right: &Value, budget: &mut Budget) -> Result<bool, EvaluateError> {
    equal_at(left, right, budget, 0)
}

/// Orders two numbers or two strings.
pub(super) fn order(
    symbol: &'static str,
    left: &Value,
    right: &Value,
    budget: &mut Budget,
) -> Result<Ordering, EvaluateError> {
    if let (Value::Text(left), Value::Text(right)) = (left, right) {
        budget.read(left.as_str().len().min(right.as_str().len()))?;
        return Ok(left.as_str().cmp(right.as_str()));
    }
    if !left.is_number() || !right.is_number() {
        return Err(mismatch_of_two(symbol, "two numbers or two strings", left, right));
    }
    let (Some(left), Some(right)) = (left.number(), right.number()) else {
        return Err(EvaluateError::NotFinite);
    };
    Ok(left.compare(right))
}

/// `needle in container`: an element of a list, or a key of a map.
pub(super) fn is_in(needle: &Value, container: &Value, budget: &mut Budget) -> Result<bool, EvaluateError> {
    match (needle, container) {
        (_, Value::List(list)) => {
            for item in list.iter() {
                if equal(needle, &item, budget)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (Value::Text(key), Value::Map(map)) => {
            budget.read(key.as_str().len())?;
            Ok(map.get(key.as_str()).is_some())
        }
        _ => Err(mismatch_of_two("in", "a list, or a string and a map", needle, container)),
    }
}

fn equal_at(left: &Value, right: &Value, budget: &mut Budget, depth: usize) -> Result<bool, EvaluateError> {
    if depth > VALUE_DEPTH_MAX {
        return Err(EvaluateError::TooDeep { depth_max: VALUE_DEPTH_MAX });
    }
    budget.step()?;
    match (left, right) {
        (Value::Null, Value::Null) => Ok(true),
        (Value::Bool(left), Value::Bool(right)) => Ok(left == right),
        (Value::Text(left), Value::Text(right)) => equal_texts(left.as_str(), right.as_str(), budget),
        (Value::List(left), Value::List(right)) => equal_lists(left, right, budget, depth),
        (Value::Map(left), Value::Map(right)) => equal_maps(left, right, budget, depth),
        (left, right) if left.is_number() && right.is_number() => equal_numbers(left, right, budget),
        _ => Ok(false),
    }
}

fn equal_texts(left: &str, right: &str, budget: &mut Budget) -> Result<bool, EvaluateError> {
    if left.len() != right.len() {
        return Ok(false);
    }
    budget.read(left.len())?;
    Ok(left == right)
}

fn equal_numbers(left: &Value, right: &Value, budget: &mut Budget) -> Result<bool, EvaluateError> {
    if let (Value::Given(left), Value::Given(right)) = (left, right)
        && equal_texts(left.as_str(), right.as_str(), budget)?
    {
        return Ok(true);
    }
    // A number outside the range of a double equals only the same text.
    Ok(left.number().zip(right.number()).is_some_and(|(left, right)| left.compare(right).is_eq()))
}

fn equal_lists(left: &List, right: &List, budget: &mut Budget, depth: usize) -> Result<bool, EvaluateError> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (left, right) in left.iter().zip(right.iter()) {
        if !equal_at(&left, &right, budget, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_maps(left: &Map, right: &Map, budget: &mut Budget, depth: usize) -> Result<bool, EvaluateError> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (key, left) in left.iter() {
        budget.read(key.len())?;
        let Some(right) = right.get(key) else { return Ok(false) };
        if !equal_at(&left, &right, budget, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn equals(left: &str, right: &str) -> bool {
        let [left, right]: [Json; 2] = [left, right].map(|text| serde_json::from_str(text).unwrap());
        equal(&Value::given(&left), &Value::given(&right), &mut Budget::new()).unwrap()
    }

    #[test]
    fn equality_is_deep_and_by_number_value() {
        assert!(equals(r#"{"a": [1, {"b": null}], "c": "x"}"#, r#"{"c": "x", "a": [1.0, {"b": null}]}"#));
        assert!(equals("1e2", "100"));
        assert!(!equals("[1, 2]", "[1]"));
        assert!(!equals(r#"{"a": 1}"#, r#"{"b": 1}"#));
        assert!(!equals("\"1\"", "1"));
        assert!(!equals("false", "null"));
    }

    #[test]
    fn numbers_beyond_floating_point_equal_only_their_own_text() {
        assert!(equals("1e400", "1e400"));
        assert!(!equals("1e400", "2e400"));
        assert!(!equals("1e400", "1"));
    }

    #[test]
    fn comparing_large_values_hits_the_budget() {
        let large = json!(vec![0; 200_000]);
        let result = equal(&Value::given(&large), &Value::given(&large), &mut Budget::new());
        assert!(matches!(result, Err(EvaluateError::Budget { .. })));
    }

    #[test]
    fn comparing_values_that_are_too_deep_is_an_error() {
        let deep = (0..=VALUE_DEPTH_MAX).fold(json!(1), |inner, _| json!([inner]));
        let result = equal(&Value::given(&deep), &Value::given(&deep), &mut Budget::new());
        assert!(matches!(result, Err(EvaluateError::TooDeep { .. })));
    }

    #[test]
    fn comparing_maps_with_long_names_hits_the_budget() {
        let long = "n".repeat(64 * 100_001);
        let large = json!({ long: 1 });
        let result = equal(&Value::given(&large), &Value::given(&large), &mut Budget::new());
        assert!(matches!(result, Err(EvaluateError::Budget { .. })));
    }
}
