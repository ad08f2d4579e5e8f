//! Conversion of values to JSON and text, bounded in size and depth.
use serde_json::{Map as JsonMap, Number as JsonNumber, Value as Json};

use super::error::EvaluateError;
use super::limits::VALUE_DEPTH_MAX;
use super::number::Number;
use super::value::Value;

/// Approximate bytes for the separators, quotes and brackets of one value in compact JSON.
const OVERHEAD_BYTES: usize = 2;

/// Counts the bytes of the result. Copying from the scope costs no steps, because the bytes bound it.
#[derive(Debug)]
pub(super) struct Output {
    bytes_left: usize,
    bytes_max: usize,
}

impl Output {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_left: bytes_max, bytes_max }
    }

    pub(super) fn spend(&mut self, bytes: usize) -> Result<(), EvaluateError> {
        self.bytes_left = self
            .bytes_left
            .checked_sub(bytes)
            .ok_or(EvaluateError::TooLarge { bytes_max: self.bytes_max })?;
        Ok(())
    }

    /// The value as JSON, placed `depth` levels below the top.
    pub(super) fn json(&mut self, value: &Value<'_>, depth: usize) -> Result<Json, EvaluateError> {
        if depth > VALUE_DEPTH_MAX {
            return Err(EvaluateError::TooDeep { depth_max: VALUE_DEPTH_MAX });
        }
        self.spend(OVERHEAD_BYTES)?;
        match value {
            Value::Null => Ok(Json::Null),
            Value::Bool(bool) => Ok(Json::Bool(*bool)),
            Value::Number(Number::Int(int)) => Ok(Json::from(*int)),
            Value::Number(Number::Float(float)) => {
                JsonNumber::from_f64(*float).map(Json::Number).ok_or(EvaluateError::NotFinite)
            }
            Value::Given(number) => {
                self.spend(number.as_str().len())?;
                Ok(Json::Number((*number).clone()))
            }
            Value::Text(text) => {
                self.spend(text.as_str().len())?;
                Ok(Json::from(text.as_str()))
            }
            Value::List(list) => list.iter().map(|item| self.json(&item, depth + 1)).collect(),
            Value::Map(map) => {
                let mut entries = JsonMap::new();
                for (key, value) in map.iter() {
                    self.spend(key.len() + OVERHEAD_BYTES)?;
                    entries.insert(key.to_owned(), self.json(&value, depth + 1)?);
                }
                Ok(Json::Object(entries))
            }
        }
    }

    /// The value as text: a string verbatim, anything else as compact JSON.
    pub(super) fn text(&mut self, value: &Value<'_>) -> Result<String, EvaluateError> {
        if let Value::Text(text) = value {
            self.spend(text.as_str().len())?;
            return Ok(text.as_str().to_owned());
        }
        // The tree is temporary; its size only bounds the work.
        let text = Self::new(self.bytes_left).json(value, 0).map_err(|error| self.own(error))?.to_string();
        self.spend(text.len())?;
        Ok(text)
    }

    /// Reports a limit of the remaining bytes as this output's limit.
    fn own(&self, error: EvaluateError) -> EvaluateError {
        if matches!(error, EvaluateError::TooLarge { .. }) {
            EvaluateError::TooLarge { bytes_max: self.bytes_max }
        } else {
            error
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_from_the_scope_stay_verbatim() {
        for text in ["123456789012345678901234567890", "1.10", "1e+400", "-0"] {
            let given: Json = serde_json::from_str(text).unwrap();
            assert_eq!(Output::new(100).json(&Value::given(&given), 0).unwrap().to_string(), text);
        }
    }

    #[test]
    fn text_is_plain_for_strings_and_compact_json_otherwise() {
        let text = |json: &Json| Output::new(100).text(&Value::given(json)).unwrap();
        assert_eq!(text(&json!("a \"b\"")), "a \"b\"");
        assert_eq!(text(&json!({"a": [1, "x", null]})), r#"{"a":[1,"x",null]}"#);
        assert_eq!(text(&json!(null)), "null");
    }

    #[test]
    fn a_value_that_is_too_large_or_too_deep_is_an_error() {
        let large = json!("x".repeat(100));
        let error = EvaluateError::TooLarge { bytes_max: 100 };
        assert_eq!(Output::new(100).json(&Value::given(&large), 0), Err(error.clone()));
        let list = json!([large]);
        assert_eq!(Output::new(100).text(&Value::given(&list)), Err(error));
        let deep = (0..=VALUE_DEPTH_MAX).fold(json!(1), |inner, _| json!([inner]));
        let error = EvaluateError::TooDeep { depth_max: VALUE_DEPTH_MAX };
        assert_eq!(Output::new(10_000).json(&Value::given(&deep), 0), Err(error));
    }
}
