//! Idempotency keys. Only read from headers: URLs are written to logs.

use http::{HeaderMap, HeaderName};
use interlock_model::IdempotencyKey;

use crate::error::Refusal;

const NAMES: [HeaderName; 2] =
    [HeaderName::from_static("idempotency-key"), HeaderName::from_static("x-idempotency-key")];

pub(crate) fn key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Refusal> {
    let mut found: Option<IdempotencyKey> = None;
    for value in NAMES.iter().flat_map(|name| headers.get_all(name)) {
        let text =
            value.to_str().map_err(|_| Refusal::invalid("the idempotency key is not visible ASCII"))?;
        let key: IdempotencyKey = unquoted(text.trim()).parse().map_err(Refusal::invalid)?;
        if found.as_ref().is_some_and(|other| *other != key) {
            return Err(Refusal::invalid("two different idempotency keys are given"));
        }
        found = Some(key);
    }
    Ok(found)
}

/// A quoted key is a string of RFC 8941; a bare one is used as it is.
fn unquoted(text: &str) -> String {
    let Some(inside) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return text.to_owned();
    };
    let mut key = String::with_capacity(inside.len());
    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => key.extend(characters.next()),
            other => key.push(other),
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&'static str, &str)]) -> Result<Option<String>, Refusal> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        key(&map).map(|key| key.map(|key| key.to_string()))
    }

    #[test]
    fn a_quoted_key_is_the_same_as_a_bare_one() {
        for value in ["abc", "\"abc\"", " \"abc\" "] {
            assert_eq!(read(&[("idempotency-key", value)]).unwrap().as_deref(), Some("abc"));
        }
        assert_eq!(read(&[("x-idempotency-key", r#""a\"b\\c""#)]).unwrap().as_deref(), Some(r#"a"b\c"#));
        assert_eq!(read(&[]).unwrap(), None);
    }

    #[test]
    fn both_headers_may_stand_together_only_if_they_agree() {
        assert!(read(&[("idempotency-key", "a"), ("x-idempotency-key", "\"a\"")]).is_ok());
        assert!(read(&[("idempotency-key", "a"), ("x-idempotency-key", "b")]).is_err());
        assert!(read(&[("idempotency-key", "a"), ("idempotency-key", "b")]).is_err());
    }

    #[test]
    fn a_key_out_of_bounds_is_refused() {
        let too_long = "k".repeat(256);
        for value in ["", "\"\"", "a b", "\"a b\"", too_long.as_str()] {
            assert!(read(&[("idempotency-key", value)]).is_err(), "{value}");
        }
    }
}
