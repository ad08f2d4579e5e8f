//! What a JSON text must not have, found before anything recurses into it.
//!
//! The deserializer keeps the last of several equal keys, and treats keys named `$serde_json::private::…` specially: the
//! text under them becomes another value. Both would let two readers see different documents, so such texts are refused.

use std::borrow::Cow;

/// Keys that the deserializer gives a meaning of its own begin with this.
const RESERVED: &[u8] = b"$serde_json::private::";

/// Why a JSON text is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedText {
    #[error("nested too deeply: at most {0} levels are read")]
    TooDeep(usize),
    #[error("the key {0:?} is given twice in one object")]
    DuplicateKey(String),
    #[error("the key {0:?} is reserved")]
    ReservedKey(String),
}

enum Level<'a> {
    Array,
    Object { keys: Vec<Key<'a>>, expects_key: bool },
}

/// A key without escapes, and where it is.
type Key<'a> = (Cow<'a, [u8]>, usize);

/// Checks the text, which need not be valid JSON: a deserializer finds other errors.
pub fn check(text: &[u8], levels_max: usize) -> Result<(), RefusedText> {
    check_at(text, levels_max).map_err(|(_, refused)| refused)
}

/// The same, with the place of an error in the text.
pub fn check_at(text: &[u8], levels_max: usize) -> Result<(), (usize, RefusedText)> {
    let mut levels: Vec<Level<'_>> = Vec::new();
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        let at = text.len() - rest.len();
        rest = after;
        match byte {
            b'{' => levels.push(Level::Object { keys: Vec::new(), expects_key: true }),
            b'[' => levels.push(Level::Array),
            b'}' | b']' => {
                if let Some(Level::Object { keys, .. }) = levels.pop() {
                    refuse_duplicates(keys)?;
                }
            }
            b'"' => {
                let (inside, after) = string(after);
                rest = after;
                if let Some(Level::Object { keys, expects_key: true }) = levels.last_mut() {
                    keys.push((key(inside).map_err(|refused| (at, refused))?, at));
                }
            }
            b',' | b':' => {
                if let Some(Level::Object { expects_key, .. }) = levels.last_mut() {
                    *expects_key = *byte == b',';
                }
            }
            _ => {}
        }
        if levels.len() > levels_max {
            return Err((at, RefusedText::TooDeep(levels_max)));
        }
    }
    Ok(())
}

/// What is between the quotes, and what follows.
fn string(text: &[u8]) -> (&[u8], &[u8]) {
    let mut place = 0;
    while let Some(byte) = text.get(place) {
        match byte {
            b'"' => return (&text[..place], &text[place + 1..]),
            b'\\' => place += 2,
            _ => place += 1,
        }
    }
    (text, &[])
}

/// A key without escapes.
fn key(inside: &[u8]) -> Result<Cow<'_, [u8]>, RefusedText> {
    let key = if inside.contains(&b'\\') {
        let quoted = [b"\"", inside, b"\""].concat();
        serde_json::from_slice::<String>(&quoted).map_or(Cow::Borrowed(inside), |key| key.into_bytes().into())
    } else {
        Cow::Borrowed(inside)
    };
    if key.starts_with(RESERVED) { Err(RefusedText::ReservedKey(shown(&key))) } else { Ok(key) }
}

fn refuse_duplicates(mut keys: Vec<Key<'_>>) -> Result<(), (usize, RefusedText)> {
    keys.sort_unstable();
    match keys.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some([_, (key, at)]) => Err((*at, RefusedText::DuplicateKey(shown(key)))),
        Some(_) | None => Ok(()),
    }
}

fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(key).chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str) -> Option<String> {
        check(text.as_bytes(), 4).err().map(|refused| refused.to_string())
    }

    #[test]
    fn equal_keys_of_one_object_are_refused_however_they_are_written() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"b":{},"\u0061":2}"#,
            r#"[{"x":[{"k":"}","q":",","k":0}]}]"#,
            r#"{"a" : {"b":1} , "a" : 2}"#,
        ] {
            assert!(refused(text).is_some_and(|why| why.contains("given twice")), "{text}");
        }
        for text in [
            r#"{"a":{"a":{"a":1}},"b":"a","c":["a","a"]}"#,
            r#"[{"a":1},{"a":1}]"#,
            r#"{"a":"\"a\":1,\"a\"","A":1}"#,
            r#""{\"a\":1,\"a\":2}""#,
            "",
            "]}}{",
            r#"{"a"#,
        ] {
            assert_eq!(refused(text), None, "{text}");
        }
    }

    #[test]
    fn a_key_that_the_deserializer_would_interpret_is_refused() {
        for key in [
            "$serde_json::private::Number",
            "$serde_json::private::RawValue",
            r"\u0024serde_json::private::Number",
        ] {
            let text = format!(r#"{{"n":{{"{key}":"1e999999999"}}}}"#);
            assert!(refused(&text).is_some_and(|why| why.contains("is reserved")), "{text}");
        }
        assert_eq!(refused(r#"{"n":"$serde_json::private::Number"}"#), None, "as a text it is only a text");
    }

    #[test]
    fn levels_are_bounded() {
        assert_eq!(refused(r#"[{"a":[{}]}]"#), None);
        assert!(refused(r#"[{"a":[{"b":[]}]}]"#).is_some_and(|why| why.contains("at most 4 levels")));
        assert_eq!(refused(r#""[[[[[[""#), None);
    }

    proptest! {
        /// Whatever serde writes has no duplicate key, and levels as many as its value.
        #[test]
        fn a_written_value_is_accepted_at_its_own_depth(
            depth in 1_usize..6, names in prop::collection::btree_set(".*", 1..5),
        ) {
            let mut value = serde_json::json!(1);
            for _ in 0..depth {
                value = names.iter().map(|name| (name.clone(), value.clone())).collect();
            }
            let text = value.to_string();
            prop_assume!(!text.contains("$serde_json"));
            prop_assert_eq!(check(text.as_bytes(), depth), Ok(()));
            prop_assert_eq!(check(text.as_bytes(), depth - 1), Err(RefusedText::TooDeep(depth - 1)));
        }
    }
}
