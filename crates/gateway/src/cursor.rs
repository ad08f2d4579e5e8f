//! Cursors: where the next page begins, in characters that need no escaping in a URL.

use std::fmt::Write as _;

use crate::error::Refusal;

/// A place in a list, as the client carries it.
pub(crate) fn encode(place: &str) -> String {
    place.bytes().fold(String::with_capacity(place.len() * 2), |mut cursor, byte| {
        let _ = write!(cursor, "{byte:02x}");
        cursor
    })
}

/// The place in a list.
pub(crate) fn decode(cursor: &str) -> Result<String, Refusal> {
    let place = decode_text(cursor)?;
    if place.chars().all(|character| character.is_ascii_graphic()) { Ok(place) } else { Err(invalid()) }
}

/// A place that may be any text.
pub(crate) fn decode_text(cursor: &str) -> Result<String, Refusal> {
    // Longer than any cursor.
    const CHARS_MAX: usize = 1_024;
    if cursor.len() > CHARS_MAX || !cursor.len().is_multiple_of(2) || !cursor.is_ascii() {
        return Err(invalid());
    }
    let digits = |at: usize| u8::from_str_radix(&cursor[at..at + 2], 16).map_err(|_| invalid());
    let bytes = (0..cursor.len()).step_by(2).map(digits).collect::<Result<Vec<u8>, Refusal>>()?;
    let place = String::from_utf8(bytes).map_err(|_| invalid())?;
    if encode(&place) == cursor { Ok(place) } else { Err(invalid()) }
}

fn invalid() -> Refusal {
    Refusal::invalid("cursor is not the next_cursor of a list")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_needs_no_escaping() {
        let place = "000001794700800/0192f0c1-0000-7000-8000-000000000001:build[3]@1";
        let cursor = encode(place);
        assert!(cursor.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_eq!(decode(&cursor).unwrap(), place);
    }

    #[test]
    fn a_cursor_that_no_list_returned_is_rejected() {
        for cursor in ["x", "zz", "+1", "0", "00", "20", "7f", "6A", "c3a9", "é0", &"61".repeat(600)] {
            assert!(decode(cursor).is_err(), "{cursor}");
        }
    }
}
