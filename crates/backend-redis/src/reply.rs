//! Replies of scripts, by name: what Lua packed with `cmsgpack`.

use std::time::Duration;

use interlock_backend::Page;
use interlock_model::{Fence, Timestamp};
use serde::de::DeserializeOwned;

/// A reply that is not what the script promises: a bug, or foreign data under our names.
#[derive(Debug)]
pub(crate) struct Unreadable(pub(crate) String);

#[derive(Debug, Clone, PartialEq)]
enum Value {
    /// Also `false`, which Redis gives to scripts for what is absent.
    Absent,
    True,
    Number(i128),
    Text(Vec<u8>),
    List(Vec<Self>),
    Map(Vec<(Vec<u8>, Self)>),
}

/// The reply of a script, or a part of it.
#[derive(Debug)]
pub(crate) struct Reply {
    script: &'static str,
    value: Value,
}

impl Reply {
    pub(crate) fn unpack(script: &'static str, packed: redis::Value) -> Result<Self, Unreadable> {
        let redis::Value::BulkString(packed) = packed else {
            return Err(Unreadable(format!("{script} replied {packed:?} where names were expected")));
        };
        let mut rest = packed.as_slice();
        match unpack(&mut rest) {
            Some(value) if rest.is_empty() => Ok(Self { script, value }),
            _ => Err(Unreadable(format!("{script} replied {} bytes that cannot be unpacked", packed.len()))),
        }
    }

    pub(crate) fn unreadable(&self, name: &str) -> Unreadable {
        Unreadable(format!("the reply of {} has no readable {name}", self.script))
    }

    /// Whether there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.value {
            Value::Absent => true,
            Value::List(items) => items.is_empty(),
            Value::Map(fields) => fields.is_empty(),
            Value::True | Value::Number(_) | Value::Text(_) => false,
        }
    }

    /// The part of this name; it is absent then.
    pub(crate) fn part(&mut self, name: &str) -> Self {
        let value = match &mut self.value {
            Value::Map(fields) => fields.iter_mut().find(|(known, _)| known == name.as_bytes()),
            Value::Absent | Value::True | Value::Number(_) | Value::Text(_) | Value::List(_) => None,
        };
        let value = value.map_or(Value::Absent, |(_, value)| std::mem::replace(value, Value::Absent));
        Self { script: self.script, value }
    }

    pub(crate) fn flag(&mut self, name: &str) -> bool {
        self.part(name).value == Value::True
    }

    pub(crate) fn optional_text(&mut self, name: &str) -> Result<Option<String>, Unreadable> {
        self.part(name).into_text(name)
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<String, Unreadable> {
        self.optional_text(name)?.ok_or_else(|| self.unreadable(name))
    }

    /// Something that may be no text.
    pub(crate) fn bytes(&mut self, name: &str) -> Result<Vec<u8>, Unreadable> {
        match self.part(name).value {
            Value::Text(bytes) => Ok(bytes),
            Value::Absent | Value::True | Value::Number(_) | Value::List(_) | Value::Map(_) => {
                Err(self.unreadable(name))
            }
        }
    }

    /// Something that is written as text or as a number; none if it is absent or empty.
    pub(crate) fn optional<T: std::str::FromStr>(&mut self, name: &str) -> Result<Option<T>, Unreadable> {
        match self.optional_text(name)? {
            None => Ok(None),
            Some(text) if text.is_empty() => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| self.unreadable(name)),
        }
    }

    pub(crate) fn parsed<T: std::str::FromStr>(&mut self, name: &str) -> Result<T, Unreadable> {
        self.optional(name)?.ok_or_else(|| self.unreadable(name))
    }

    pub(crate) fn fence(&mut self, name: &str) -> Result<Fence, Unreadable> {
        self.parsed(name).map(Fence::new)
    }

    pub(crate) fn time(&mut self, name: &str) -> Result<Timestamp, Unreadable> {
        self.parsed(name).map(Timestamp::from_millis)
    }

    pub(crate) fn optional_time(&mut self, name: &str) -> Result<Option<Timestamp>, Unreadable> {
        Ok(self.optional(name)?.map(Timestamp::from_millis))
    }

    pub(crate) fn duration(&mut self, name: &str) -> Result<Duration, Unreadable> {
        self.parsed(name).map(Duration::from_millis)
    }

    /// A document.
    pub(crate) fn json<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, Unreadable> {
        self.part(name).into_json(name)
    }

    /// Each item of a list, turned into something.
    pub(crate) fn each<T>(
        &mut self,
        name: &str,
        read: impl FnMut(Self) -> Result<T, Unreadable>,
    ) -> Result<Vec<T>, Unreadable> {
        let script = self.script;
        self.list(name)?.into_iter().map(|value| Self { script, value }).map(read).collect()
    }

    /// A list of names and values in turn, as HGETALL gives them.
    pub(crate) fn pairs<T>(
        &mut self,
        name: &str,
        mut read: impl FnMut(Self, Self) -> Result<T, Unreadable>,
    ) -> Result<Vec<T>, Unreadable> {
        let script = self.script;
        let mut values = self.list(name)?.into_iter().map(|value| Self { script, value });
        let mut found = Vec::new();
        while let (Some(first), Some(second)) = (values.next(), values.next()) {
            found.push(read(first, second)?);
        }
        Ok(found)
    }

    /// A page of a list.
    pub(crate) fn page<T>(
        mut self,
        read: impl FnMut(Self) -> Result<T, Unreadable>,
    ) -> Result<Page<T>, Unreadable> {
        let next = self.optional_text("next_page")?;
        Ok(Page { items: self.each("items", read)?, next })
    }

    /// What is there, if something is.
    pub(crate) fn when_found<T>(
        self,
        read: impl FnOnce(Self) -> Result<T, Unreadable>,
    ) -> Result<Option<T>, Unreadable> {
        if self.is_empty() { Ok(None) } else { read(self).map(Some) }
    }

    /// An item of a list as what it stands for.
    pub(crate) fn into_parsed<T: std::str::FromStr>(self, name: &str) -> Result<T, Unreadable> {
        let unreadable = self.unreadable(name);
        let text = self.into_text(name)?;
        text.and_then(|text| text.parse().ok()).ok_or(unreadable)
    }

    pub(crate) fn into_json<T: DeserializeOwned>(self, name: &str) -> Result<T, Unreadable> {
        match &self.value {
            Value::Text(text) => serde_json::from_slice(text)
                .map_err(|error| Unreadable(format!("the {name} cannot be read: {error}"))),
            Value::Absent | Value::True | Value::Number(_) | Value::List(_) | Value::Map(_) => {
                Err(self.unreadable(name))
            }
        }
    }

    fn into_text(self, name: &str) -> Result<Option<String>, Unreadable> {
        let unreadable = self.unreadable(name);
        match self.value {
            Value::Absent => Ok(None),
            Value::Text(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| unreadable),
            Value::Number(number) => Ok(Some(number.to_string())),
            Value::True | Value::List(_) | Value::Map(_) => Err(unreadable),
        }
    }

    fn list(&mut self, name: &str) -> Result<Vec<Value>, Unreadable> {
        match self.part(name).value {
            Value::List(items) => Ok(items),
            Value::Absent => Ok(Vec::new()),
            Value::True | Value::Number(_) | Value::Text(_) | Value::Map(_) => Err(self.unreadable(name)),
        }
    }
}

/// None: it is cut off, or something that `cmsgpack` does not write.
fn unpack(rest: &mut &[u8]) -> Option<Value> {
    let marker = take(rest, 1)?[0];
    Some(match marker {
        0x00..=0x7f => Value::Number(i128::from(marker)),
        0x80..=0x8f => unpack_map(rest, usize::from(marker & 0x0f))?,
        0x90..=0x9f => unpack_list(rest, usize::from(marker & 0x0f))?,
        0xa0..=0xbf => Value::Text(take(rest, usize::from(marker & 0x1f))?.to_vec()),
        0xc0 | 0xc2 => Value::Absent,
        0xc3 => Value::True,
        0xcc..=0xcf => Value::Number(i128::from(unpack_number(rest, 1 << (marker - 0xcc))?)),
        0xd0 => Value::Number(i128::from(i8::from_be_bytes(take(rest, 1)?.try_into().ok()?))),
        0xd1 => Value::Number(i128::from(i16::from_be_bytes(take(rest, 2)?.try_into().ok()?))),
        0xd2 => Value::Number(i128::from(i32::from_be_bytes(take(rest, 4)?.try_into().ok()?))),
        0xd3 => Value::Number(i128::from(i64::from_be_bytes(take(rest, 8)?.try_into().ok()?))),
        0xd9..=0xdb => {
            let length = unpack_number(rest, 1 << (marker - 0xd9))?;
            Value::Text(take(rest, usize::try_from(length).ok()?)?.to_vec())
        }
        0xdc | 0xdd => {
            let length = unpack_number(rest, 2 << (marker - 0xdc))?;
            unpack_list(rest, usize::try_from(length).ok()?)?
        }
        0xde | 0xdf => {
            let length = unpack_number(rest, 2 << (marker - 0xde))?;
            unpack_map(rest, usize::try_from(length).ok()?)?
        }
        0xe0..=0xff => Value::Number(i128::from(marker) - 256),
        _ => return None,
    })
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn unpack_number(rest: &mut &[u8], bytes: usize) -> Option<u64> {
    Some(take(rest, bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn unpack_list(rest: &mut &[u8], length: usize) -> Option<Value> {
    (0..length).map(|_| unpack(rest)).collect::<Option<_>>().map(Value::List)
}

fn unpack_map(rest: &mut &[u8], length: usize) -> Option<Value> {
    let field = |_| match unpack(rest)? {
        Value::Text(name) => Some((name, unpack(rest)?)),
        Value::Absent | Value::True | Value::Number(_) | Value::List(_) | Value::Map(_) => None,
    };
    (0..length).map(field).collect::<Option<_>>().map(Value::Map)
}
