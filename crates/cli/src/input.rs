//! JSON arguments: literal, from a file, or from standard input. Documents may be YAML.

use std::io::Read;

use interlock_model::document::{BYTES_MAX, DocumentText, Format, TextBounds};
use serde_json::Value;

use crate::exit::{Failure, Result};

/// Reads `-` from standard input and `@F` from the file F; anything else is the JSON itself.
pub(crate) fn json_argument(argument: &str) -> Result<Value> {
    if argument == "-" {
        return parse("standard input", &read_all("standard input", std::io::stdin().lock())?);
    }
    match argument.strip_prefix('@') {
        Some(file) => json_file(file),
        None => parse("the input", argument.as_bytes()),
    }
}

/// Reads a file, or standard input for `-`.
pub(crate) fn json_file(file: &str) -> Result<Value> {
    if file == "-" {
        return json_argument("-");
    }
    parse(file, &read_file(file)?)
}

/// A document as its author wrote it.
pub(crate) struct WrittenDocument {
    pub(crate) format: Format,
    pub(crate) bytes: Vec<u8>,
    pub(crate) text: DocumentText,
}

/// Reads a file of JSON or YAML, or standard input for `-`.
pub(crate) fn document(file: &str) -> Result<WrittenDocument> {
    let bytes =
        if file == "-" { read_all("standard input", std::io::stdin().lock())? } else { read_file(file)? };
    let format = Format::guess(file, &bytes);
    let text = DocumentText::new(&bytes, format, TextBounds::default());
    let text = text.map_err(|invalid| Failure::Usage(format!("{file}: {invalid}")))?;
    Ok(WrittenDocument { format, bytes, text })
}

fn read_file(file: &str) -> Result<Vec<u8>> {
    let opened = std::fs::File::open(file);
    let opened = opened.map_err(|error| Failure::Usage(format!("could not read {file}: {error}")))?;
    read_all(file, opened)
}

fn read_all(name: &str, from: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = from.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::Usage(format!("could not read {name}: {error}")))?;
    if bytes.len() > BYTES_MAX {
        return Err(Failure::Usage(format!(
            "{name} is larger than the server's maximum of {BYTES_MAX} bytes"
        )));
    }
    Ok(bytes)
}

fn parse(name: &str, bytes: &[u8]) -> Result<Value> {
    serde_json::from_slice(bytes).map_err(|error| Failure::Usage(format!("{name} is not JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use serde_json::json;

    use super::*;

    #[test]
    fn an_argument_is_json_unless_it_names_a_file() {
        assert_eq!(json_argument(r#"{"a": 1}"#).unwrap(), json!({"a": 1}));
        let error = json_argument("{a: 1}").unwrap_err();
        assert_eq!(error.exit().code(), 2);
        assert!(error.to_string().starts_with("the input is not JSON"), "{error}");
    }

    #[test]
    fn large_integers_are_kept_digit_for_digit() {
        let text = r#"{"id":123456789012345678901234567890}"#;
        assert_eq!(json_argument(text).unwrap().to_string(), text);
    }

    #[test]
    fn an_at_sign_names_a_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"[1, 2]").unwrap();
        let name = file.path().to_str().unwrap();
        assert_eq!(json_argument(&format!("@{name}")).unwrap(), json!([1, 2]));
        assert_eq!(json_file(name).unwrap(), json!([1, 2]));
    }

    #[test]
    fn a_missing_file_is_wrong_usage_and_is_named() {
        let error = json_argument("@/nowhere/at/all.json").unwrap_err();
        assert_eq!(error.exit().code(), 2);
        assert!(error.to_string().contains("/nowhere/at/all.json"));
    }

    #[test]
    fn an_endless_input_is_refused() {
        let error = read_all("standard input", std::io::repeat(b' ')).unwrap_err();
        assert!(error.to_string().contains("larger than"));
    }
}
