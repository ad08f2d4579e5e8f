//! The name of a group: what the key of its limit evaluates to.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Bytes of a group's name.
pub const GROUP_BYTES_MAX: usize = 256;

/// The value of a limit's key. Empty: the only group of a limit without a key.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GroupKey(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a group has at most {GROUP_BYTES_MAX} bytes and no control characters")]
pub struct InvalidGroup;

impl GroupKey {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same in letters, digits and `%`, `-`, `_`, `.`, so that it can be a part of a row's key.
    pub fn escaped(&self) -> String {
        escaped(&self.0)
    }

    /// Reads an escaped name.
    pub fn unescape(escaped: &str) -> Option<Self> {
        let (mut bytes, mut rest) = (Vec::with_capacity(escaped.len()), escaped.as_bytes());
        while let [first, after @ ..] = rest {
            rest = after;
            if *first != b'%' {
                bytes.push(*first);
                continue;
            }
            let (digits, after) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        }
        String::from_utf8(bytes).ok()?.parse().ok()
    }
}

/// A text in letters, digits and `%`, `-`, `_`, `.`.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing into a string does not fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

impl FromStr for GroupKey {
    type Err = InvalidGroup;

    fn from_str(text: &str) -> Result<Self, InvalidGroup> {
        let is_valid = text.len() <= GROUP_BYTES_MAX && !text.chars().any(char::is_control);
        if is_valid { Ok(Self(text.to_owned())) } else { Err(InvalidGroup) }
    }
}

impl TryFrom<String> for GroupKey {
    type Error = InvalidGroup;

    fn try_from(text: String) -> Result<Self, InvalidGroup> {
        text.parse()
    }
}

impl From<GroupKey> for String {
    fn from(group: GroupKey) -> Self {
        group.0
    }
}

impl fmt::Display for GroupKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for GroupKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escaped_group_reads_back_and_has_no_separator() {
        for text in ["", "acme/api", "a%2Fb", "é:~ {x}", "0"] {
            let group: GroupKey = text.parse().unwrap();
            let escaped = group.escaped();
            assert!(!escaped.contains(['/', ':', '{', '~']), "{escaped}");
            assert_eq!(GroupKey::unescape(&escaped), Some(group));
        }
        assert_eq!(GroupKey::unescape("%4"), None);
        assert_eq!(GroupKey::unescape("%zz"), None);
        assert_eq!(GroupKey::unescape("%C3"), None);
    }

    #[test]
    fn a_group_is_short_and_printable() {
        assert!("x".repeat(GROUP_BYTES_MAX).parse::<GroupKey>().is_ok());
        assert!("x".repeat(GROUP_BYTES_MAX + 1).parse::<GroupKey>().is_err());
        assert!("a\nb".parse::<GroupKey>().is_err());
    }
}
